//! Cuts and checkpoint modes of all pipeline ranks at once, for blocks that are alike.
//!
//! A rank's chunks need not adjoin (interleaved and V schedules): only how many blocks each rank has is chosen, and
//! in which modes. With `n` blocks of rank `r` in mode `m`, and `b(r)` the sum of them over its modes:
//!
//! ```text
//! least T   with   T >= seconds(r) + before(r) Σ over q < r of b(q) + Σ over m of n(r, m) seconds(r, m)
//!                  Σ over m of n(r, m) (bytes(r, m) + state(r)) <= room(r)
//!                  least(r) <= b(r) <= most(r),   Σ over r of b(r) = blocks
//! ```
//!
//! The solver is microlp, which is for small cases: up to 4 ranks with tens of blocks. Its proof that no whole counts
//! are better grows without a useful bound, so that larger cases are [`Refused`] at once, and others after a time. With
//! the feature `highs` it is HiGHS, which settles 8 ranks of 96 blocks in seconds and has only the limit of time.

use good_lp::variable::UnsolvedProblem;
use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution, SolverModel, Variable, WithTimeLimit, variable,
};

use super::exact::{self, Choice, blocks, share};
use super::{Counts, Mode, Refused, legal, ordered};

/// Ranks times modes times blocks that microlp is asked to settle: 4 ranks of 32 blocks in 3 modes are 384.
const MOST: usize = 400;

/// What one pipeline rank may hold, and what its blocks take.
#[derive(Clone, Debug, PartialEq)]
pub struct JointRank {
    /// Seconds of what it does beside its blocks.
    pub seconds: f64,
    /// Bytes that it has for its blocks.
    pub room: f64,
    /// Bytes that each of its blocks holds in whatever mode.
    pub state: f64,
    /// Seconds that the first micro-batch takes through each block of the ranks before.
    pub seconds_a_block_before: f64,
    /// Of one of its blocks; bytes depend on how many micro-batches the rank holds.
    pub modes: Vec<Mode>,
    /// Fewest blocks.
    pub least: u32,
    /// Most blocks.
    pub most: u32,
}

impl JointRank {
    /// Refuses numbers that are none.
    pub(super) fn legal(&self) -> Result<(), Refused> {
        ordered("room", self.room)?;
        legal("seconds", self.seconds)?;
        legal("state", self.state)?;
        legal("seconds_a_block_before", self.seconds_a_block_before)?;
        for mode in &self.modes {
            legal("bytes", mode.bytes)?;
            legal("seconds", mode.seconds)?;
        }
        Ok(())
    }
}

/// Blocks of all ranks in their modes.
#[derive(Clone, Debug, PartialEq)]
pub struct Joint {
    /// By rank, then by mode.
    pub counts: Counts,
    /// When the last rank ends.
    pub seconds: f64,
}

/// How many of `blocks` each rank has in which mode, so that the last of them ends soonest; none if nothing fits.
pub fn joint(ranks: &[JointRank], blocks: u32) -> Result<Option<Joint>, Refused> {
    ranks.iter().try_for_each(JointRank::legal)?;
    if ranks.iter().any(|rank| rank.room < 0.0 || rank.least > rank.most) {
        return Ok(None);
    }
    let size = ranks.iter().map(|rank| rank.modes.len()).sum::<usize>().saturating_mul(blocks as usize);
    if !cfg!(feature = "highs") && size > MOST {
        return Err(Refused::Size { size, most: MOST });
    }
    let limits = ranks.iter().map(|rank| {
        let limit = |(mode, worse): (&Mode, bool)| {
            if worse { 0 } else { exact::times(rank.room, mode.bytes + rank.state, rank.most.min(blocks)) }
        };
        rank.modes.iter().zip(exact::dominated(&rank.modes)).map(limit).collect()
    });
    let all = f64::from(blocks);
    let slowest = |rank: &JointRank| rank.modes.iter().map(|mode| mode.seconds).fold(0.0, f64::max);
    let ends = ranks.iter().map(|rank| rank.seconds + all * (rank.seconds_a_block_before + slowest(rank)));
    let known = ends.fold(0.0, f64::max);
    let best = exact::least(&Pipeline { ranks, blocks }, limits.collect(), None, known)?;
    Ok(best.map(|(counts, seconds)| Joint { counts, seconds }))
}

/// When the last rank ends, in seconds.
pub(super) fn ends(ranks: &[JointRank], counts: &Counts) -> f64 {
    let mut before = 0;
    let mut last = 0.0_f64;
    for (rank, counts) in ranks.iter().zip(counts) {
        let work = rank.modes.iter().zip(counts).map(|(mode, &count)| f64::from(count) * mode.seconds);
        let way = rank.seconds_a_block_before * f64::from(before);
        last = last.max(rank.seconds + way + work.sum::<f64>());
        before += counts.iter().sum::<u32>();
    }
    last
}

