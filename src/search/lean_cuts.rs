//! The cuts of an outer strategy whose fullest rank takes the least memory.
//!
//! A rank with fewer blocks is never fuller. So for a given room each rank in turn takes as many of the blocks that are
//! left as it has room for, and if that places all of them, they fit; the least room under which it does is found by
//! bisection, to the byte.

use std::collections::HashMap;

use crate::cost::route::Route;
use crate::profile::choices::OffloadCategory;
use crate::search::choices::Hosted;
use crate::search::inner::{InnerProblem, Spread};
use crate::search::load::Load;
use crate::search::modes::{Modes, Recomputed};
use crate::search::rank::RankProblem;
use crate::strategy::Strategy;
use crate::units::Bytes;

/// A rank that is laid out: which it is, how many blocks come before its own, and how many it has.
type Place = (u32, u32, u32);

/// The choice of a rank.
type Choice = (Modes, Hosted);

/// The least that is known of a rank, and whether all of its choices were looked at.
#[derive(Clone, Copy)]
struct Known {
    least: u64,
    is_all: bool,
}

/// The figures of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Bytes that it takes.
    Exactly,
    /// No more than that, and no more with fewer blocks.
    AtLeast,
}

/// The ranks of one outer strategy, each at the leanest of its choices.
pub struct LeanCuts<'s, 'a, 'p> {
    inner: &'s InnerProblem<'a, 'p>,
    outer: &'s Strategy,
    counted: Counted,
    blocks: u32,
    known: HashMap<Place, Known>,
}

impl<'s, 'a, 'p> LeanCuts<'s, 'a, 'p> {
    /// The ranks of `outer`, which choose among what `inner` leaves open.
    pub fn new(inner: &'s InnerProblem<'a, 'p>, outer: &'s Strategy, counted: Counted) -> Self {
        let blocks = inner.closed_forms.problem.facts.blocks;
        // Of blocks that are alike, any half is as good as another.
        let counted = if inner.load.is_even { Counted::Exactly } else { counted };
        Self { inner, outer, counted, blocks, known: HashMap::new() }
    }

    /// The bytes of the fullest rank under the leanest cuts, and these cuts; none if that is more than `most` bytes.
    pub fn leanest(&mut self, most: u64) -> Option<(u64, Vec<u32>)> {
        let Some(listed) = self.listed() else { return self.adjoining(most) };
        let mut best: Option<(u64, Vec<u32>)> = None;
        for cuts in listed {
            let most = best.as_ref().map_or(Some(most), |(least, _)| least.checked_sub(1));
            let fullest = most.and_then(|most| self.fullest(&cuts, most));
            best = fullest.map(|fullest| (fullest, cuts)).or(best);
        }
        best
    }

    /// `outer` with `cuts`, under which no rank takes more than `most` bytes; each rank chooses what recomputes and
    /// copies the least of what has room.
    pub fn strategy(&self, cuts: &[u32], most: u64) -> Option<Strategy> {
        let mut strategy = self.inner.with_cuts(self.outer, cuts.to_vec());
        let mut layout = self.inner.closed_forms.whole_layout(self.inner.costs, &strategy);
        for stage in 0..strategy.pipeline as u32 {
            let mut rank = self.inner.rank((&mut strategy, &mut layout), stage, Route::default());
            let choices = choices(&rank);
            let (modes, hosted) = choices
                .into_iter()
                .rev()
                .find(|choice| taken(&mut rank, choice, self.counted).is_some_and(|bytes| bytes <= most))?;
            rank.write(&modes, &hosted);
        }
        Some(strategy)
    }

    /// The cuts that there are, if they are few.
    fn listed(&self) -> Option<Vec<Vec<u32>>> {
        if let Some(cuts) = self.inner.cuts {
            return Some(vec![cuts.to_vec()]);
        }
        match (self.outer.virtual_stages, self.outer.pipeline) {
            (1, 1) => Some(vec![vec![self.blocks]]),
            (1, _) => None,
            _ => {
                let mut list: Vec<Vec<u32>> = Vec::new();
                for spread in Spread::ALL {
                    let cuts = spread.cuts(self.blocks, self.outer);
                    if !list.contains(&cuts) {
                        list.push(cuts);
                    }
                }
                Some(list)
            }
        }
    }

    /// The bytes of the fullest rank under `cuts`, if that is no more than `most` bytes.
    fn fullest(&self, cuts: &[u32], most: u64) -> Option<u64> {
        let mut strategy = self.inner.with_cuts(self.outer, cuts.to_vec());
        let mut layout = self.inner.closed_forms.whole_layout(self.inner.costs, &strategy);
        let mut fullest = 0;
        for stage in 0..strategy.pipeline as u32 {
            let mut rank = self.inner.rank((&mut strategy, &mut layout), stage, Route::default());
            let Known { least, .. } = least(&mut rank, fullest, self.counted);
            fullest = fullest.max(least);
            if fullest > most {
                return None;
            }
        }
        Some(fullest)
    }

    /// The leanest cuts of ranks with one chunk each.
    fn adjoining(&mut self, most: u64) -> Option<(u64, Vec<u32>)> {
        let (mut fullest, mut cuts) = self.placed(most)?;
        let mut low = 0;
        while low < fullest {
            // What is cut short says nothing.
            if self.inner.closed_forms.deadline.is_over() {
                return None;
            }
            let middle = low + (fullest - low) / 2;
            match self.placed(middle) {
                Some(leaner) => (fullest, cuts) = leaner,
                None => low = middle + 1,
            }
        }
        let Load { is_even, is_plain, .. } = *self.inner.load;
        let level = if is_even && is_plain { self.level(fullest) } else { None };
        Some((fullest, level.unwrap_or(cuts)))
    }

