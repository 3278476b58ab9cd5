//! Dropout in place.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::dropout;
use crate::launch::runs::Types;
use crate::{Argument, Gpu};

const RATE: f64 = 0.1;

/// Numbers of the step that say what is dropped: those of steps, and the seed.
pub const NUMBERS: u64 = 2;

pub fn entries(size: Size) -> Vec<Entry> {
    let [rows, width] = size.of([64, 4096], [8192, 4096]);
    vec![Entry::new(format!("{rows} × {width}"), move |gpu| of_rows(gpu, rows, width))]
}

/// From the numbers of the step on, as kernels with dropout take them.
pub fn arguments(operands: &mut Operands, rows: u32) -> Vec<Argument> {
    let (numbers, places) = (operands.f64(&[10.0, 7.0]), operands.u32(0..rows));
    let how = [0, 1, dropout::threshold(RATE)].map(Argument::U64);
    [&[numbers, places][..], &how, &[Argument::F32(dropout::scale(RATE))]].concat()
}

fn of_rows(gpu: &mut Gpu, rows: u32, width: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let count = u64::from(rows) * u64::from(width);
    let data = operands.bf16(count);
    Work {
        source: dropout::source(Types::Bf16),
        launch: dropout::rows(rows, width),
        arguments: [&[data][..], &sizes([rows, width]), &arguments(&mut operands, rows)].concat(),
        least: Least::of_bytes(2 * count + 4 * u64::from(rows) + 8 * NUMBERS, 2 * count),
    }
}
