//! How many of one rank's blocks of several kinds keep which checkpoint mode: an integer programme.
//!
//! With `n` blocks of kind `k` in mode `m`, `bytes` and `seconds` of one of them:
//!
//! ```text
//! least  Σ n(k, m) seconds(k, m)   with   Σ n(k, m) bytes(k, m) <= room,   Σ over m of n(k, m) = count(k)
//! ```
//!
//! A solver works within tolerances, so its answer is a proposal: whoever asks counts the bytes of it anew.

use good_lp::{
    Expression, ProblemVariables, Solution, SolutionStatus, SolverModel, Variable, WithTimeLimit, microlp,
    variable,
};

/// Seconds that the solver may take.
const PATIENCE: f64 = 10.0;

/// What one block costs in one checkpoint mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Bytes that it keeps on the device while its micro-batches are in flight.
    pub bytes: f64,
    /// Seconds that it takes in a step.
    pub seconds: f64,
}

/// Blocks of a rank that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// How many they are.
    pub count: u32,
    /// What one of them costs in each mode.
    pub modes: Vec<Mode>,
}

impl Kind {
    fn least(&self, cost: impl Fn(&Mode) -> f64) -> f64 {
        self.modes.iter().map(cost).fold(f64::INFINITY, f64::min)
    }
}

/// How many blocks of each kind keep which of its modes, so that the rank takes the fewest seconds with `room` bytes
/// for what they keep; none if nothing fits, or the solver finds nothing.
pub fn modes(kinds: &[Kind], room: f64) -> Option<Vec<Vec<u32>>> {
    let sum = |cost: &dyn Fn(&Mode) -> f64| -> f64 {
        kinds.iter().filter(|kind| kind.count > 0).map(|kind| f64::from(kind.count) * kind.least(cost)).sum()
    };
    // Bytes count from those of the leanest modes on, in units of the room that these leave.
    let left = room - sum(&|mode| mode.bytes);
    // No mode at all costs no end of bytes.
    if !left.is_finite() || left < 0.0 {
        return None;
    }
    let quickest = sum(&|mode| mode.seconds);
    let unit = |whole: f64| if whole > 0.0 { whole } else { 1.0 };
    let mut variables = ProblemVariables::new();
    let (mut seconds, mut bytes) = (Expression::default(), Expression::default());
    let mut counts: Vec<Vec<Variable>> = Vec::new();
    for kind in kinds {
        let leanest = kind.least(|mode| mode.bytes);
        let row = kind.modes.iter().map(|mode| {
            let more = (mode.bytes - leanest) / unit(left);
            // So many have room by themselves.
            let most =
                if more > 0.0 { kind.count.min((1.0 / more * (1.0 + 1e-9)) as u32) } else { kind.count };
            let count = variables.add(variable().integer().min(0).max(most));
            seconds.add_mul(mode.seconds / unit(quickest), count);
            bytes.add_mul(more.min(2.0), count);
            count
        });
        counts.push(row.collect());
    }
    let mut model = variables.minimise(seconds).using(microlp).with_time_limit(PATIENCE);
    model.add_constraint(bytes.leq(1.0));
    for (kind, counts) in kinds.iter().zip(&counts) {
        model.add_constraint(counts.iter().sum::<Expression>().eq(f64::from(kind.count)));
    }
    let solution = model.solve().ok()?;
    let count = |&variable: &Variable| solution.value(variable).round() as u32;
    let is_best = !matches!(solution.status(), SolutionStatus::TimeLimit);
    is_best.then(|| counts.iter().map(|row| row.iter().map(count).collect()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Kind, Mode, modes};

    /// Bytes and seconds of every way to spread `count` blocks over the modes.
    fn spreads(modes: &[Mode], count: u32) -> Vec<(f64, f64)> {
        let Some((mode, rest)) = modes.split_first() else {
            return if count == 0 { vec![(0.0, 0.0)] } else { Vec::new() };
        };
        let with = |taken: u32| {
            let here = f64::from(taken);
            let others = spreads(rest, count - taken).into_iter();
            others.map(move |(bytes, seconds)| (bytes + here * mode.bytes, seconds + here * mode.seconds))
        };
        (0..=count).flat_map(with).collect()
    }

    /// The least seconds of all counts that have room.
    fn of_all(kinds: &[Kind], room: f64) -> Option<f64> {
        let mut all = vec![(0.0, 0.0)];
        for kind in kinds {
            let spreads = spreads(&kind.modes, kind.count);
            let with = |&(bytes, seconds): &(f64, f64)| {
                spreads.iter().map(move |more| (bytes + more.0, seconds + more.1)).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).filter(|&(bytes, _)| bytes <= room).collect();
        }
        all.into_iter().map(|(_, seconds)| seconds).min_by(f64::total_cmp)
    }

    fn kind() -> impl Strategy<Value = Kind> {
        // Bytes of 1 MB to 1 GB, seconds of 1 ms to 10 s.
        let mode = (1_u32..1000, 1_u32..10_000).prop_map(|(bytes, seconds)| Mode {
            bytes: f64::from(bytes) * 1e6,
            seconds: f64::from(seconds) * 1e-3,
        });
        (0_u32..7, proptest::collection::vec(mode, 1..4)).prop_map(|(count, modes)| Kind { count, modes })
    }

    proptest! {
        #[test]
        fn modes_are_the_best_of_all(kinds in proptest::collection::vec(kind(), 1..4), share in 0.0..1.2_f64) {
            let most = |kind: &Kind| f64::from(kind.count) * kind.modes.iter().map(|mode| mode.bytes).fold(0.0, f64::max);
            // Never so near to a choice's bytes that rounding decides.
            let room = (share * kinds.iter().map(most).sum::<f64>() / 1e6).floor() * 1e6 + 5e5;
            let (chosen, least) = (modes(&kinds, room), of_all(&kinds, room));
            prop_assert_eq!(chosen.is_some(), least.is_some());
            if let (Some(chosen), Some(least)) = (chosen, least) {
                let (mut bytes, mut seconds) = (0.0, 0.0);
                for (kind, counts) in kinds.iter().zip(&chosen) {
                    prop_assert_eq!(counts.iter().sum::<u32>(), kind.count);
                    for (mode, &count) in kind.modes.iter().zip(counts) {
                        bytes += f64::from(count) * mode.bytes;
                        seconds += f64::from(count) * mode.seconds;
                    }
                }
                prop_assert!(bytes <= room, "{bytes} of {room}");
                prop_assert!((seconds - least).abs() <= 1e-6 * least, "{seconds} for {least}");
            }
        }
    }
}
