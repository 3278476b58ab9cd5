//! The inner choice of an outer strategy, exact under the closed form: cuts, and for each rank what it recomputes and
//! keeps on the host.
//!
//! With one chunk a rank, any cut into runs of blocks is tried: a dynamic programme over ranks and blocks, of which
//! the least maximum over the ranks is kept. Where a rank holds several chunks, they have ⌊n⌋ or ⌈n⌉ blocks each, and
//! the remainder goes one of [`Spread::ALL`] ways.

use std::collections::HashMap;

use crate::cost::route::Route;
use crate::program::Layout;
use crate::search::choices::Options;
use crate::search::closed_forms::{ClosedForms, OuterCosts};
use crate::search::load::Load;
use crate::search::other_cuts::MOST_CUTS;
use crate::search::passes::{Way, Ways};
use crate::search::pipeline_bound::Pipeline;
use crate::search::plain_ranks::{PlainRank, PlainRanks};
use crate::search::rank::RankProblem;
use crate::strategy::{CheckpointEntry, CheckpointMode, Strategy, defaults};

/// Which chunks get one block more where they do not divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// As by default: the second chunk and those behind it.
    Default,
    /// Over the ranks in turn, on each the last chunks first.
    LastChunks,
    /// Over the ranks in turn, on each the first chunks first.
    FirstChunks,
}

impl Spread {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Default, Self::LastChunks, Self::FirstChunks];

    /// The blocks of each chunk of `strategy`.
    pub fn cuts(self, blocks: u32, strategy: &Strategy) -> Vec<u32> {
        let chunks = strategy.chunks() as usize;
        if self == Self::Default {
            return defaults::cuts(blocks, chunks);
        }
        let mut cuts = vec![blocks / chunks as u32; chunks];
        let mut left = blocks as usize % chunks;
        let last = strategy.pipeline - 1;
        // The first rank has the embedding and the last the head: they come last.
        let ranks: Vec<u64> = (1..last).chain([0, last]).collect();
        'given: for turn in 0..strategy.virtual_stages as usize {
            for &rank in &ranks {
                if left == 0 {
                    break 'given;
                }
                let own = strategy.chunks_of(rank);
                let place = if self == Self::FirstChunks { turn } else { own.len() - 1 - turn };
                cuts[own[place] as usize] += 1;
                left -= 1;
            }
        }
        cuts
    }
}

/// One outer strategy, to be solved.
#[derive(Clone, Copy)]
pub struct InnerProblem<'a, 'p> {
    pub closed_forms: &'a ClosedForms<'p>,
    pub costs: &'a OuterCosts<'p>,
    pub options: &'a Options,
    pub load: &'a Load,
    pub pipeline: Pipeline,
    /// The least that the first rank's optimizer step takes, in seconds.
    pub first_step: f64,
    /// The cuts and the checkpoint modes, if they are fixed.
    pub cuts: Option<&'a [u32]>,
    pub checkpoint: Option<&'a [CheckpointEntry]>,
}

/// An inner choice, written into its strategy, and when a step ends at the earliest under any.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub strategy: Strategy,
    pub seconds: f64,
}

/// Of each chunk of a rank, where blocks like its own stand first and how many they are; and whether it has the first
/// chunk and the last.
type RankKind = (Vec<(u32, u32)>, bool, bool);

