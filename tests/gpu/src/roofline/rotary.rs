//! Rotary positions of whole heads, in place.

use super::operands::{Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::Gpu;
use crate::launch::rotary;
use crate::launch::runs::Types;

/// Pairs of a head.
const PAIRS: u32 = 64;

pub fn entries(size: Size) -> Vec<Entry> {
    let [tokens, heads] = size.of([64, 32], [8192, 32]);
    vec![Entry::new(format!("{tokens} × {heads} × {}", 2 * PAIRS), move |gpu| turn(gpu, tokens, heads))]
}

fn turn(gpu: &mut Gpu, tokens: u32, heads: u32) -> Work {
    let mut operands = Operands::new(gpu);
    let width = heads * 2 * PAIRS;
    let count = u64::from(tokens) * u64::from(width);
    let speeds = operands.positive(u64::from(PAIRS));
    let tensors = [operands.bf16(count), operands.u32(0..tokens), speeds];
    let how = sizes([tokens, width, heads, 2 * PAIRS, PAIRS, 0]);
    Work {
        source: rotary::source(Types::Bf16),
        launch: rotary::turn(tokens, heads, PAIRS),
        arguments: [&tensors[..], &how].concat(),
        least: Least::of_bytes(2 * count + 4 * u64::from(tokens) + 4 * u64::from(PAIRS), 2 * count),
    }
}
