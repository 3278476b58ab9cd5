//! Cuts of a pipeline with one chunk a rank, each looked at by itself where they are few.

use crate::search::inner::InnerProblem;
use crate::search::passes::Way;
use crate::search::plain_ranks::PlainRanks;
use crate::strategy::Strategy;

/// So many cuts of contiguous chunks are looked at each by itself: to solve a strategy, and to prove it.
pub const MOST_CUTS: usize = 64;
pub const MOST_CUTS_PROVEN: usize = 1_024;

/// Cuts under which a strategy may be faster than it is.
pub enum OtherCuts {
    /// All of them, the earliest first.
    Few(Vec<Way>),
    /// Too many to list: none ends its step before so many seconds.
    From(f64),
}

impl InnerProblem<'_, '_> {
    /// All cuts in which no rank has more than `most` of the blocks and whose step may end before `limit` seconds, the
    /// earliest first, if they are few: each with when its step ends at the least, as its calls wait for each other.
    pub fn few_cuts(
        &self,
        outer: &Strategy,
        (blocks, most): (u32, &[u32]),
        limit: f64,
        few: usize,
    ) -> Option<Vec<Way>> {
        let ranks = outer.pipeline as usize;
        let mut plain = PlainRanks::new(self, outer);
        let mut begun: Vec<Vec<u32>> = vec![Vec::new()];
        for stage in 0..ranks {
            let behind: u32 = most[stage + 1..].iter().sum();
            let mut longer = Vec::new();
            for cuts in begun {
                let used: u32 = cuts.iter().sum();
                let left = blocks - used;
                for count in left.saturating_sub(behind)..=left.min(most[stage]) {
                    let route = self.route_of(stage, used, count);
                    if plain.rank(stage, used, count).parts.end(&route) < limit {
                        longer.push([cuts.as_slice(), &[count]].concat());
                    }
                }
                if longer.len() > few || self.closed_forms.deadline.is_over() {
                    return None;
                }
            }
            begun = longer;
        }
        let mut ways = Vec::new();
        for cuts in begun {
            let (mut used, mut steps) = (0, Vec::with_capacity(ranks));
            for (stage, &count) in cuts.iter().enumerate() {
                steps.push(plain.rank(stage, used, count).parts.step);
                used += count;
            }
            // More work in one call never lets another end earlier.
            let strategy = self.with_cuts(outer, cuts);
            let layout = self.closed_forms.whole_layout(self.costs, &strategy);
            let seconds = self.closed_forms.time(self.costs, &strategy, &layout).step_time_with(&steps).0;
            if seconds < limit {
                ways.push(Way { cuts: strategy.cuts, seconds });
            }
        }
        ways.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
        Some(ways)
    }

    /// All cuts under which the step of `outer`, with one chunk a rank and like blocks, may end before `limit` seconds,
    /// if these are few. Else when it ends at the earliest under any cuts but `cuts`: some rank then has a block more.
    pub fn other_cuts(&self, outer: &Strategy, cuts: &[u32], limit: f64) -> OtherCuts {
        let blocks: u32 = cuts.iter().sum();
        let mut plain = PlainRanks::new(self, outer);
        let Some(most) = plain.most_blocks(blocks, limit) else { return OtherCuts::From(limit) };
        let fewest = blocks.saturating_sub(most[1..].iter().sum());
        let Some(inner) = self.knowing_first(outer, fewest, limit) else { return OtherCuts::From(limit) };
        let mut least = limit;
        if let Some(ways) = inner.few_cuts(outer, (blocks, &most), limit, MOST_CUTS_PROVEN) {
            return OtherCuts::Few(ways);
        }
        let mut scratch = self.with_cuts(outer, vec![0; cuts.len()]);
        for stage in (0..cuts.len()).filter(|&stage| cuts[stage] < most[stage]) {
            let count = cuts[stage] + 1;
            let behind: u32 = most[stage + 1..].iter().sum();
            let before: u32 = most[..stage].iter().sum();
            for used in blocks.saturating_sub(count + behind)..=before.min(blocks - count) {
                let route = inner.route_of(stage, used, count);
                let known = plain.rank(stage, used, count);
                if known.parts.end(&route) >= least {
                    continue;
                }
                let steps = known.steps.clone();
                let mut layout = inner.place(&mut scratch, stage, used, count);
                let mut rank = inner.rank((&mut scratch, &mut layout), stage as u32, route).knowing(&steps);
                least = rank.best(least).map_or(least, |choice| choice.lower);
                if !rank.could_fit() {
                    break;
                }
            }
        }
        OtherCuts::From(least)
    }
}
