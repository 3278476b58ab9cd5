//! Floor 15: predicts measured runs anew and sums up the errors.

mod again;
mod document;
mod groups;
pub mod published;
mod read;

use crate::profile::EngineProfile;
use crate::trace::published::Quality;
pub use document::{Errors, Figures, Group, Quantities, Ranking, Run, Skipped, Validation};
pub use read::{Measured, UnreadTrace, read};

use rayon::prelude::*;

use crate::validate::again::predict;

/// A run that was looked at: its family and quality, its task (runs of one differ in their strategies only), and its
/// prediction or why there is none.
struct Judged {
    id: String,
    family: String,
    quality: Quality,
    result: Result<(Run, String), String>,
}

/// Predicts every run of `traces` anew and compares it with what was measured; what cannot be predicted is skipped
/// with the reason. Each run is simulated as the engine named in it would run it, or as `engine`.
pub fn validate(traces: Vec<(String, Measured)>, engine: Option<&EngineProfile>) -> Validation {
    let judged: Vec<Judged> =
        traces.into_par_iter().map(|(id, measured)| judge(id, measured, engine)).collect();
    let groups = groups::of(&judged);
    let mut validation = Validation { version: 1, runs: Vec::new(), skipped: Vec::new(), groups };
    for one in judged {
        match one.result {
            Ok((run, _)) => validation.runs.push(run),
            Err(reason) => validation.skipped.push(Skipped { id: one.id, reason }),
        }
    }
    validation
}

fn judge(id: String, measured: Measured, engine: Option<&EngineProfile>) -> Judged {
    match measured {
        Measured::Own(trace) => {
            let family = trace.plan.engine.clone();
            Judged { family, quality: Quality::A, result: predict(&id, &trace, engine), id }
        }
        Measured::Published(run) => {
            let result = published::judge(&run, engine);
            Judged { id, family: run.family, quality: run.quality, result }
        }
        Measured::Unread { reason } => {
            Judged { id, family: "unread".to_owned(), quality: Quality::C, result: Err(reason) }
        }
    }
}
