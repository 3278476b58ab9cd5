//! Shuffling: a permutation of windows that is a function, not a table.

use crate::execute::kernels::dropout::mix;

/// Rounds of the network.
const ROUNDS: u64 = 6;

/// A permutation of 0 … count−1 that a seed picks.
///
/// With h the least number of bits such that 4ʰ ≥ count, x = left·2ʰ + right goes through six rounds
/// (left, right) ← (right, left xor (low h bits of mix(mix(seed + round) xor right))), round = 0 … 5, sums taken
/// mod 2⁶⁴ (a Feistel network), `mix` being one step of splitmix64; and again until the outcome is below count.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// Of `count` things, at least one.
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self { count, half_bits: bits.div_ceil(2), seed }
    }

    /// Where `index`, below the count, goes.
    pub fn of(&self, index: u64) -> u64 {
        // A permutation of the larger range, followed until it is back inside, is one of the smaller range.
        let mut index = self.network(index);
        while index >= self.count {
            index = self.network(index);
        }
        index
    }

    fn network(&self, index: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let halves = (index >> self.half_bits, index & mask);
        let (left, right) = (0..ROUNDS).fold(halves, |(left, right), round| {
            (right, left ^ mix(mix(self.seed.wrapping_add(round)) ^ right) & mask)
        });
        left << self.half_bits | right
    }
}
