//! A plan to show if time is up before anything else is found.

use rayon::prelude::*;

use crate::profile::choices::CheckpointMode;
use crate::search::axes::divisors;
use crate::search::closed_forms::ClosedForms;
use crate::search::problem::{Candidate, Problem};
use crate::search::space::Space;
use crate::strategy::draft::CheckpointEntry;
use crate::strategy::{Draft, Strategy};

/// Sequences of a micro-batch that are tried where any plan will do.
const MICRO_BATCHES: [u64; 3] = [1, 4, 16];

/// The quickest to step of a few plain strategies that fit, have what is fixed and can be played in a part of the time
/// there is, played: what there is to show if time is up before anything else is found.
pub fn spare(space: &Space<'_>, closed_forms: &ClosedForms<'_>) -> Option<Candidate> {
    let fix = &space.request.fix;
    let close = |mut draft: Draft| {
        for key in fix.keys() {
            draft.take(key, fix);
        }
        let strategy = draft.resolve(&closed_forms.problem.facts).ok()?;
        if closed_forms.deadline.is_over() || !closed_forms.has_time_to_play(&strategy) {
            return None;
        }
        let closed = closed_forms.close(&strategy);
        closed_forms.fits(&closed).then_some((closed.bound.0, strategy))
    };
    let drafts = plain(closed_forms.problem)
        .into_iter()
        .flat_map(|draft| MICRO_BATCHES.map(|micro| Draft { micro_batch: Some(micro), ..draft.clone() }));
    let drafts: Vec<Draft> = drafts.collect();
    let fitting: Vec<(f64, Strategy)> = drafts.into_par_iter().filter_map(close).collect();
    let (_, quickest) = fitting.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    closed_forms.play(quickest).filter(|candidate| closed_forms.problem.fits(candidate))
}

/// Strategies that shard and recompute all they can, by tensor- and pipeline-parallel size.
fn plain(problem: &Problem<'_>) -> Vec<Draft> {
    let node = u64::from(problem.cluster.devices_per_node);
    let zero = problem.engine.supports.zero.iter().copied().max();
    let mut list = Vec::new();
    for tensor in divisors(node) {
        for pipeline in [1, 2, 4, 8, 16, 32] {
            let zero = if pipeline > 1 {
                problem.engine.supports.zero_with_pipeline.iter().copied().max()
            } else {
                zero
            };
            list.push(Draft {
                tensor: Some(tensor),
                pipeline: Some(pipeline),
                zero,
                micro_batch: Some(1),
                checkpoint: Some(vec![CheckpointEntry::Whole(CheckpointMode::Full)]),
                ..Draft::default()
            });
        }
    }
    list
}
