//! The named instants of a schedule: which pass of which chunk runs while what is in flight.

use crate::profile::choices::Schedule;
use crate::program::{Action, Pass, schedule};

/// A moment of one rank: a pass of a chunk starts while others are in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instant {
    /// None for the optimizer step.
    pub action: Option<(Pass, u32)>,
    /// For each chunk of the rank: micro-batches between forward and backward, and between backward and weight pass.
    pub held: Vec<(u32, u32)>,
    /// The pass before, whose sent buffers are still there.
    pub before: Option<(Pass, u32)>,
}

impl Instant {
    /// Whether everything that `other` holds this one holds too, at the same pass.
    fn covers(&self, other: &Self) -> bool {
        self.action == other.action
            && self.before == other.before
            && self
                .held
                .iter()
                .zip(&other.held)
                .all(|(mine, theirs)| mine.0 >= theirs.0 && mine.1 >= theirs.1)
    }
}

/// The instants of every rank among which its memory peak must be: none of them holds less than another.
pub fn instants(schedule: Schedule, pipeline: u64, micro: u64, chunks: u64) -> Vec<Vec<Instant>> {
    (0..pipeline).map(|stage| instants_of(schedule, pipeline, stage, micro, chunks)).collect()
}

/// The same of one rank.
pub fn instants_of(schedule: Schedule, pipeline: u64, stage: u64, micro: u64, chunks: u64) -> Vec<Instant> {
    let micro = enough(schedule, pipeline, micro);
    let order = schedule::order(schedule, pipeline, stage, micro, chunks);
    of_rank(&order, chunks, schedule.splits_weight())
}

/// Micro-batches after which a schedule only repeats itself, as far as memory goes.
fn enough(schedule: Schedule, pipeline: u64, micro: u64) -> u64 {
    let steady = match schedule {
        Schedule::GPipe => return micro,
        Schedule::Interleaved if !micro.is_multiple_of(pipeline) => return micro,
        Schedule::OneForwardOneBackward => pipeline + 2,
        Schedule::Interleaved => 4 * pipeline,
        Schedule::ZeroBubbleH1 | Schedule::ZeroBubbleH2 | Schedule::ZeroBubbleV => 6 * pipeline + 4,
    };
    micro.min(steady)
}

fn of_rank(order: &[Action], chunks: u64, splits_weight: bool) -> Vec<Instant> {
    let mut list: Vec<Instant> = Vec::new();
    let mut held = vec![(0, 0); chunks as usize];
    let mut before = None;
    for action in order {
        let this = (action.pass, action.chunk);
        add(&mut list, Instant { action: Some(this), held: held.clone(), before });
        let slot = &mut held[action.chunk as usize];
        match action.pass {
            Pass::Forward => slot.0 += 1,
            Pass::Backward => {
                slot.0 -= 1;
                slot.1 += u32::from(splits_weight);
            }
            Pass::Weight => slot.1 -= 1,
        }
        before = Some(this);
    }
    add(&mut list, Instant { action: None, held, before });
    list
}

fn add(list: &mut Vec<Instant>, instant: Instant) {
    if list.iter().rev().any(|known| known.covers(&instant)) {
        return;
    }
    list.retain(|known| !instant.covers(known));
    list.push(instant);
}
