//! What a model takes for each sequence at the least, however large its micro-batches: it bounds all micro-batches and
//! pipelines of a shape at once, before any of them is lowered.
//!
//! No op of a device takes less for each sequence of a small micro-batch than for one of a very large one: launches and
//! latencies are paid once for all of its sequences, weights are read once, and its products fill their tiles and
//! rounds. What the last tile and round of the large one leave empty is less than [`SPARE`].

use crate::search::load::Load;
use crate::search::space::PassChoice;
use crate::strategy::Workload;

/// Tokens of a very large micro-batch on one rank.
const TOKENS: u64 = 1 << 26;
/// The most that a sequence of it may have to do with another one, in squared tokens: products stay whole numbers.
const SQUARED_TOKENS: u64 = 1 << 44;
/// The share of a very large micro-batch's time that may be lost in tiles and rounds which are not full.
const SPARE: f64 = 0.01;

/// Seconds for each sequence at the least: of the whole model, and of one of the blocks of the class that weighs most.
#[derive(Clone, Copy, Debug)]
pub struct LargeBatchBound {
    whole: f64,
    block: f64,
    blocks: u64,
}

impl LargeBatchBound {
    /// What `load`, that of a micro-batch of `sequences`, says of each of them.
    pub fn new(load: &Load, sequences: u64) -> Self {
        let each = |seconds: f64| (1.0 - SPARE) * seconds / sequences as f64;
        Self { whole: each(load.work.chain), block: each(load.block.work.chain), blocks: load.blocks }
    }

    /// Seconds that a pipeline of `ranks` ranks takes at the least for `sequences` sequences, in micro-batches of any
    /// size: blocks are whole.
    pub fn lower_bound(&self, sequences: u64, ranks: u64) -> f64 {
        let most = self.blocks.div_ceil(ranks);
        sequences as f64 * (self.whole / ranks as f64).max(most as f64 * self.block)
    }
}

/// Sequences of a very large micro-batch under context parallelism of `context`.
pub fn sequences(workload: &Workload, context: u64) -> u64 {
    let tokens = workload.seq_len.max(1);
    let many = (TOKENS * context / tokens).min(SQUARED_TOKENS * context / (tokens * tokens));
    many.max(workload.global_batch).next_power_of_two()
}

/// Sizes of tensor and context groups, experts and tensor ranks inside one, and a pass choice without what differs
/// between micro-batches and pipelines.
pub type Key = (u64, u64, (u64, u64), PassChoice);
