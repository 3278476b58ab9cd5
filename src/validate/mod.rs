//! Predicts measured runs anew and sums up the errors.

mod again;
mod cause;
mod document;
mod groups;
mod launches;
mod neighbours;
pub mod published;
mod read;
mod unseen;

use std::collections::BTreeMap;

use crate::profile::EngineProfile;
use crate::trace::published::Quality;
pub use document::{
    Errors, Figures, Flag, Group, LeftOut, Quantities, Quantity, Ranking, Run, Skipped, Validation, Worst,
};
pub use read::{Measured, UnreadTrace, read, sources};

use rayon::prelude::*;

use crate::validate::again::predict;

/// A run that was looked at: its family and quality, its task (runs of one differ in their strategies only), and its
/// prediction or why there is none.
struct Judged {
    id: String,
    family: String,
    quality: Quality,
    result: Result<(Run, String), String>,
    flags: Vec<Flag>,
}

/// Predicts every run of `traces` anew and compares it with what was measured; what cannot be predicted is skipped
/// with the reason. Each run is simulated as the engine named in it would run it, or as `engine`.
pub fn validate(traces: Vec<(String, Measured)>, engine: Option<&EngineProfile>) -> Validation {
    let judged: Vec<Judged> =
        traces.into_par_iter().map(|(id, measured)| judge(id, measured, engine)).collect();
    let groups = groups::of(&judged);
    let flags = twice(&judged);
    let mut validation = Validation { version: 1, runs: Vec::new(), skipped: Vec::new(), flags, groups };
    for mut one in judged {
        validation.flags.append(&mut one.flags);
        match one.result {
            Ok((run, _)) => validation.runs.push(run),
            Err(reason) => validation.skipped.push(Skipped { id: one.id, reason }),
        }
    }
    validation
}

/// A flag for each name that more than one run bears.
fn twice(judged: &[Judged]) -> Vec<Flag> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for one in judged {
        *counts.entry(&one.id).or_default() += 1;
    }
    let flag = |(id, count): (&str, u64)| Flag {
        id: id.to_owned(),
        field: "id".to_owned(),
        reason: format!("is that of {count} runs"),
    };
    counts.into_iter().filter(|(_, count)| *count > 1).map(flag).collect()
}

fn judge(id: String, measured: Measured, engine: Option<&EngineProfile>) -> Judged {
    match measured {
        Measured::Own(trace) => {
            let family = trace.plan.engine.clone();
            let result = predict(&id, &trace, engine);
            Judged { family, quality: Quality::A, result, flags: Vec::new(), id }
        }
        Measured::Published(run) => {
            let mut flags = published::flags(&run);
            let mut result = published::judge(&run, engine, &mut flags);
            // Left out it was predicted as its own engine.
            if let (Ok((run, _)), None) = (&mut result, engine) {
                run.left_out = unseen::errors(run);
            }
            Judged { id, family: run.family, quality: run.quality, result, flags }
        }
        Measured::Unread { family, quality, reason } => {
            Judged { id, family, quality, result: Err(reason), flags: Vec::new() }
        }
    }
}
