//! Local search: what a small change of an inner choice would gain, as played. One rank recomputes a block more or less,
//! or keeps a little more or less on the host, with as few recomputed blocks as then fit; or one block moves to the
//! next rank.

use crate::cost::bound::Route;
use crate::profile::choices::{CheckpointMode, OffloadCategory};
use crate::search::inner::InnerProblem;
use crate::search::modes::{Modes, Recomputed};
use crate::search::rank::{FRACTIONS, Hosted, NOTHING};
use crate::strategy::Strategy;

/// How many blocks more or less recompute wholly.
const STEPS: [i64; 5] = [0, -1, 1, -2, 2];

/// Neighbours of `strategy` that fit by closed form and may end before `limit` seconds, the likeliest first.
pub fn neighbours(
    inner: &InnerProblem<'_, '_>,
    outer: &Strategy,
    strategy: &Strategy,
    limit: f64,
) -> Vec<Strategy> {
    let mut list: Vec<(f64, Strategy)> = Vec::new();
    let closing = inner.closing;
    let mut add = |mut strategy: Strategy| {
        strategy.normalise(&closing.problem.facts);
        if list.iter().any(|(_, known)| *known == strategy) {
            return;
        }
        let closed = closing.close(&strategy);
        if closed.bound.0 < limit && closing.fits(&closed) {
            list.push((closed.bound.0, strategy));
        }
    };
    for stage in 0..strategy.pipeline as u32 {
        for (modes, hosted) in rank_changes(inner, strategy, stage) {
            if closing.deadline.is_over() {
                return Vec::new();
            }
            let mut changed = strategy.clone();
            let mut layout = closing.whole_layout(inner.forms, &changed);
            inner.rank((&mut changed, &mut layout), stage, Route::default()).write(&modes, &hosted);
            add(changed);
        }
    }
    if inner.cuts.is_none() && strategy.virtual_stages == 1 {
        for stage in 1..strategy.cuts.len() {
            for (from, to) in [(stage - 1, stage), (stage, stage - 1)] {
                let mut cuts = strategy.cuts.clone();
                if cuts[from] > 1 {
                    cuts[from] -= 1;
                    cuts[to] += 1;
                    if let Some(chosen) = inner.ranks(inner.with_cuts(outer, cuts), limit) {
                        add(chosen.strategy);
                    }
                }
            }
        }
    }
    list.sort_by(|one, other| one.0.total_cmp(&other.0));
    list.into_iter().map(|(_, strategy)| strategy).collect()
}

/// Other choices of rank `stage` of `strategy` that fit.
fn rank_changes(inner: &InnerProblem<'_, '_>, strategy: &Strategy, stage: u32) -> Vec<(Modes, Hosted)> {
    let mut scratch = strategy.clone();
    let mut layout = inner.closing.whole_layout(inner.forms, &scratch);
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
    if !rank.is_even() {
        return list;
    }
    for hosted in rank.near(&now, FRACTIONS[1]) {
        for step in STEPS {
            let Ok(full) = u32::try_from(i64::from(full) + step) else { continue };
            // As few selective ones as fit; or as many as there were, and one or two more or less.
            let fewest = rank.fewest_selective(full, &hosted);
            let same = all.checked_sub(full).filter(|_| hosted == now);
            let near = same.into_iter().flat_map(|same| [same, same + 1, same.saturating_sub(1), same + 2]);
            let counts: Vec<u32> = fewest.into_iter().chain(near).collect();
            for selective in counts {
                let recomputed = Recomputed { full, selective };
                if rank.is_possible(recomputed) && rank.fits(recomputed, &hosted) {
                    list.push((Modes::All(recomputed), hosted));
                }
            }
        }
    }
    list
}
