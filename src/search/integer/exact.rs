//! Makes exact answers of a solver that works within tolerances.
//!
//! A solver may overrun a room by its tolerance. Whatever keeps at least as many blocks in each mode overruns it too,
//! so in all that fits one of those counts is lower: the search goes on in one part for each, with that count's limit
//! one below. So nothing that fits is lost, which it would be if the room were tightened.

use std::time::Instant;

use good_lp::{ResolutionError, Solution, SolutionStatus, Variable};

use super::{Counts, Mode, Refused};

/// Parts in which the solver is asked at most; nearly always one settles it.
const PARTS: usize = 256;

/// Seconds that the solver is given for all of them.
const PATIENCE: f64 = 10.0;

/// What a number may have lost in rounding before it bounds a whole count. More is harmless: sums are checked.
pub const ROUNDING: f64 = 1e-9;

/// The steps of shares, 2⁻³². Finer differences are nothing to a solver, yet make its matrices singular.
const STEPS: f64 = 4_294_967_296.0;

/// The solver's objective is in units of the least time known. An answer that is smaller by this drowns in its
/// tolerances, and is asked for once more in its own units.
const COARSE: f64 = 1e-2;

/// A choice of counts, each from nothing to its limit.
pub trait Choice {
    /// What the solver finds within `patience` seconds to take least, of the counts within `limits` that take `known`
    /// seconds at most.
    fn solved(&self, limits: &Counts, known: f64, patience: f64) -> Result<Option<Counts>, Refused>;

    /// Seconds, from the counts themselves.
    fn seconds(&self, counts: &Counts) -> f64;

    /// Whether the counts add up to the blocks that there are.
    fn adds_up(&self, counts: &Counts) -> bool;

    /// The kinds and modes of which one must be kept less often; none if the counts have room.
    fn excess(&self, counts: &Counts) -> Option<Vec<(usize, usize)>>;
}

/// The counts within `limits` that fit and take least, with their seconds. `best` is known to fit, and nothing that
/// takes longer than `known` seconds is of use.
pub fn least(
    choice: &impl Choice,
    limits: Counts,
    mut best: Option<Counts>,
    mut known: f64,
) -> Result<Option<(Counts, f64)>, Refused> {
    let start = Instant::now();
    let mut parts = vec![limits];
    let mut asked = 0;
    while let Some(limits) = parts.pop() {
        let patience = PATIENCE - start.elapsed().as_secs_f64();
        if patience <= 0.0 {
            return Err(Refused::Late { seconds: PATIENCE });
        }
        if asked == PARTS {
            return Err(Refused::Unsettled { parts: PARTS });
        }
        asked += 1;
        let solved = choice.solved(&limits, known, patience);
        if solved.is_err() && start.elapsed().as_secs_f64() >= PATIENCE {
            return Err(Refused::Late { seconds: PATIENCE });
        }
        let Some(counts) = solved? else { continue };
        let seconds = choice.seconds(&counts);
        if best.is_some() && seconds >= known {
            continue;
        }
        if !choice.adds_up(&counts) {
            return Err(Refused::Solver(String::from("its counts do not add up")));
        }
        if let Some(excess) = choice.excess(&counts) {
            parts.extend(excess.into_iter().map(|(kind, mode)| below(&limits, &counts, kind, mode)));
            continue;
        }
        if seconds < known * COARSE && seconds > 0.0 {
            parts.push(limits);
        }
        (best, known) = (Some(counts), seconds);
    }
    Ok(best.map(|counts| (counts, known)))
}

/// The limits with that of one mode one below its count.
fn below(limits: &Counts, counts: &Counts, kind: usize, mode: usize) -> Counts {
    let mut limits = limits.clone();
    let count = counts.get(kind).and_then(|counts| counts.get(mode)).copied().unwrap_or_default();
    if let Some(limit) = limits.get_mut(kind).and_then(|limits| limits.get_mut(mode)) {
        *limit = count.saturating_sub(1);
    }
    limits
}

/// The whole counts of a solution; none if there is no solution.
pub fn whole<S: Solution>(
    solved: Result<S, ResolutionError>,
    variables: &[Vec<Variable>],
) -> Result<Option<Counts>, Refused> {
    let solution = match solved {
        Ok(solution) => solution,
        Err(ResolutionError::Infeasible) => return Ok(None),
        Err(error) => return Err(Refused::Solver(error.to_string())),
    };
    if matches!(solution.status(), SolutionStatus::TimeLimit) {
        return Err(Refused::Late { seconds: PATIENCE });
    }
    let count = |&variable: &Variable| solution.value(variable).round() as u32;
    Ok(Some(variables.iter().map(|row| row.iter().map(count).collect()).collect()))
}

/// `part` in units of `whole`, cut to a step: downwards, as what overruns is seen and what is lost is not. Of a part
/// larger than the whole none is chosen, however much larger.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { ((part / whole).min(2.0) * STEPS).floor() / STEPS } else { 0.0 }
}

/// How many times `part` goes into `whole`, `limit` at most.
pub fn times(whole: f64, part: f64, limit: u32) -> u32 {
    if part > 0.0 { limit.min((whole / part * (1.0 + ROUNDING)) as u32) } else { limit }
}

/// For each mode whether one of the others is as good in both bytes and seconds, so that it need not be looked at.
pub fn dominated(modes: &[Mode]) -> Vec<bool> {
    let worse = |(place, mode): (usize, &Mode)| {
        modes.iter().enumerate().any(|(other, than)| {
            let no_worse = than.bytes <= mode.bytes && than.seconds <= mode.seconds;
            no_worse && (than != mode || other < place)
        })
    };
    modes.iter().enumerate().map(worse).collect()
}

/// Blocks of one row of counts.
pub fn blocks(counts: &[u32]) -> u64 {
    counts.iter().map(|&count| u64::from(count)).sum()
}
