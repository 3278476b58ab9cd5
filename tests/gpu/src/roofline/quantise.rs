//! Saved activations in eight bits.

use super::operands::Operands;
use super::{Entry, Least, Size, Work};
use crate::launch::quantise;
use crate::launch::runs::Types;
use crate::{Argument, Gpu};

/// Elements that share a scale.
const GROUP: u64 = 256;

pub fn entries(size: Size) -> Vec<Entry> {
    let count = size.of(1 << 18, 1 << 25);
    vec![
        Entry::new(format!("{count}"), move |gpu| to_bytes(gpu, count)),
        Entry::new(format!("{count}"), move |gpu| from_bytes(gpu, count)),
    ]
}

/// A byte an element, four for each scale.
fn bytes_of(count: u64) -> u64 {
    count + 4 * count.div_ceil(GROUP)
}

fn to_bytes(gpu: &mut Gpu, count: u64) -> Work {
    let values = Operands::new(gpu).bf16(count);
    let bytes = Argument::Buffer(gpu.uninitialised::<u8>(bytes_of(count) as usize));
    Work {
        source: quantise::source(Types::Bf16, 8),
        launch: quantise::quantise(count),
        arguments: vec![values, bytes, Argument::U64(count)],
        least: Least::of_bytes(2 * count, bytes_of(count)),
    }
}

fn from_bytes(gpu: &mut Gpu, count: u64) -> Work {
    let bytes: Vec<u8> = (0..bytes_of(count)).map(|at| (at % 63) as u8).collect();
    let bytes = Argument::Buffer(gpu.upload(&bytes));
    let values = Operands::new(gpu).bf16_result(count);
    Work {
        source: quantise::source(Types::Bf16, 8),
        launch: quantise::dequantise(count),
        arguments: vec![bytes, values, Argument::U64(count)],
        least: Least::of_bytes(bytes_of(count), 2 * count),
    }
}