impl<'p> InnerProblem<'_, 'p> {
    /// The best inner choice of `outer` that ends before `limit` seconds; none if nothing that does so fits. Chunks
    /// that do not adjoin are cut in one of `ways`, after whose passes `step` seconds follow in any case.
    pub fn solve(&self, outer: &Strategy, (ways, step): (&Ways, f64), limit: f64) -> Option<Chosen> {
        let blocks = self.closed_forms.problem.facts.blocks;
        if let Some(cuts) = self.cuts {
            return self.ranks(self.with_cuts(outer, cuts.to_vec()), limit);
        }
        if outer.virtual_stages > 1 {
            return self.best_of(outer, (&ways.list, step), limit);
        }
        if outer.pipeline == 1 { self.even(outer, limit) } else { self.contiguous(outer, blocks, limit) }
    }

    /// The best choice under the default cuts, or the fixed ones.
    pub fn even(&self, outer: &Strategy, limit: f64) -> Option<Chosen> {
        let blocks = self.closed_forms.problem.facts.blocks;
        let cuts = self.cuts.map_or_else(|| defaults::cuts(blocks, outer.chunks() as usize), <[u32]>::to_vec);
        self.ranks(self.with_cuts(outer, cuts), limit)
    }

    /// The same problem, knowing that the first rank has `count` blocks or more and ends before `limit` seconds; none
    /// if it cannot.
    pub fn knowing_first(&self, outer: &Strategy, count: u32, limit: f64) -> Option<Self> {
        if outer.pipeline == 1 || outer.virtual_stages > 1 {
            return Some(*self);
        }
        let mut scratch = self.with_cuts(outer, vec![0; outer.pipeline as usize]);
        let mut layout = self.place(&mut scratch, 0, 0, count);
        let mut rank = self.rank((&mut scratch, &mut layout), 0, Route::default());
        let mut least: Option<f64> = None;
        for root in rank.roots(limit) {
            if self.closed_forms.deadline.is_over() {
                return None;
            }
            let step = rank.step_of(&root.hosted);
            if least.is_none_or(|least| step < least) && rank.narrowed(root, limit).is_some() {
                least = Some(step);
            }
        }
        least.map(|step| Self { first_step: step.max(self.first_step), ..*self })
    }

    /// Each rank's own best under the cuts of `strategy`, if all are below `limit`.
    pub fn ranks(&self, strategy: Strategy, limit: f64) -> Option<Chosen> {
        self.knowing_first(&strategy, strategy.cuts[0], limit)?.ranks_on_routes(strategy, limit)
    }

    fn ranks_on_routes(&self, mut strategy: Strategy, limit: f64) -> Option<Chosen> {
        // The last rank, which has the head, first; and nothing else is looked at where one rank alone is too slow.
        let stages: Vec<u32> = (0..strategy.pipeline as u32).rev().collect();
        let mut known: HashMap<RankKind, PlainRank> = HashMap::new();
        let mut layout = self.closed_forms.whole_layout(self.costs, &strategy);
        let mut steps = vec![0.0; stages.len()];
        for &stage in &stages {
            let route = self.route(&strategy, stage);
            let key = self.kind(&strategy, stage);
            let plain = known
                .entry(key)
                .or_insert_with(|| PlainRank::of(self.rank((&mut strategy, &mut layout), stage, route)));
            if plain.parts.end(&route) >= limit {
                return None;
            }
            steps[stage as usize] = plain.parts.step;
        }
        let mut seconds = 0.0_f64;
        if strategy.virtual_stages > 1 {
            // Chunks wait for each other in turn; more work in one never lets another end earlier.
            seconds = self.closed_forms.time(self.costs, &strategy, &layout).step_time_with(&steps).0;
            if seconds >= limit {
                return None;
            }
        }
        // The first rank holds the most micro-batches.
        for &stage in stages.iter().rev() {
            let route = self.route(&strategy, stage);
            let steps = known.get(&self.kind(&strategy, stage)).map_or(&[][..], |plain| &plain.steps);
            let mut rank = self.rank((&mut strategy, &mut layout), stage, route).knowing(steps);
            let choice = rank.best(limit)?;
            rank.write(&choice.modes, &choice.hosted);
            seconds = seconds.max(choice.lower);
        }
        Some(Chosen { strategy, seconds })
    }

    /// What tells the work of a rank from others': the blocks of its chunks, and what stands at the model's ends.
    fn kind(&self, strategy: &Strategy, stage: u32) -> RankKind {
        let last = strategy.chunks() - 1;
        let chunks = strategy.chunks_of(u64::from(stage));
        let blocks = chunks.iter().map(|&chunk| {
            let (before, own) = strategy.cuts.split_at(chunk as usize);
            let used = before.iter().sum();
            (self.first_alike(used, own[0]), own[0])
        });
        (blocks.collect(), chunks.contains(&0), chunks.contains(&last))
    }

    /// Where `count` blocks like those behind the first `used` stand first.
    pub(super) fn first_alike(&self, used: u32, count: u32) -> u32 {
        match (self.load.is_even, self.load.is_plain) {
            (true, _) => 0,
            (false, true) => self.closed_forms.first_alike(used, count),
            // Losses between the blocks tell them apart.
            (false, false) => used,
        }
    }

    /// What stands before and behind the first chunk of rank `stage`.
    pub fn route(&self, strategy: &Strategy, stage: u32) -> Route {
        let before: u32 = strategy.cuts[..stage as usize].iter().sum();
        self.route_of(stage as usize, before, strategy.cuts[stage as usize])
    }

    /// The same of a rank with `count` blocks behind the first `used`.
    pub(super) fn route_of(&self, stage: usize, used: u32, count: u32) -> Route {
        self.pipeline.route(self.load, stage as u64, (u64::from(used), u64::from(count)), self.first_step)
    }

    pub fn rank<'s>(
        &'s self,
        placed: (&'s mut Strategy, &'s mut Layout),
        stage: u32,
        route: Route,
    ) -> RankProblem<'s, 'p> {
        RankProblem::new((self.closed_forms, self.costs), placed, (stage, route), self.options)
    }

    /// One chunk a rank: the cut whose slowest rank is the fastest, if it is below `limit`.
    fn contiguous(&self, outer: &Strategy, blocks: u32, limit: f64) -> Option<Chosen> {
        let mut plain = PlainRanks::new(self, outer);
        let mut most = plain.most_blocks(blocks, limit)?;
        let even = self.even(outer, limit);
        let limit = even.as_ref().map_or(limit, |even| even.seconds);
        if even.is_some() {
            match plain.most_blocks(blocks, limit) {
                Some(fewer) => most = fewer,
                None => return even,
            }
        }
        let fewest = blocks.saturating_sub(most[1..].iter().sum());
        let Some(inner) = self.knowing_first(outer, fewest, limit) else { return even };
        match inner.few_cuts(outer, (blocks, &most), limit, MOST_CUTS) {
            Some(ways) => inner.best_of(outer, (&ways, 0.0), limit).or(even),
            None => inner.cut(outer, (blocks, &most), limit).or(even),
        }
    }

    /// The best choice under any of `ways`, the earliest first, after whose ends `step` seconds follow in any case.
    fn best_of(&self, outer: &Strategy, (ways, step): (&[Way], f64), limit: f64) -> Option<Chosen> {
        let mut best: Option<Chosen> = None;
        for way in ways {
            let below = best.as_ref().map_or(limit, |best| best.seconds);
            let earliest = way.seconds + step;
            if earliest >= below {
                break;
            }
            let chosen = self.ranks(self.with_cuts(outer, way.cuts.clone()), below);
            best = chosen.map(|chosen| Chosen { seconds: chosen.seconds.max(earliest), ..chosen }).or(best);
        }
        best
    }

    /// The best cut in which no rank has more than `most` of the blocks.
    fn cut(&self, outer: &Strategy, (blocks, most): (u32, &[u32]), limit: f64) -> Option<Chosen> {
        let ranks = outer.pipeline as usize;
        let mut plain = PlainRanks::new(self, outer);
        let mut scratch = self.with_cuts(outer, vec![0; ranks]);
        // By rank, where blocks like its own stand first, and how many they are.
        let mut known: HashMap<(usize, u32, u32), AtLeast> = HashMap::new();
        // By blocks used so far: the least maximum, and how many the last rank took.
        let mut reached: Vec<Vec<Option<(f64, u32)>>> = vec![vec![None; blocks as usize + 1]; ranks + 1];
        reached[0][0] = Some((0.0, 0));
        for stage in 0..ranks {
            let behind: u32 = most[stage + 1..].iter().sum();
            for used in 0..=blocks {
                let Some((value, _)) = reached[stage][used as usize] else { continue };
                if self.closed_forms.deadline.is_over() {
                    return None;
                }
                let left = blocks - used;
                for count in left.saturating_sub(behind)..=left.min(most[stage]) {
                    let best = reached[stage + 1][(used + count) as usize].map_or(limit, |known| known.0);
                    if value >= best {
                        continue;
                    }
                    let route = self.route_of(stage, used, count);
                    let known_plain = plain.rank(stage, used, count);
                    if known_plain.parts.end(&route) >= best {
                        continue;
                    }
                    let steps = known_plain.steps.clone();
                    let alike = (stage, self.first_alike(used, count), count);
                    match known.get(&alike) {
                        // Nor do more blocks fit.
                        Some(AtLeast { seconds: f64::INFINITY, .. }) => break,
                        Some(known) if known.is_before(&route) && known.seconds >= best => continue,
                        _ => {}
                    }
                    let mut layout = self.place(&mut scratch, stage, used, count);
                    let mut rank =
                        self.rank((&mut scratch, &mut layout), stage as u32, route).knowing(&steps);
                    let Some(choice) = rank.best(best) else {
                        let seconds = if rank.could_fit() { best } else { f64::INFINITY };
                        known.insert(alike, AtLeast { route, seconds });
                        if seconds.is_infinite() {
                            break;
                        }
                        continue;
                    };
                    known.insert(alike, AtLeast { route, seconds: choice.lower });
                    let end = choice.lower.max(value);
                    if end < best {
                        reached[stage + 1][(used + count) as usize] = Some((end, count));
                    }
                }
            }
        }
        let (least, _) = reached[ranks][blocks as usize]?;
        let mut cuts = vec![0; ranks];
        let mut used = blocks;
        for stage in (0..ranks).rev() {
            let (_, count) = reached[stage + 1][used as usize]?;
            cuts[stage] = count;
            used -= count;
        }
        let chosen = self.ranks(self.with_cuts(outer, cuts), f64::INFINITY)?;
        Some(Chosen { seconds: least, ..chosen })
    }

    /// Cuts under which rank `stage` has `count` blocks behind the first `used`, and that rank laid out.
    pub(super) fn place(&self, strategy: &mut Strategy, stage: usize, used: u32, count: u32) -> Layout {
        strategy.cuts.fill(0);
        strategy.cuts[0] = used;
        strategy.cuts[stage] += count;
        strategy.checkpoint[stage] = self.entry(stage).over(count);
        self.closed_forms.layout(self.costs, strategy, stage as u32)
    }

    /// `outer` cut so; every block keeps everything, but where that is fixed.
    pub fn with_cuts(&self, outer: &Strategy, cuts: Vec<u32>) -> Strategy {
        let entries = cuts.iter().enumerate().map(|(chunk, &blocks)| self.entry(chunk).over(blocks));
        Strategy { checkpoint: entries.collect(), cuts, ..outer.clone() }
    }

    /// The checkpoint entry that chunk `chunk` starts from.
    fn entry(&self, chunk: usize) -> CheckpointEntry {
        let fixed = self.checkpoint.and_then(|entries| entries.get(chunk).or(entries.first()));
        fixed.cloned().unwrap_or(CheckpointEntry::Whole(CheckpointMode::None))
    }
}

/// What is known of a rank: where nothing before and behind it takes less than on `route`, no choice that fits ends
/// before `seconds`.
struct AtLeast {
    route: Route,
    seconds: f64,
}

impl AtLeast {
    fn is_before(&self, route: &Route) -> bool {
        let Route { there, back, beyond, .. } = self.route;
        there <= route.there && back <= route.back && beyond <= route.beyond
    }
}
