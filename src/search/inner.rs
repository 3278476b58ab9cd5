//! Inner choices: how each chunk's blocks are checkpointed and what is offloaded.

use good_lp::{Expression, ProblemVariables, Solution, SolverModel, constraint, microlp, variable};

use crate::profile::choices::{CheckpointMode, OffloadCategory};
use crate::search::closed::{Closed, Closing};
use crate::strategy::{Checkpoint, Draft, Strategy};

/// One inner choice that a search tries on every outer strategy.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerChoice {
    checkpoint: InnerCheckpoint,
    /// Offload by category: one fraction for all stages, or one a stage.
    offload: Vec<(OffloadCategory, Vec<f64>)>,
}

#[derive(Clone, Debug, PartialEq)]
enum InnerCheckpoint {
    /// Every block in this mode.
    Uniform(CheckpointMode),
    /// As the user fixed it.
    Fixed(Vec<crate::strategy::CheckpointEntry>),
}

impl InnerChoice {
    /// Writes the choice into `strategy`, whose mesh and cuts are in place.
    pub fn apply(&self, strategy: &mut Strategy) {
        strategy.checkpoint = strategy
            .cuts
            .iter()
            .enumerate()
            .map(|(chunk, &blocks)| match &self.checkpoint {
                InnerCheckpoint::Uniform(mode) => Checkpoint::uniform(*mode, blocks),
                InnerCheckpoint::Fixed(entries) => entries.get(chunk).or(entries.first()).map_or_else(
                    || Checkpoint::uniform(CheckpointMode::None, blocks),
                    |entry| entry.over(blocks),
                ),
            })
            .collect();
        for &category in OffloadCategory::ALL {
            strategy.offload.fractions_mut(category).clear();
        }
        for (category, fractions) in &self.offload {
            let stages = strategy.pipeline as usize;
            *strategy.offload.fractions_mut(*category) = match fractions.as_slice() {
                [one] => vec![*one; stages],
                many => many.to_vec(),
            };
        }
    }
}

/// The inner choices tried on every outer strategy, those that cost no time first.
pub fn choices(fix: &Draft, offload: &[OffloadCategory]) -> Vec<InnerChoice> {
    let checkpoints: Vec<InnerCheckpoint> = match &fix.checkpoint {
        Some(entries) => vec![InnerCheckpoint::Fixed(entries.clone())],
        None => CheckpointMode::ALL.iter().map(|&mode| InnerCheckpoint::Uniform(mode)).collect(),
    };
    let mut offloads = vec![Vec::new()];
    match &fix.offload {
        Some(fixed) => offloads = vec![fixed.clone()],
        None if offload.contains(&OffloadCategory::Optimizer) => {
            offloads.push(vec![(OffloadCategory::Optimizer, vec![1.0])]);
        }
        None => {}
    }
    offloads
        .into_iter()
        .flat_map(|offload| {
            checkpoints.iter().map(move |checkpoint| InnerChoice {
                checkpoint: checkpoint.clone(),
                offload: offload.clone(),
            })
        })
        .collect()
}

/// Mixes checkpoint modes within the chunks of `strategy`, which keeps too little or too much: for each stage the
/// cheapest counts of blocks in each mode whose activations fit, as a small integer programme, checked against the
/// exact closed form. None where nothing better than a uniform mode is found.
pub fn mixed(closing: &Closing<'_>, strategy: &Strategy) -> Option<(Strategy, Closed)> {
    let uniform = |mode: CheckpointMode| {
        let mut other = strategy.clone();
        other.checkpoint = other.cuts.iter().map(|&blocks| Checkpoint::uniform(mode, blocks)).collect();
        let closed = closing.close(&other);
        (other, closed)
    };
    let modes: Vec<(Strategy, Closed)> = CheckpointMode::ALL.iter().map(|&mode| uniform(mode)).collect();
    let blocks = f64::from(*strategy.cuts.iter().max()?);
    // Share of the blocks in each mode: time and memory are close to linear in the counts.
    let limit = closing.problem.memory_limit.0 as f64;
    let mut room = limit;
    for _ in 0..6 {
        let counts = counts(&modes, blocks, room)?;
        let mut mixed = strategy.clone();
        mixed.checkpoint = mixed.cuts.iter().map(|&chunk| spread(&counts, chunk, blocks)).collect();
        let closed = closing.close(&mixed);
        if closing.fits(&closed) {
            let best = modes.iter().filter(|(_, known)| closing.fits(known)).map(|(_, known)| known.bound.0);
            return (closed.bound.0 < best.fold(f64::INFINITY, f64::min)).then_some((mixed, closed));
        }
        room -= (closed.memory.process.0 as f64 - limit).max(limit * 0.002);
    }
    None
}

/// Blocks of the largest chunk in each mode: the least time whose memory stays within `room` bytes.
fn counts(modes: &[(Strategy, Closed)], blocks: f64, room: f64) -> Option<Vec<u32>> {
    let mut variables = ProblemVariables::new();
    let count: Vec<_> =
        modes.iter().map(|_| variables.add(variable().integer().min(0.0).max(blocks))).collect();
    let weighted = |value: &dyn Fn(&Closed) -> f64| -> Expression {
        count.iter().zip(modes).map(|(&count, (_, closed))| count * (value(closed) / blocks)).sum()
    };
    // In seconds and GiB, so that the solver sees numbers near one.
    let gib = f64::from(1 << 30);
    let time = weighted(&|closed| closed.bound.0);
    let memory = weighted(&|closed| closed.memory.process.0 as f64 / gib);
    let all: Expression = count.iter().copied().sum();
    let solution = variables
        .minimise(time)
        .using(microlp)
        .with(constraint!(all == blocks))
        .with(constraint!(memory <= room / gib))
        .solve()
        .ok()?;
    Some(count.iter().map(|&count| solution.value(count).round() as u32).collect())
}

/// `counts` of the largest chunk brought to a chunk of `chunk` blocks: the costliest modes to recompute first.
fn spread(counts: &[u32], chunk: u32, blocks: f64) -> Checkpoint {
    let mut runs = Vec::new();
    let mut left = chunk;
    for (&mode, &count) in CheckpointMode::ALL.iter().zip(counts).rev() {
        let share = (f64::from(count) * f64::from(chunk) / blocks).ceil() as u32;
        let run = if mode == CheckpointMode::None { left } else { share.min(left) };
        left -= run;
        if run > 0 {
            runs.push((mode, run));
        }
    }
    if left > 0 {
        runs.push((CheckpointMode::None, left));
    }
    Checkpoint { runs }.normalised()
}