    /// Places all blocks so that no rank takes more than `room` bytes: what the fullest takes, and the cuts.
    fn placed(&mut self, room: u64) -> Option<(u64, Vec<u32>)> {
        let ranks = self.outer.pipeline as u32;
        let (mut used, mut fullest) = (0, 0);
        let mut cuts = Vec::with_capacity(ranks as usize);
        for stage in 0..ranks {
            let left = self.blocks - used;
            let fewest = if stage + 1 == ranks { left } else { 0 };
            let count = self.most_blocks(stage, (used, fewest, left), room)?;
            fullest = fullest.max(self.rank((stage, used, count), room).least);
            cuts.push(count);
            used += count;
        }
        Some((fullest, cuts))
    }

    /// The most blocks after the first `used` that rank `stage` has room for, from `fewest` on and up to `most`.
    fn most_blocks(&mut self, stage: u32, (used, fewest, most): (u32, u32, u32), room: u64) -> Option<u32> {
        let (mut low, mut high) = (fewest, most + 1);
        if self.rank((stage, used, low), room).least > room {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.rank((stage, used, middle), room).least <= room { low = middle } else { high = middle }
        }
        Some(low)
    }

    /// Cuts of blocks that are all alike, as near to the default ones as ranks with `room` bytes allow.
    fn level(&mut self, room: u64) -> Option<Vec<u32>> {
        let ranks = self.outer.pipeline as usize;
        let most: Option<Vec<u32>> =
            (0..ranks as u32).map(|stage| self.most_blocks(stage, (0, 0, self.blocks), room)).collect();
        let most = most?;
        let mut cuts = Spread::Default.cuts(self.blocks, self.outer);
        cuts.iter_mut().zip(&most).for_each(|(count, &most)| *count = most.min(*count));
        for _ in cuts.iter().sum::<u32>()..self.blocks {
            let place = (0..ranks).filter(|&rank| cuts[rank] < most[rank]).min_by_key(|&rank| cuts[rank])?;
            cuts[place] += 1;
        }
        Some(cuts)
    }

    /// The least bytes that the rank at `place` takes, or any less than `enough`.
    fn rank(&mut self, (stage, used, count): Place, enough: u64) -> Known {
        let is_last = u64::from(stage) + 1 == self.outer.pipeline;
        // The last rank has whatever comes after the others.
        let used = if is_last { self.blocks - count } else { used };
        // Heads between the blocks tell places apart.
        let start = if self.inner.load.is_plain { self.inner.first_alike(used, count) } else { used };
        let place = (stage, start, count);
        if let Some(known) = self.known.get(&place).filter(|known| known.is_all || known.least <= enough) {
            return *known;
        }
        let mut strategy = self.inner.with_cuts(self.outer, vec![0; self.outer.pipeline as usize]);
        let mut layout = self.inner.place(&mut strategy, stage as usize, used, count);
        let mut rank = self.inner.rank((&mut strategy, &mut layout), stage, Route::default());
        let known = least(&mut rank, enough, self.counted);
        self.known.insert(place, known);
        known
    }
}

/// The choices of `rank`, the leanest first as a rule: as much on the host as may be there, all blocks recomputed, or
/// all but the last, whose backward comes first.
fn choices(rank: &RankProblem<'_, '_>) -> Vec<Choice> {
    let blocks = rank.blocks;
    let mut counts = vec![(blocks, 0), (blocks.saturating_sub(1), 0), (0, blocks), (0, 0)];
    counts.dedup();
    if !rank.recomputes || blocks == 0 {
        counts = vec![(0, 0)];
    }
    let with = |&hosted: &Hosted| {
        let modes = counts.iter().map(|&(full, selective)| Modes::All(Recomputed { full, selective }));
        modes.map(move |modes| (modes, hosted)).collect::<Vec<_>>()
    };
    rank.hosted.iter().rev().flat_map(with).collect()
}

/// The bytes of `rank` under the leanest of its choices, or under the first that takes no more than `enough`.
fn least(rank: &mut RankProblem<'_, '_>, enough: u64, counted: Counted) -> Known {
    let mut known = Known { least: u64::MAX, is_all: true };
    for choice in choices(rank) {
        let Some(bytes) = taken(rank, &choice, counted) else { continue };
        known.least = known.least.min(bytes);
        if bytes <= enough {
            return Known { is_all: false, ..known };
        }
    }
    known
}

/// Bytes of the device that `rank` takes under a choice; none if the host has no room for it.
fn taken(rank: &mut RankProblem<'_, '_>, (modes, hosted): &Choice, counted: Counted) -> Option<u64> {
    let (Bytes(mut device), mut host) = rank.peaks(modes, hosted);
    let blockwise = [OffloadCategory::Parameters, OffloadCategory::Activations];
    let is_part = |fraction: f64| fraction > 0.0 && fraction < 1.0;
    if counted == Counted::AtLeast && blockwise.iter().any(|&category| is_part(hosted[category as usize])) {
        // Which blocks are the first half changes with the others.
        let with = |whole: f64| {
            let mut hosted = *hosted;
            for category in blockwise.map(|category| category as usize) {
                hosted[category] = if is_part(hosted[category]) { whole } else { hosted[category] };
            }
            hosted
        };
        device = device.min(rank.peaks(modes, &with(1.0)).0.0);
        host = rank.peaks(modes, &with(0.0)).1;
    }
    (host <= rank.closed_forms.problem.host_limit).then_some(device)
}
