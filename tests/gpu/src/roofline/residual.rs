//! Residual sums with bias and dropout.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work, dropout};
use crate::Gpu;
use crate::launch::residual;
use crate::launch::runs::Types;

pub fn entries(size: Size) -> Vec<Entry> {
    let [rows, width] = size.of([64, 4096], [8192, 4096]);
    vec![Entry::new(format!("{rows} × {width}"), move |gpu| forward(gpu, rows, width))]
}

fn forward(gpu: &mut Gpu, rows: u32, width: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let [row, count] = [u64::from(width), u64::from(rows) * u64::from(width)];
    let tensors =
        [operands.bf16(count), operands.bf16(count), operands.bf16(row), operands.bf16_result(count)];
    let dropped = dropout::arguments(&mut operands, rows);
    let places = 4 * u64::from(rows);
    Work {
        source: residual::source(Types::Bf16),
        launch: residual::forward(rows, width),
        arguments: [&tensors[..], &sizes([rows, width]), &dropped].concat(),
        least: Least::of_bytes(2 * 2 * count + 2 * row + places + 8 * dropout::NUMBERS, 2 * count),
    }
}
