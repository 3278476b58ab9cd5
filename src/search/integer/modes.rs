//! How many of one pipeline rank's like blocks keep which checkpoint mode: the least time that has room.
//!
//! With `n` blocks of kind `k` in mode `m`, `bytes` and `seconds` of one of them:
//!
//! ```text
//! least  Σ n(k, m) seconds(k, m)   with   Σ n(k, m) bytes(k, m) <= room,   Σ over m of n(k, m) = count(k)
//! ```

use good_lp::{Expression, ProblemVariables, SolverModel, WithTimeLimit, microlp, variable};

use super::exact::{self, Choice, blocks};
use super::{Counts, Mode, Refused, legal, ordered};

/// Blocks of a rank that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// How many they are.
    pub count: u32,
    /// What one of them costs in each mode.
    pub modes: Vec<Mode>,
}

impl Kind {
    /// Bytes of a block in the mode that keeps least.
    fn leanest(&self) -> f64 {
        self.modes.iter().map(|mode| mode.bytes).fold(f64::INFINITY, f64::min)
    }

    /// All blocks in the least mode by `cost`, the lesser by `then` of equals.
    fn all(&self, cost: impl Fn(&Mode) -> f64, then: impl Fn(&Mode) -> f64) -> Vec<u32> {
        let order = |one: &Mode, other: &Mode| {
            cost(one).total_cmp(&cost(other)).then(then(one).total_cmp(&then(other)))
        };
        let least = self.modes.iter().enumerate().min_by(|(_, one), (_, other)| order(one, other));
        let least = least.map(|(place, _)| place);
        (0..self.modes.len()).map(|place| if Some(place) == least { self.count } else { 0 }).collect()
    }
}

/// How many blocks of each kind keep which of its modes, so that the rank takes the fewest seconds with `room` bytes
/// for what they keep; none if nothing fits.
pub fn modes(kinds: &[Kind], room: f64) -> Result<Option<Counts>, Refused> {
    ordered("room", room)?;
    for mode in kinds.iter().flat_map(|kind| &kind.modes) {
        legal("bytes", mode.bytes)?;
        legal("seconds", mode.seconds)?;
    }
    if kinds.iter().any(|kind| kind.count > 0 && kind.modes.is_empty()) {
        return Ok(None);
    }
    let rank = Rank { kinds, room };
    let leanest: Counts = kinds.iter().map(|kind| kind.all(|mode| mode.bytes, |mode| mode.seconds)).collect();
    if !rank.fits(&leanest) {
        return Ok(None);
    }
    let quickest: Counts =
        kinds.iter().map(|kind| kind.all(|mode| mode.seconds, |mode| mode.bytes)).collect();
    if rank.fits(&quickest) {
        return Ok(Some(quickest));
    }
    let limits = kinds.iter().map(|kind| {
        exact::dominated(&kind.modes).into_iter().map(|worse| if worse { 0 } else { kind.count }).collect()
    });
    let known = rank.seconds(&leanest);
    let best = exact::least(&rank, limits.collect(), Some(leanest), known)?;
    Ok(best.map(|(counts, _)| counts))
}

/// The blocks of a rank with the bytes that it has for what they keep.
struct Rank<'a> {
    kinds: &'a [Kind],
    room: f64,
}

impl Rank<'_> {
    /// What all blocks cost, one mode's cost at a time.
    fn sum(&self, counts: &Counts, cost: impl Fn(&Mode) -> f64) -> f64 {
        let all = self.kinds.iter().zip(counts).flat_map(|(kind, counts)| kind.modes.iter().zip(counts));
        all.map(|(mode, &count)| f64::from(count) * cost(mode)).sum()
    }

    fn fits(&self, counts: &Counts) -> bool {
        self.sum(counts, |mode| mode.bytes) <= self.room
    }
}

impl Choice for Rank<'_> {
    /// Bytes count from those of the leanest modes on, in units of the room that these leave: so the large numbers that
    /// all choices share do not hide the small ones in which they differ.
    fn solved(&self, limits: &Counts, known: f64, patience: f64) -> Result<Option<Counts>, Refused> {
        let kinds = self.kinds.iter().filter(|kind| kind.count > 0);
        let kept: f64 = kinds.map(|kind| f64::from(kind.count) * kind.leanest()).sum();
        let left = self.room - kept;
        let mut variables = ProblemVariables::new();
        let (mut seconds, mut bytes) = (Expression::default(), Expression::default());
        let mut counts = Vec::new();
        for (kind, limits) in self.kinds.iter().zip(limits) {
            let mut row = Vec::new();
            for (mode, &limit) in kind.modes.iter().zip(limits) {
                let more = mode.bytes - kind.leanest();
                let limit = exact::times(left, more, exact::times(known, mode.seconds, limit));
                let count = variables.add(variable().integer().min(0).max(limit));
                seconds.add_mul(exact::share(mode.seconds, known), count);
                bytes.add_mul(exact::share(more, left), count);
                row.push(count);
            }
            counts.push(row);
        }
        let mut model = variables.minimise(seconds).using(microlp).with_time_limit(patience);
        model.add_constraint(bytes.leq(1.0 + exact::ROUNDING));
        for (kind, counts) in self.kinds.iter().zip(&counts) {
            model.add_constraint(counts.iter().sum::<Expression>().eq(f64::from(kind.count)));
        }
        exact::whole(model.solve(), &counts)
    }

    fn seconds(&self, counts: &Counts) -> f64 {
        self.sum(counts, |mode| mode.seconds)
    }

    fn adds_up(&self, counts: &Counts) -> bool {
        self.kinds.iter().zip(counts).all(|(kind, counts)| blocks(counts) == u64::from(kind.count))
    }

    fn excess(&self, counts: &Counts) -> Option<Vec<(usize, usize)>> {
        let heavier = |(place, (kind, counts)): (usize, (&Kind, &Vec<u32>))| {
            let leanest = kind.leanest();
            let modes = kind.modes.iter().zip(counts).enumerate();
            let heavier = modes.filter(|(_, (mode, count))| **count > 0 && mode.bytes > leanest);
            heavier.map(|(mode, _)| (place, mode)).collect::<Vec<_>>()
        };
        (!self.fits(counts)).then(|| self.kinds.iter().zip(counts).enumerate().flat_map(heavier).collect())
    }
}