/// The ranks with the blocks that they share out.
struct Pipeline<'a> {
    ranks: &'a [JointRank],
    blocks: u32,
}

/// The program as microlp takes it.
#[cfg(not(feature = "highs"))]
fn model(
    program: UnsolvedProblem,
    patience: f64,
) -> impl SolverModel<Solution: Solution, Error = ResolutionError> {
    program.using(good_lp::microlp).with_time_limit(patience)
}

/// The program as HiGHS takes it, with tolerances as tight as those of microlp.
#[cfg(feature = "highs")]
fn model(
    program: UnsolvedProblem,
    patience: f64,
) -> impl SolverModel<Solution: Solution, Error = ResolutionError> {
    let model = program.using(good_lp::highs).with_time_limit(patience).set_threads(1);
    let model = model.set_option("mip_rel_gap", 0.0).set_option("mip_abs_gap", 1e-9);
    model.set_option("mip_feasibility_tolerance", 1e-9)
}

/// A sum over a rank's modes of their counts times what `cost` says.
fn sum(modes: &[Mode], counts: &[Variable], cost: impl Fn(&Mode) -> f64) -> Expression {
    let mut sum = Expression::default();
    for (mode, &count) in modes.iter().zip(counts) {
        sum.add_mul(cost(mode), count);
    }
    sum
}

impl Choice for Pipeline<'_> {
    /// Seconds are in units of what is known, and a rank's bytes in units of its room.
    fn solved(&self, limits: &Counts, known: f64, patience: f64) -> Result<Option<Counts>, Refused> {
        let mut variables = ProblemVariables::new();
        let last = variables.add(variable().clamp(0.0, 1.0));
        let mut counts = Vec::new();
        for (rank, limits) in self.ranks.iter().zip(limits) {
            let left = known * (1.0 + exact::ROUNDING) - rank.seconds;
            let limit = |(mode, &limit): (&Mode, &u32)| exact::times(left, mode.seconds, limit);
            let limits = rank.modes.iter().zip(limits).map(limit);
            let row = limits.map(|limit| variables.add(variable().integer().clamp(0, limit)));
            counts.push(row.collect::<Vec<Variable>>());
        }
        let mut model = model(variables.minimise(last), patience);
        let mut before = Expression::default();
        for (rank, counts) in self.ranks.iter().zip(&counts) {
            let way = share(rank.seconds_a_block_before, known) * before.clone();
            let work = sum(&rank.modes, counts, |mode| share(mode.seconds, known));
            let bytes = sum(&rank.modes, counts, |mode| share(mode.bytes + rank.state, rank.room));
            let blocks = sum(&rank.modes, counts, |_| 1.0);
            model.add_constraint((way + work + share(rank.seconds, known)).leq(last));
            model.add_constraint(bytes.leq(1.0 + exact::ROUNDING));
            model.add_constraint(blocks.clone().geq(f64::from(rank.least)));
            model.add_constraint(blocks.clone().leq(f64::from(rank.most)));
            before += blocks;
        }
        model.add_constraint(before.eq(f64::from(self.blocks)));
        exact::whole(model.solve(), &counts)
    }

    fn seconds(&self, counts: &Counts) -> f64 {
        ends(self.ranks, counts)
    }

    fn adds_up(&self, counts: &Counts) -> bool {
        let legal = |(rank, counts): (&JointRank, &Vec<u32>)| {
            (u64::from(rank.least)..=u64::from(rank.most)).contains(&blocks(counts))
        };
        let all: u64 = counts.iter().map(|counts| blocks(counts)).sum();
        self.ranks.iter().zip(counts).all(legal) && all == u64::from(self.blocks)
    }

    fn excess(&self, counts: &Counts) -> Option<Vec<(usize, usize)>> {
        let held = |mode: &Mode, rank: &JointRank| mode.bytes + rank.state;
        self.ranks.iter().zip(counts).enumerate().find_map(|(place, (rank, counts))| {
            let all = || rank.modes.iter().zip(counts);
            let bytes: f64 = all().map(|(mode, &count)| f64::from(count) * held(mode, rank)).sum();
            (bytes > rank.room).then(|| {
                let kept =
                    all().enumerate().filter(|(_, (mode, count))| **count > 0 && held(mode, rank) > 0.0);
                kept.map(|(mode, _)| (place, mode)).collect()
            })
        })
    }
}
