//! RMS norm, which is layer norm without the mean.

use super::operands::{NULL, Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::norm;
use crate::launch::runs::Types;
use crate::{Argument, Launch};

/// Bytes of a row's statistics.
const STATISTICS: u64 = 2 * 4;
const EPSILON: Argument = Argument::F32(1e-5);

pub fn entries(size: Size) -> Vec<Entry> {
    let [rows, width] = size.of([64, 4096], [8192, 4096]);
    let entry = |make: fn(&mut Operands, u32, u32) -> Work| {
        Entry::new(format!("{rows} × {width}"), move |gpu| make(&mut Operands::new(gpu), rows, width))
    };
    let parts = norm::partial_rows(rows);
    let mut entries: Vec<Entry> = [forward, statistics, input_gradient, weight_partials].map(entry).into();
    entries.push(Entry::new(format!("{parts} × {width}"), move |gpu| {
        weight_gradient(&mut Operands::new(gpu), parts, width)
    }));
    entries
}

fn work(launch: Launch, arguments: Vec<Argument>, read: u64, written: u64) -> Work {
    let source = norm::source(Types::Bf16WithF32Gradients);
    Work { source, launch, arguments, least: Least::of_bytes(read, written) }
}

fn forward(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let [row, count] = [u64::from(width), u64::from(rows) * u64::from(width)];
    let read = [operands.bf16(count), operands.bf16(row), NULL];
    let written = [operands.bf16_result(count), operands.f32_result(2 * u64::from(rows))];
    let arguments = [&read[..], &written, &sizes([width, 0]), &[EPSILON]].concat();
    let of_rows = STATISTICS * u64::from(rows);
    work(norm::forward(rows, width), arguments, 2 * count + 2 * row, 2 * count + of_rows)
}

fn statistics(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let count = u64::from(rows) * u64::from(width);
    let tensors = [operands.bf16(count), operands.f32_result(2 * u64::from(rows))];
    let arguments = [&tensors[..], &sizes([width, 0]), &[EPSILON]].concat();
    work(norm::statistics(rows, width), arguments, 2 * count, STATISTICS * u64::from(rows))
}

fn input_gradient(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let [row, count] = [u64::from(width), u64::from(rows) * u64::from(width)];
    let read = [operands.bf16(count), operands.bf16(row), operands.f32(2 * u64::from(rows))];
    let gradients = [operands.bf16(count), operands.bf16_result(count)];
    let arguments = [&read[..], &gradients, &sizes([width, 0, 0])].concat();
    let of_rows = STATISTICS * u64::from(rows);
    work(norm::input_gradient(rows, width), arguments, 2 * 2 * count + 2 * row + of_rows, 2 * count)
}

/// Sums of rows, of which there are a few: `weight_gradient` adds them up.
fn weight_partials(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let count = u64::from(rows) * u64::from(width);
    let read = [operands.bf16(count), operands.f32(2 * u64::from(rows)), operands.bf16(count)];
    let written = operands.f32_result(norm::scratch(rows, width, 1));
    let how = sizes([rows, width, norm::rows_per_block(rows), 1]);
    let of_rows = STATISTICS * u64::from(rows);
    let partials = 4 * u64::from(norm::partial_rows(rows)) * u64::from(width);
    let arguments = [&read[..], &[written], &how].concat();
    work(norm::weight_partials(rows, width), arguments, 2 * 2 * count + of_rows, partials)
}

fn weight_gradient(operands: &mut Operands, rows: u32, width: u32) -> Work {
    let [row, count] = [u64::from(width), u64::from(rows) * u64::from(width)];
    let tensors = [operands.f32(count), operands.f32_result(row)];
    let arguments = [&tensors[..], &sizes([rows, width, 0])].concat();
    work(norm::weight_gradient(width, 1), arguments, 4 * count, 4 * row)
}
