//! How many blocks ranks may have, and how many micro-batches' worth of these they hold, and when.

use crate::profile::choices::Schedule;
use crate::search::load::{Load, PassTime};
use crate::search::pipeline_bound::Pipeline;

/// Blocks of the class that weighs most, of a chunk and of a rank.
#[derive(Clone, Copy)]
pub struct Counts {
    /// The fewest and the most of a chunk.
    pub each: u64,
    pub largest: u64,
    /// The fewest and the most of a rank.
    pub fewest: u64,
    pub most: u64,
}

/// What a rank holds at a moment, in chunks of micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Of its first chunk, or of any of several: between forward and backward.
    pub kept: u64,
    /// The most of these that belong to one chunk.
    pub of_one: u64,
    /// Between backward and weight pass: of all chunks together, and of each at the least.
    pub waiting: (u64, u64),
    /// A pass of a block runs then, forward as well as backward.
    pub runs: bool,
}

/// The same for its blocks.
#[derive(Clone, Copy)]
pub struct InFlight {
    /// How often a block is kept, and how often one waits for its weight pass.
    pub kept: u64,
    pub waiting: u64,
    /// The most micro-batches that any one block is kept for.
    pub of_one: u64,
    /// A pass of a block runs then.
    pub runs: bool,
}

impl Counts {
    /// How many blocks of `load` rank `rank` may have, if it is not to be slower than `best` seconds and each block
    /// adds `step` to its optimizer step. Of several chunks a rank, each has one of two numbers of all blocks; which of
    /// these are of other classes is known of the ranks behind the last such block alone.
    pub fn new((load, pipeline): (&Load, &Pipeline), rank: u64, step: PassTime, best: f64) -> Self {
        let Pipeline { ranks, chunks, micro, .. } = *pipeline;
        let Load { blocks, others, last_other, .. } = *load;
        let block = (load.block.work * micro as f64 + step).seconds();
        let most = if block > 0.0 { ((best / block) as u64).min(blocks) } else { blocks };
        if chunks == 1 {
            return Self { each: 0, largest: blocks, fewest: 0, most };
        }
        let (each, largest) =
            ((blocks + others) / (ranks * chunks), (blocks + others).div_ceil(ranks * chunks));
        let each = if rank * each >= last_other { each } else { 0 };
        Self { each, largest, fewest: chunks * each, most: most.min(chunks * largest) }
    }

    /// What a rank with `blocks` blocks in `chunks` chunks holds at `moment`.
    pub fn in_flight(self, moment: Moment, blocks: u64, chunks: u64) -> InFlight {
        let each = blocks.saturating_sub((chunks - 1) * self.largest).max(self.each);
        let (all, least) = moment.waiting;
        InFlight {
            kept: moment.kept * each,
            waiting: all * each + least * blocks.saturating_sub(chunks * each),
            of_one: moment.of_one,
            runs: moment.runs,
        }
    }
}

impl Pipeline {
    /// When rank `rank` holds the most: a forward under way among the chunks of micro-batches that it keeps; and where
    /// weight passes follow apart, when the most of these wait.
    pub fn moments(&self, rank: u64) -> (Moment, Option<Moment>) {
        let Self { ranks, chunks, micro, schedule, .. } = *self;
        let behind = ranks - rank;
        let full = |kept, waiting| Moment { kept, of_one: kept, waiting: (waiting, waiting), runs: true };
        // `delay` weight passes wait while `ahead` micro-batches are between forward and backward.
        let delayed = |ahead: u64, delay: u64| {
            let (ahead, delay) = (ahead.min(micro), delay.min(micro));
            let kept = micro.min(ahead + delay) - delay;
            let most = Moment { kept, of_one: kept, waiting: (delay, delay), runs: false };
            (full(ahead, delay.min(micro - ahead)), Some(most))
        };
        match schedule {
            Schedule::GPipe => (full(micro, 0), None),
            Schedule::OneForwardOneBackward => (full(behind.min(micro), 0), None),
            Schedule::Interleaved => {
                let ahead = match micro.is_multiple_of(ranks) {
                    _ if ranks == 1 => 1,
                    true => 2 * (behind - 1) + (chunks - 1) * ranks + 1,
                    false => micro * chunks,
                };
                let kept = ahead.min(micro * chunks);
                // Forwards alone so far: of each chunk in turn, as many micro-batches as there are ranks.
                let (rounds, begun) = (kept / (ranks * chunks), kept % (ranks * chunks));
                let of_one = (rounds * ranks + begun.min(ranks)).min(micro);
                (Moment { of_one, ..full(kept, 0) }, None)
            }
            Schedule::ZeroBubbleH1 => delayed(behind, rank),
            Schedule::ZeroBubbleH2 => delayed(2 * behind - 1, 2 * rank),
            Schedule::ZeroBubbleV => {
                // At the end, as many backwards of both chunks as there are ranks before this one run without their
                // weights. The turns are those of a full pipeline, without the micro-batches that a short step lacks.
                let missing = (2 * ranks - 1).saturating_sub(micro);
                let first = rank.saturating_sub(missing.saturating_sub(behind));
                let second = rank.saturating_sub(missing);
                let waiting = (first + second, first.min(second));
                let kept = behind.saturating_sub(missing);
                (
                    full((2 * behind - 1).min(micro), 0),
                    Some(Moment { kept, of_one: kept, waiting, runs: false }),
                )
            }
        }
    }
}
