//! Whether an engine can run what a strategy chooses inside (cuts, what blocks recompute, what is on the host), and all
//! that it has at once.

use super::{Checkpoint, CheckpointMode, Facts, GradientSync, OffloadCategory, Schedule, Strategy, defaults};
use crate::profile::capabilities::{
    Aspect, CheckpointGrain, Conflict, CutGrain, OffloadGrain, OffloadOffer, Supports,
};

/// Whether the engine can cut the model so.
pub(super) fn cuts(strategy: &Strategy, facts: &Facts) -> bool {
    *facts.profile.supports.cuts == CutGrain::Any
        || super::cuts::of_engine(facts, strategy.cuts.len()).is_some_and(|cuts| cuts == strategy.cuts)
}

/// The engine's conflicts that the strategy runs into.
pub(super) fn conflicts<'f>(strategy: &Strategy, facts: &'f Facts<'_>) -> impl Iterator<Item = &'f Conflict> {
    let all = facts.profile.supports.conflicts.iter();
    all.filter(|conflict| conflict.of.iter().all(|aspect| has(strategy, facts, *aspect)))
}

fn has(strategy: &Strategy, facts: &Facts<'_>, aspect: Aspect) -> bool {
    match aspect {
        Aspect::WholeSequences => strategy.tensor > 1 && !strategy.sequence_parallel,
        Aspect::Mixture => !facts.experts.is_empty(),
        Aspect::TiedTable => facts.tied,
        Aspect::Tensor => strategy.tensor > 1,
        Aspect::Context => strategy.context > 1,
        Aspect::Pipeline => strategy.pipeline > 1,
        Aspect::Expert => strategy.expert > 1,
        Aspect::ShardedParameters => strategy.zero == 3,
        Aspect::HostOptimizer => !strategy.offload.lacks(OffloadCategory::Optimizer),
        Aspect::HostParameters => !strategy.offload.lacks(OffloadCategory::Parameters),
    }
}

/// Whether blocks differ in what they recompute no more than `grain` allows.
pub(super) fn checkpoint_grain(strategy: &Strategy, grain: CheckpointGrain) -> bool {
    let chunks = &strategy.checkpoint;
    let one_mode = || {
        let mut modes = chunks.iter().flat_map(|chunk| &chunk.runs).filter(|(_, count)| *count > 0);
        modes.next().is_none_or(|(first, _)| modes.all(|(mode, _)| mode == first))
    };
    match grain {
        CheckpointGrain::Block => true,
        CheckpointGrain::All => one_mode(),
        CheckpointGrain::FirstOfChunk => chunks.iter().all(|chunk| first_full(chunk).is_some()) || one_mode(),
        CheckpointGrain::First => one_mode() || has_one_count(chunks),
    }
}

/// Whether some K is the number of first blocks of every chunk that recompute wholly, of chunks with fewer all.
fn has_one_count(chunks: &[Checkpoint]) -> bool {
    let counts: Option<Vec<(u64, u64)>> =
        chunks.iter().map(|chunk| Some((first_full(chunk)?, chunk.blocks()))).collect();
    let Some(counts) = counts else { return false };
    let most = counts.iter().map(|(full, _)| *full).max().unwrap_or(0);
    counts.iter().all(|(full, blocks)| *full == most.min(*blocks))
}

/// How many blocks recompute wholly, if these are the first and the others recompute nothing.
fn first_full(chunk: &Checkpoint) -> Option<u64> {
    let mut full = 0;
    let mut is_over = false;
    for mode in chunk.modes() {
        match mode {
            CheckpointMode::Full if !is_over => full += 1,
            CheckpointMode::None => is_over = true,
            _ => return None,
        }
    }
    Some(full)
}

/// Whether the category of `offer` is split between device and host no finer than it may be.
pub(super) fn offload_grain(strategy: &Strategy, offer: &OffloadOffer) -> bool {
    let fractions = strategy.offload.fractions(offer.category);
    let is_one = || fractions.iter().all(|fraction| *fraction == fractions[0]);
    match offer.grain {
        OffloadGrain::Stage => true,
        OffloadGrain::All => is_one(),
        OffloadGrain::Whole => is_one() && fractions.iter().all(|fraction| is_whole(*fraction)),
    }
}

/// Whether the ZeRO stage goes with what of the category of `offer` is on the host.
pub(super) fn offload_zero(strategy: &Strategy, offer: &OffloadOffer) -> bool {
    let fractions = strategy.offload.fractions(offer.category);
    strategy.offload.lacks(offer.category)
        || (strategy.zero >= offer.from_zero
            && (strategy.zero >= offer.split_from_zero
                || fractions.iter().all(|fraction| is_whole(*fraction))))
}

/// Whether all that is offered is on the host, or nothing, where the engine has one switch for it.
pub(super) fn offload_together(strategy: &Strategy, supports: &Supports) -> bool {
    let mut lacking = supports.offloads().map(|category| strategy.offload.lacks(category));
    let first = lacking.next();
    !*supports.offload_together || lacking.all(|lacks| Some(lacks) == first)
}

/// Whether all blocks have the checkpoint mode that goes with the category of `offer`.
pub(super) fn offload_checkpoint(strategy: &Strategy, offer: &OffloadOffer) -> bool {
    let runs = || strategy.checkpoint.iter().flat_map(|chunk| &chunk.runs);
    strategy.offload.lacks(offer.category)
        || offer.with_checkpoint.is_none_or(|with| runs().all(|(mode, count)| *count == 0 || *mode == with))
}

/// When gradients are reduced unless told otherwise: as the text's default says, if the engine has that, else at the
/// first time that it has.
pub(super) fn default_sync(zero: u8, pipeline: u64, facts: &Facts) -> GradientSync {
    let default = defaults::sync(zero);
    let supports = &facts.profile.supports;
    let mut offered = supports.syncs(zero, pipeline > 1).peekable();
    let first = offered.peek().copied().unwrap_or(default);
    if offered.any(|sync| sync == default) { default } else { first }
}

/// Tensor parallelism inside an expert unless told otherwise: as the text's default says, if the engine has that, else
/// what it has.
pub(super) fn default_expert_tensor(tensor: u64, context: u64, data: u64, expert: u64, facts: &Facts) -> u64 {
    let default = defaults::expert_tensor(tensor, context, data, expert);
    let sizes = facts.profile.supports.expert_tensor.sizes(tensor, expert);
    let is_offered = facts.experts.is_empty() || sizes.contains(&default);
    if is_offered { default } else { sizes.first().copied().unwrap_or(default) }
}

/// The schedule unless told otherwise: 1F1B, or the first of an engine that has none.
pub(super) fn default_schedule(pipeline: u64, facts: &Facts) -> Schedule {
    let schedules = &facts.profile.supports.schedules;
    let default = Schedule::OneForwardOneBackward;
    let is_offered = pipeline == 1 || schedules.contains(&default);
    if is_offered { default } else { schedules.first().copied().unwrap_or(default) }
}

/// Whether tensor parallelism splits sequences unless told otherwise: where the engine can.
pub(super) fn default_sequence_parallel(tensor: u64, facts: &Facts) -> bool {
    tensor > 1 && facts.profile.supports.sequence_parallel.contains(&true)
}

/// Categories of `supports`, all on the host, as the text says it.
pub(super) fn everything_offloaded(supports: &Supports) -> String {
    let words = supports.offloads().map(|category: OffloadCategory| format!("{category}:1"));
    words.collect::<Vec<_>>().join("+")
}

fn is_whole(fraction: f64) -> bool {
    fraction == 0.0 || fraction == 1.0
}
