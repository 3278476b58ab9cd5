//! Local search: what a small change of an inner choice would gain, as played. One rank recomputes a block more or
//! less, or keeps a little more or less on the host, with as few recomputed blocks as then fit; or one block moves to
//! the next rank.

use crate::cost::route::Route;
use crate::profile::choices::{CheckpointMode, OffloadCategory};
use crate::search::choices::{FRACTIONS, NOTHING};
use crate::search::closed_forms::Closed;
use crate::search::inner::InnerProblem;
use crate::search::modes::Recomputed;
use crate::strategy::Strategy;

/// How many blocks more or less recompute wholly.
const STEPS: [i64; 5] = [0, -1, 1, -2, 2];

/// Neighbours of `strategy` that fit by closed form and may end before `limit` seconds, the likeliest first.
pub fn neighbours(
    inner: &InnerProblem<'_, '_>,
    outer: &Strategy,
    strategy: &Strategy,
    limit: f64,
) -> Vec<(Strategy, Closed)> {
    let closed_forms = inner.closed_forms;
    let stages = 0..strategy.pipeline as u32;
    let changed = stages.flat_map(|stage| rank_changes(inner, strategy, stage));
    let mut list: Vec<(Strategy, Closed)> = Vec::new();
    for mut strategy in changed.chain(cut_changes(inner, outer, strategy, limit)) {
        strategy.normalise(&closed_forms.problem.facts);
        if closed_forms.deadline.is_over() {
            return Vec::new();
        }
        if list.iter().all(|(known, _)| *known != strategy) {
            let closed = closed_forms.close(&strategy);
            if closed.bound.0 < limit && closed_forms.fits(&closed) {
                list.push((strategy, closed));
            }
        }
    }
    list.sort_by(|one, other| one.1.likely.0.total_cmp(&other.1.likely.0));
    list
}

/// `strategy` with one block more or less on one of two neighbouring ranks of one chunk each, and their best inner
/// choices.
fn cut_changes(
    inner: &InnerProblem<'_, '_>,
    outer: &Strategy,
    strategy: &Strategy,
    limit: f64,
) -> Vec<Strategy> {
    if inner.cuts.is_some() || strategy.virtual_stages > 1 {
        return Vec::new();
    }
    let pairs = (1..strategy.cuts.len()).flat_map(|stage| [(stage - 1, stage), (stage, stage - 1)]);
    let changed = pairs.filter(|&(from, _)| strategy.cuts[from] > 1).filter_map(|(from, to)| {
        let mut cuts = strategy.cuts.clone();
        cuts[from] -= 1;
        cuts[to] += 1;
        inner.ranks(inner.with_cuts(outer, cuts), limit)
    });
    changed.map(|chosen| chosen.strategy).collect()
}

/// `strategy` with other choices of rank `stage` that fit.
fn rank_changes(inner: &InnerProblem<'_, '_>, strategy: &Strategy, stage: u32) -> Vec<Strategy> {
    let mut scratch = strategy.clone();
    let mut layout = inner.closed_forms.whole_layout(inner.costs, &scratch);
    let chunks = strategy.chunks_of(u64::from(stage));
    let count = |mode| {
        let modes = chunks.iter().flat_map(|&chunk| strategy.checkpoint[chunk as usize].modes());
        modes.filter(|known| *known == mode).count() as u32
    };
    let full = count(CheckpointMode::Full);
    let all = full + count(CheckpointMode::Selective);
    let mut now = NOTHING;
    for (slot, &category) in now.iter_mut().zip(OffloadCategory::ALL) {
        *slot = strategy.offload.fraction(category, stage as usize);
    }
    let mut rank = inner.rank((&mut scratch, &mut layout), stage, Route::default());
    let mut list = Vec::new();
    if !rank.is_even {
        return list;
    }
    for hosted in rank.near(&now, FRACTIONS[1]) {
        for step in STEPS {
            let Ok(full) = u32::try_from(i64::from(full) + step) else { continue };
            // As few selective ones as fit; or as many as there were, and one or two more or less.
            let fewest = rank.fewest_selective(full, &hosted);
            let same = all.checked_sub(full).filter(|_| hosted == now);
            let near = same.into_iter().flat_map(|same| [same, same + 1, same.saturating_sub(1), same + 2]);
            for selective in fewest.into_iter().chain(near) {
                let recomputed = Recomputed { full, selective };
                // What was asked about is written down.
                if rank.is_possible(recomputed) && rank.fits(recomputed, &hosted) {
                    list.push(rank.strategy.clone());
                }
            }
        }
    }
    list
}
