//! Lifetimes that repeat themselves, as those of many micro-batches do: a few periods are packed, and all others lie as
//! these do.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Lifetime, gaps, pack};

/// How many times as many periods are packed as the longest lifetime meets.
const KEPT: usize = 3;

/// Equal periods of lifetimes: each of `first..last` comes again `period` lifetimes and `instants` later.
struct Run {
    first: usize,
    last: usize,
    period: usize,
    instants: u32,
}

impl Run {
    /// The run of the shortest period that makes up a quarter of `lifetimes`, or more, behind the middle one.
    fn find(lifetimes: &[Lifetime]) -> Option<Self> {
        let (middle, quarter) = (lifetimes.len() / 2, lifetimes.len() / 4);
        let instants = |period: usize| lifetimes[middle + period].start - lifetimes[middle].start;
        let comes_again = |place: usize, period: usize, instants: u32| {
            let (one, other) = (lifetimes[place], lifetimes[place + period]);
            let moved = (one.start.checked_add(instants), one.end.checked_add(instants));
            one.bytes == other.bytes && moved == (Some(other.start), Some(other.end))
        };
        let is_period = |&period: &usize| {
            let instants = instants(period);
            instants > 0 && (middle..middle + quarter).all(|place| comes_again(place, period, instants))
        };
        let period = (1..quarter).find(is_period)?;
        let instants = instants(period);
        let differs = |place: &usize| !comes_again(*place, period, instants);
        let first = (0..middle).rev().find(differs).map_or(0, |place| place + 1);
        let end = lifetimes.len() - period;
        Some(Self { first, last: (middle..end).find(differs).unwrap_or(end), period, instants })
    }
}

/// Offsets of `lifetimes` of which a few periods were packed, if they repeat themselves and lie again where they lay.
pub(super) fn place(lifetimes: &[Lifetime], enough: u64) -> Option<Vec<u64>> {
    let run = Run::find(lifetimes)?;
    let longest = lifetimes[run.first..run.last].iter().map(Lifetime::length).max()?;
    let met = longest.div_ceil(run.instants) as usize;
    // After how many periods they lie again shows in a packing; as many at once are left out of the next.
    let mut times = met;
    for _ in 0..2 {
        let (short, left_out) = run.shortened(lifetimes, times)?;
        let offsets = pack(&short, enough).offsets;
        let again = |times: usize| Some((times, run.turn(&offsets, left_out, times * run.period)?));
        let (found, turn) = (times..=2 * met).find_map(again)?;
        if found == times {
            let repeated = offsets[turn.clone()].iter().cycle().take(left_out);
            let (before, behind) = offsets.split_at(turn.end);
            let offsets: Vec<u64> = before.iter().chain(repeated).chain(behind).copied().collect();
            return is_sound(lifetimes, &offsets).then_some(offsets);
        }
        times = found;
    }
    None
}

impl Run {
    /// `lifetimes` less so many turns of `times` periods that a few are left, and how many lifetimes are left out.
    fn shortened(&self, lifetimes: &[Lifetime], times: usize) -> Option<(Vec<Lifetime>, usize)> {
        let turn = times * self.period;
        let turns = ((self.last - self.first) / turn).checked_sub(KEPT).filter(|&turns| turns > KEPT)?;
        let (left_out, instants) = (turns * turn, (turns * times) as u32 * self.instants);
        let kept = self.first + KEPT * turn;
        // What outlives what is left out ends so much earlier.
        let outlives = lifetimes[kept].start + instants;
        let before = lifetimes[..kept].iter().map(|one| match one.end > outlives {
            true => Lifetime { end: one.end - instants, ..*one },
            false => *one,
        });
        let moved =
            |one: &Lifetime| Lifetime { start: one.start - instants, end: one.end - instants, ..*one };
        Some((before.chain(lifetimes[kept + left_out..].iter().map(moved)).collect(), left_out))
    }

    /// The first `turn` lifetimes of the run that lie where as many behind them lie, where `left_out` are left out.
    fn turn(&self, offsets: &[u64], left_out: usize, turn: usize) -> Option<Range<usize>> {
        let mut alike = 0;
        let places = self.first..(self.last - left_out).min(offsets.len() - turn);
        let ends_turn = |place: &usize| {
            alike = if offsets[*place] == offsets[place + turn] { alike + 1 } else { 0 };
            alike == turn
        };
        let last = places.into_iter().find(ends_turn)?;
        Some(last + 1 - turn..last + 1)
    }
}

/// Whether no two of `lifetimes` share an address at an instant.
fn is_sound(lifetimes: &[Lifetime], offsets: &[u64]) -> bool {
    let mut ends = gaps::by_end(lifetimes).filter(|&buffer| lifetimes[buffer].bytes > 0).peekable();
    // Where each that is held begins and ends.
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    (0..lifetimes.len()).filter(|&buffer| lifetimes[buffer].bytes > 0).all(|buffer| {
        while let Some(ended) = ends.next_if(|&ended| lifetimes[ended].end <= lifetimes[buffer].start) {
            held.remove(&offsets[ended]);
        }
        let (from, to) = (offsets[buffer], offsets[buffer] + lifetimes[buffer].bytes);
        let is_free = held.range(..to).next_back().is_none_or(|(_, &end)| end <= from);
        held.insert(from, to);
        is_free
    })
}
