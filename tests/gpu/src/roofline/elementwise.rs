//! Copies, sums and looks at tensors.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::elementwise;
use crate::launch::runs::Types;
use crate::{Argument, Launch};

pub fn entries(size: Size) -> Vec<Entry> {
    let count: u64 = size.of(1 << 18, 1 << 25);
    let entry = |make: fn(&mut Operands, u64) -> Work| {
        Entry::new(format!("{count}"), move |gpu| make(&mut Operands::new(gpu), count))
    };
    let mut entries: Vec<Entry> = [add, scale, add_scaled, scaled_copy, check].map(entry).into();
    let [rows, columns] = size.of([128, 1024], [8192, 1024]);
    entries.push(Entry::new(format!("{rows} × {columns}"), move |gpu| {
        copy_columns(&mut Operands::new(gpu), rows, columns)
    }));
    entries.push(Entry::new("1", |gpu| set_number(&mut Operands::new(gpu))));
    entries
}

fn work(launch: Launch, arguments: Vec<Argument>, read: u64, written: u64) -> Work {
    Work {
        source: elementwise::source(Types::Bf16),
        launch,
        arguments,
        least: Least::of_bytes(read, written),
    }
}

fn add(operands: &mut Operands, count: u64) -> Work {
    let arguments = vec![operands.bf16(count), operands.bf16(count), Argument::U64(count)];
    work(elementwise::add(count), arguments, 2 * 2 * count, 2 * count)
}

fn scale(operands: &mut Operands, count: u64) -> Work {
    let arguments = vec![operands.f64(&[1.0]), operands.bf16(count), Argument::U64(count)];
    work(elementwise::scale(count), arguments, 2 * count + 8, 2 * count)
}

fn add_scaled(operands: &mut Operands, count: u64) -> Work {
    let arguments =
        vec![operands.f64(&[0.5]), operands.bf16(count), operands.bf16(count), Argument::U64(count)];
    work(elementwise::add_scaled(count), arguments, 2 * 2 * count + 8, 2 * count)
}

fn scaled_copy(operands: &mut Operands, count: u64) -> Work {
    let tensors = [operands.bf16(count), operands.bf16_result(count)];
    let arguments = [&tensors[..], &[Argument::U64(count), Argument::F32(0.5)]].concat();
    work(elementwise::scaled_copy(count), arguments, 2 * count, 2 * count)
}

/// Nothing is written where all values are finite.
fn check(operands: &mut Operands, count: u64) -> Work {
    let place = Argument::Buffer(operands.gpu.upload(&[u64::MAX]));
    let arguments = vec![operands.bf16(count), Argument::U64(count), place];
    work(elementwise::check(count), arguments, 2 * count, 0)
}

/// To and from matrices of twice as many columns.
fn copy_columns(operands: &mut Operands, rows: u32, columns: u32) -> Work {
    let count = u64::from(rows) * u64::from(columns);
    let tensors = [operands.bf16(2 * count), operands.bf16_result(2 * count)];
    let arguments = [&tensors[..], &sizes([rows, columns, 2 * columns, columns, 2 * columns, 0])].concat();
    work(elementwise::copy_columns(rows, columns), arguments, 2 * count, 2 * count)
}

fn set_number(operands: &mut Operands) -> Work {
    work(elementwise::set_number(), vec![operands.f64_result(1), Argument::F64(1.0)], 0, 8)
}
