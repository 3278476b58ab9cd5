//! Floor 16: predicts measured runs anew and sums up the errors.

mod again;
mod document;
mod groups;
mod read;

pub use document::{Errors, Figures, Group, Quantities, Ranking, Run, Skipped, Validation};
pub use read::{Measured, UnreadTrace, read};

use crate::validate::again::predict;

/// Predicts every run of `traces` anew and compares it with what was measured; what cannot be predicted is skipped
/// with the reason.
pub fn validate(traces: Vec<(String, Measured)>) -> Validation {
    let mut validation = Validation { version: 1, runs: Vec::new(), skipped: Vec::new(), groups: Vec::new() };
    let mut tasks = Vec::new();
    for (id, measured) in traces {
        let judged = match measured {
            Measured::Own(trace) => predict(&id, &trace),
            Measured::Published { reason } => Err(reason),
        };
        match judged {
            Ok((run, task)) => {
                validation.runs.push(run);
                tasks.push(task);
            }
            Err(reason) => validation.skipped.push(Skipped { id, reason }),
        }
    }
    validation.groups = groups::of(&validation, &tasks);
    validation
}
