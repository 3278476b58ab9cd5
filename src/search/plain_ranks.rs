//! Ranks of a pipeline that recompute nothing and keep nothing on the host: what no choice of theirs undercuts.

use std::collections::HashMap;

use crate::cost::route::{Parts, Route};
use crate::search::choices::Hosted;
use crate::search::inner::InnerProblem;
use crate::search::pipeline_bound::Pipeline;
use crate::search::rank::RankProblem;
use crate::strategy::Strategy;

/// A rank that recomputes nothing and keeps nothing on the host but what is fixed.
pub struct PlainRank {
    pub parts: Parts,
    /// Its optimizer steps, by what is on the host.
    pub steps: Vec<(Hosted, f64)>,
}

impl PlainRank {
    /// Of `rank`, whose choice is overwritten.
    pub fn of(mut rank: RankProblem<'_, '_>) -> Self {
        let parts = rank.plain();
        Self { parts, steps: rank.into_steps() }
    }
}

/// What ranks with one chunk have to do if they recompute nothing and keep nothing on the host.
pub struct PlainRanks<'s, 'a, 'p> {
    inner: &'s InnerProblem<'a, 'p>,
    scratch: Strategy,
    /// By whether the rank is the first, or the last; where its blocks start, if they differ; and how many they are.
    known: HashMap<((bool, bool), u32, u32), PlainRank>,
}

impl<'s, 'a, 'p> PlainRanks<'s, 'a, 'p> {
    /// The ranks of `outer`; nothing is known yet.
    pub fn new(inner: &'s InnerProblem<'a, 'p>, outer: &Strategy) -> Self {
        let scratch = inner.with_cuts(outer, vec![0; outer.pipeline as usize]);
        Self { inner, scratch, known: HashMap::new() }
    }

    /// Rank `stage` with `count` blocks behind the first `used`.
    pub fn rank(&mut self, stage: usize, used: u32, count: u32) -> &PlainRank {
        let inner = self.inner;
        let ends = (stage == 0, stage + 1 == self.scratch.cuts.len());
        // The last rank has whatever comes behind the others.
        let blocks = inner.closed_forms.problem.facts.blocks;
        let used = if ends.1 { blocks.saturating_sub(count) } else { used };
        let start = inner.first_alike(used, count);
        let scratch = &mut self.scratch;
        self.known.entry((ends, start, count)).or_insert_with(|| {
            let mut layout = inner.place(scratch, stage, used, count);
            PlainRank::of(inner.rank((scratch, &mut layout), stage as u32, Route::default()))
        })
    }

    /// The most blocks that each rank can have if it is to end before `limit`; none if all together are too few.
    pub fn most_blocks(&mut self, blocks: u32, limit: f64) -> Option<Vec<u32>> {
        let Pipeline { ranks, micro, .. } = self.inner.pipeline;
        let load = self.inner.load;
        let each = micro as f64 * load.block.work.chain;
        let quickest = if each > 0.0 { limit / each + load.others as f64 } else { f64::INFINITY };
        let quickest = (quickest as u32).min(blocks);
        let mut most = vec![quickest; ranks as usize];
        let mut behind = 0;
        for stage in (0..ranks as usize).rev() {
            if self.inner.closed_forms.deadline.is_over() {
                return None;
            }
            most[stage] = (0..=quickest).rev().find(|&count| {
                // The ranks behind take no more than they can, so the rest is before.
                let least = blocks.saturating_sub(count + behind);
                let most = if load.is_even { least } else { blocks - count };
                (least..=most).any(|used| {
                    let route = self.inner.route_of(stage, used, count);
                    // Of the heaviest blocks, at least.
                    let heaviest = f64::from(count.saturating_sub(load.others as u32));
                    route.there + route.back + each * heaviest < limit
                        && self.rank(stage, used, count).parts.end(&route) < limit
                })
            })?;
            behind += most[stage];
        }
        (most.iter().sum::<u32>() >= blocks).then_some(most)
    }
}
