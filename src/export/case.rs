//! What a configuration is written for: a problem and a strategy that is legal in it.

use super::decoder::Decoder;
use crate::search::Problem;
use crate::strategy::{CheckpointMode, Strategy};

/// A strategy for a model on a cluster.
#[derive(Clone, Copy, Debug)]
pub struct Case<'a> {
    pub problem: &'a Problem<'a>,
    pub strategy: &'a Strategy,
}

impl Case<'_> {
    /// The model as a decoder of like blocks, where it is one.
    pub fn decoder(&self) -> Option<Decoder> {
        Decoder::of(self.problem.model)
    }

    /// Devices of a node.
    pub fn devices_per_node(&self) -> u64 {
        u64::from(self.problem.cluster.devices_per_node)
    }

    /// Nodes.
    pub fn nodes(&self) -> u64 {
        u64::from(self.problem.cluster.nodes)
    }

    /// The one mode that all blocks have; none where they differ.
    pub fn checkpoint(&self) -> Option<CheckpointMode> {
        one_mode(self.strategy)
    }

    /// The blocks of each chunk: the first and the one behind the last.
    pub fn chunks(&self) -> Vec<(u32, u32)> {
        let mut first = 0;
        let chunk = |blocks: &u32| {
            let range = (first, first + blocks);
            first = range.1;
            range
        };
        self.strategy.cuts.iter().map(chunk).collect()
    }
}

/// The greatest common divisor.
pub const fn common(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The one mode that all blocks of `strategy` have; none where they differ.
pub fn one_mode(strategy: &Strategy) -> Option<CheckpointMode> {
    let mut runs = strategy.checkpoint.iter().flat_map(|chunk| &chunk.runs).filter(|(_, count)| *count > 0);
    let (first, _) = runs.next()?;
    runs.all(|(mode, _)| mode == first).then_some(*first)
}
