//! How much there is to say about a strategy: of plans that take as long, the simplest to state is chosen.

use crate::profile::choices::{Compression, LossMode, OffloadCategory, Schedule};
use crate::strategy::{Checkpoint, CheckpointMode, Facts, Strategy, cuts, defaults};

/// How much there is to say about `strategy`: kinds of parallelism and keys off their defaults, and more for what
/// differs between blocks or stages. How many chunks a rank of an interleaved pipeline has goes without saying.
pub fn words(strategy: &Strategy, facts: &Facts) -> usize {
    let offloads = OffloadCategory::ALL.iter().filter(|&&category| !strategy.offload.lacks(category));
    let offload = |category: &OffloadCategory| {
        let fractions = strategy.offload.fractions(*category);
        let is_one = fractions.iter().all(|fraction| *fraction == fractions[0]);
        match fractions.first() {
            Some(1.0) if is_one => 1,
            _ if is_one => 2,
            _ => 4,
        }
    };
    let counted = [
        strategy.tensor > 1,
        strategy.context > 1,
        strategy.expert > 1,
        strategy.pipeline > 1,
        strategy.tensor > 1 && !strategy.sequence_parallel,
        strategy.schedule != Schedule::OneForwardOneBackward,
        // A chunk without blocks needs a word of why it is there.
        strategy.cuts.contains(&0),
        strategy.data > 1 && strategy.zero != facts.profile.defaults.zero,
        strategy.zero > 0 && strategy.shard < strategy.data,
        !strategy.reshard_after_forward,
        strategy.sync != defaults::sync(strategy.zero),
        strategy.loss != LossMode::Full,
        strategy.compression != Compression::None,
        strategy.order != Default::default(),
    ];
    let cuts = if strategy.cuts == cuts::left_out(facts, strategy.cuts.len()) { 0 } else { 2 };
    counted.into_iter().filter(|counts| *counts).count()
        + cuts
        + recompute_words(strategy)
        + offloads.map(offload).sum::<usize>()
}

/// None for nothing recomputed; one for a mode of all blocks, two for the first blocks of each chunk, four for else.
fn recompute_words(strategy: &Strategy) -> usize {
    let mut runs = strategy.checkpoint.iter().flat_map(|chunk| &chunk.runs).filter(|(_, count)| *count > 0);
    let Some((first, _)) = runs.next() else { return 0 };
    if runs.all(|(mode, _)| mode == first) {
        return usize::from(*first != CheckpointMode::None);
    }
    let is_first = |chunk: &Checkpoint| {
        matches!(
            chunk.runs.as_slice(),
            [] | [(CheckpointMode::Full | CheckpointMode::None, _)]
                | [(CheckpointMode::Full, _), (CheckpointMode::None, _)]
        )
    };
    let counts: Vec<u32> = strategy
        .checkpoint
        .iter()
        .map(|chunk| {
            chunk.runs.iter().filter(|(mode, _)| *mode == CheckpointMode::Full).map(|(_, count)| count).sum()
        })
        .collect();
    let is_one = counts.iter().all(|count| *count == counts[0]);
    if is_one && strategy.checkpoint.iter().all(is_first) { 2 } else { 4 }
}
