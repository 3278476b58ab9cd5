//! Rows of a table by index, and their gradients.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::Gpu;
use crate::launch::embedding;
use crate::launch::runs::Types;

pub fn entries(size: Size) -> Vec<Entry> {
    let [rows, width] = size.of([256, 1024], [8192, 4096]);
    vec![
        Entry::new(format!("{rows} of {} × {width}", 2 * rows), move |gpu| forward(gpu, rows, width)),
        Entry::new(format!("{rows} to {} × {width}", rows / 2), move |gpu| gradient(gpu, rows, width)),
    ]
}

/// Every index is another, of a table of twice as many rows.
fn forward(gpu: &mut Gpu, rows: u32, width: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let (count, table) = (u64::from(rows) * u64::from(width), 2 * rows);
    let read = [operands.bf16(2 * count), operands.u32((0..rows).map(|row| row * 17 % table))];
    let arguments = [&read[..], &[operands.bf16_result(count)], &sizes([rows, width, 0, table, 0])].concat();
    Work {
        source: embedding::source(Types::Bf16),
        launch: embedding::forward(rows, width),
        arguments,
        least: Least::of_bytes(2 * count + 4 * u64::from(rows), 2 * count),
    }
}

/// Every index twice: gradients in f32 are added to each row of the table.
fn gradient(gpu: &mut Gpu, rows: u32, width: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let (count, table) = (u64::from(rows) * u64::from(width), rows / 2);
    let tensors =
        [operands.u32((0..rows).map(|row| row * 17 % table)), operands.bf16(count), operands.f32(count / 2)];
    let of_table = 4 * u64::from(table) * u64::from(width);
    Work {
        source: embedding::source(Types::Bf16WithF32Gradients),
        launch: embedding::gradient(rows, width),
        arguments: [&tensors[..], &sizes([rows, width, 0, table])].concat(),
        least: Least::of_bytes(2 * count + of_table + 4 * u64::from(rows), of_table),
    }
}
