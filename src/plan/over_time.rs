//! Memory over time in the plan document: what the fullest rank holds over a step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::assemble::{categories, rounded};
use crate::plan::document::CategoryBytes;
use crate::program::Program;
use crate::search::{Candidate, Problem};
use crate::simulate;
use crate::units::Seconds;

/// What one pipeline rank holds over a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryOverTime {
    pub stage: u32,
    /// At most 400, by time: what is held before the step, then the most that is held until the next moment, last what is
    /// held at the end. The largest is the rank's peak.
    pub moments: Vec<MemoryMoment>,
}

/// What is held from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryMoment {
    pub at_s: Seconds,
    pub memory_bytes: CategoryBytes,
}

/// What the rank at `place` of `candidate`, which has this program, holds over a step.
pub(super) fn memory_over_time(
    problem: &Problem<'_>,
    (candidate, place): (&Candidate, usize),
    program: &Program,
) -> MemoryOverTime {
    let workspace = problem.cluster.device.reserve.workspace.value;
    let moments = simulate::memory_over_time(program, &problem.pricing(&candidate.strategy), place);
    let moments = moments.into_iter().map(|moment| MemoryMoment {
        at_s: rounded(moment.at),
        memory_bytes: categories(&moment.categories, workspace),
    });
    MemoryOverTime { stage: candidate.playback.ranks[place].stage, moments: moments.collect() }
}
