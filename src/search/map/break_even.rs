//! Where along a sweep the kind of the best strategy changes.

use crate::profile::choices::CheckpointMode;
use crate::strategy::{Key, Strategy};

/// One thing that tells kinds of strategies apart, named as in the strategy text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trait {
    pub key: &'static str,
    pub from: String,
    pub to: String,
}

/// Between two neighbouring values of a sweep, the best strategy changes its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakEven {
    pub from: u64,
    pub to: u64,
    pub changes: Vec<Trait>,
}

/// The changes of kind between neighbours of `points`, which are values of the sweep in order with their best
/// strategies. Data parallelism and accumulation are no kinds: they take up whatever devices and sequences there are.
pub fn break_evens(points: &[(u64, &Strategy)]) -> Vec<BreakEven> {
    let pairs = points.windows(2).map(|pair| (pair[0], pair[1]));
    pairs
        .map(|((from, before), (to, after))| {
            // Without accumulation, micro-batches are whatever data parallelism leaves.
            let is_left_over = before.accumulation == 1 && after.accumulation == 1;
            let kinds = kind(before).into_iter().zip(kind(after));
            let changed = kinds.filter(|((key, before), (_, after))| {
                before != after && !(*key == Key::MicroBatch && is_left_over)
            });
            let changes = changed.map(|((key, from), (_, to))| Trait { key: key.name(), from, to }).collect();
            BreakEven { from, to, changes }
        })
        .filter(|found| !found.changes.is_empty())
        .collect()
}

fn kind(strategy: &Strategy) -> [(Key, String); 9] {
    let schedule = if strategy.pipeline > 1 { strategy.schedule.to_string() } else { "none".to_owned() };
    [
        (Key::Tensor, strategy.tensor.to_string()),
        (Key::Context, strategy.context.to_string()),
        (Key::Expert, strategy.expert.to_string()),
        (Key::Pipeline, strategy.pipeline.to_string()),
        (Key::Schedule, schedule),
        (Key::Zero, strategy.zero.to_string()),
        (Key::MicroBatch, strategy.micro_batch.to_string()),
        (Key::Checkpoint, checkpointing(strategy)),
        (Key::Offload, if strategy.offload.is_none() { "none" } else { "some" }.to_owned()),
    ]
}

/// The mode of all blocks, or `mixed`.
fn checkpointing(strategy: &Strategy) -> String {
    let mut modes = strategy.checkpoint.iter().flat_map(|chunk| chunk.runs.iter().map(|(mode, _)| *mode));
    let first = modes.next().unwrap_or(CheckpointMode::None);
    if modes.all(|mode| mode == first) { first.to_string() } else { "mixed".to_owned() }
}
