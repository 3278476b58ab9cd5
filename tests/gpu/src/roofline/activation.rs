//! Activation functions, of which one stands for all.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::activation::{self, Function};
use crate::launch::runs::Types;
use crate::{Argument, Launch};

/// Slots of an expert, and elements of the rows that experts were sent.
const SLOTS: u32 = 64;
const HIDDEN: u32 = 32;

pub fn entries(size: Size) -> Vec<Entry> {
    let [rows, width] = size.of([64, 4096], [8192, 4096]);
    let entry = |make: fn(&mut Operands, u32, u32) -> Work| {
        Entry::new(format!("{rows} × {width}"), move |gpu| make(&mut Operands::new(gpu), rows, width))
    };
    [forward, gradient, gated_forward, gated_gradient, expert_forward, expert_gradient].map(entry).into()
}

fn work(launch: Launch, arguments: Vec<Argument>, read: u64, written: u64) -> Work {
    let source = activation::source(Types::Bf16, Function::GeluTanh);
    Work { source, launch, arguments, least: Least::of_bytes(read, written) }
}

fn forward(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let count = u64::from(rows) * u64::from(width);
    let matrices = [operands.bf16(count), operands.bf16_result(count)];
    let arguments = [&matrices[..], &sizes([rows, width])].concat();
    work(activation::forward(rows, width), arguments, 2 * count, 2 * count)
}

fn gradient(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let count = u64::from(rows) * u64::from(width);
    let matrices = [operands.bf16(count), operands.bf16(count), operands.bf16_result(count)];
    let arguments = [&matrices[..], &sizes([rows, width])].concat();
    work(activation::gradient(rows, width), arguments, 2 * 2 * count, 2 * count)
}

fn gated_forward(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let count = u64::from(rows) * u64::from(width);
    let matrices = [operands.bf16(count), operands.bf16(count), operands.bf16_result(count)];
    let arguments = [&matrices[..], &sizes([rows, width, width])].concat();
    work(activation::gated_forward(rows, width), arguments, 2 * 2 * count, 2 * count)
}

fn gated_gradient(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let count = u64::from(rows) * u64::from(width);
    let read = [operands.bf16(count), operands.bf16(count), operands.bf16(count)];
    let written = [operands.bf16_result(count), operands.bf16_result(count)];
    let arguments = [&read[..], &written, &sizes([rows, width, width])].concat();
    work(activation::gated_gradient(rows, width), arguments, 3 * 2 * count, 2 * 2 * count)
}

/// Elements of what experts were sent: rows of all slots, and the weights of the slots.
fn sent(rows: u32) -> u64 {
    u64::from(rows) * u64::from(HIDDEN + 1)
}

/// Of what experts were sent, only the weights are read.
fn expert_forward(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let count = u64::from(rows) * u64::from(width);
    let read = [operands.bf16(count), operands.bf16(count), operands.bf16(sent(rows))];
    let how = sizes([rows, width, SLOTS, HIDDEN]);
    let arguments = [&read[..], &[operands.bf16_result(count)], &how].concat();
    let weights = 2 * u64::from(rows);
    work(activation::expert_forward(rows, width), arguments, 2 * 2 * count + weights, 2 * count)
}

fn expert_gradient(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let count = u64::from(rows) * u64::from(width);
    let read = [operands.bf16(count), operands.bf16(count), operands.bf16(sent(rows)), operands.bf16(count)];
    let written =
        [operands.bf16_result(count), operands.bf16_result(count), operands.bf16_result(sent(rows))];
    let arguments = [&read[..], &written, &sizes([width, SLOTS, HIDDEN])].concat();
    let weights = 2 * u64::from(rows);
    let (read, written) = (3 * 2 * count + weights, 2 * 2 * count + weights);
    work(activation::expert_gradient(rows, width), arguments, read, written)
}
