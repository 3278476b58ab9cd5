//! What was found on the map, as records of the document.

use super::Questions;
use super::records::{
    BreakEvenRecord, ChangeRecord, KeptRecord, MaximumRecord, SensitivityRecord, SweepPoint,
};
use crate::plan::assemble::{prediction, strategy_record};
use crate::search::map::{self, Answer, Kept, Maximize, Maximum, Point, Setting, SweepKey};
use crate::search::{Candidate, Failure, Problem};
use crate::units::Seconds;

/// The points of a sweep over `key`.
pub fn sweep_points(key: SweepKey, points: &[Point<'_>], questions: &Questions<'_>) -> Vec<SweepPoint> {
    let pace = |setting: &Setting<'_>, winner: &Candidate| {
        let tokens = setting.workload.tokens() as f64 / winner.playback.step_time.0;
        (tokens, tokens / setting.cluster.devices() as f64)
    };
    let first = points.iter().find_map(|point| Some(pace(&point.setting, point.winner()?).1));
    let record = |point: &Point<'_>| {
        let (setting, problem) = (&point.setting, point.setting.problem());
        let winner = point.winner();
        let (goodput, cost) = winner.map(|winner| questions.money(&problem, winner)).unwrap_or_default();
        let pace = winner.map(|winner| pace(setting, winner));
        SweepPoint {
            devices: setting.cluster.devices(),
            nodes: setting.cluster.nodes,
            global_batch: setting.workload.global_batch,
            seq_len: setting.workload.seq_len,
            device_memory_bytes: setting.cluster.device.memory.value,
            strategy: winner.map(|winner| strategy_record(&problem, &winner.strategy)),
            prediction: winner.map(|winner| prediction(&problem, winner)),
            reason: point.found.as_ref().err().map(Failure::to_string),
            tokens_per_s: pace.map(|(all, _)| all),
            efficiency: pace
                .filter(|_| key == SweepKey::Devices)
                .and_then(|(_, each)| first.map(|first| each / first)),
            goodput,
            cost,
        }
    };
    points.iter().map(record).collect()
}

/// Where the kind of the best strategy changes.
pub fn break_evens(key: SweepKey, points: &[Point<'_>]) -> Vec<BreakEvenRecord> {
    let strategies: Vec<_> = points
        .iter()
        .filter_map(|point| Some((key.value(&point.setting), &point.winner()?.strategy)))
        .collect();
    let found = map::break_evens(&strategies).into_iter();
    found
        .map(|found| BreakEvenRecord {
            from: found.from,
            to: found.to,
            changes: found
                .changes
                .into_iter()
                .map(|change| ChangeRecord { key: change.key.to_owned(), from: change.from, to: change.to })
                .collect(),
        })
        .collect()
}

/// One answer of the sensitivity.
pub fn sensitivity(answer: &Answer<'_>) -> SensitivityRecord {
    let problem = answer.setting.problem();
    let best = answer.best.as_ref().ok();
    let time = |candidate: &Candidate| candidate.playback.step_time;
    let slower = |kept: Seconds| best.map(|best| kept.0 / time(best).0 - 1.0);
    let kept = match &answer.kept {
        Kept::Fits(kept) => KeptRecord {
            fits: true,
            step_time_s: Some(time(kept)),
            slower_by: slower(time(kept)),
            reason: None,
        },
        Kept::TooLarge(kept) => KeptRecord {
            fits: false,
            step_time_s: Some(time(kept)),
            slower_by: None,
            reason: Some(too_large(&problem, kept)),
        },
        Kept::Illegal(broken) => {
            KeptRecord { fits: false, step_time_s: None, slower_by: None, reason: Some(broken.to_string()) }
        }
    };
    SensitivityRecord {
        scenario: answer.scenario,
        strategy: best.map(|best| strategy_record(&problem, &best.strategy)),
        prediction: best.map(|best| prediction(&problem, best)),
        reason: answer.best.as_ref().err().map(Failure::to_string),
        kept,
    }
}

fn too_large(problem: &Problem<'_>, kept: &Candidate) -> String {
    let over = kept.memory.process.saturating_sub(problem.memory_limit);
    if over.0 > 0 {
        format!("it needs {} of {}, {over} too much", kept.memory.process, problem.memory_limit)
    } else {
        "it needs more host memory than there is".to_owned()
    }
}

/// The largest that fits, or why nothing does.
pub fn maximum(what: Maximize, found: Result<Maximum<'_>, Failure>) -> MaximumRecord {
    match found {
        Ok(found) => {
            let problem = found.setting.problem();
            let winner = &found.outcome.winner;
            MaximumRecord {
                what,
                value: Some(found.value),
                strategy: Some(strategy_record(&problem, &winner.strategy)),
                prediction: Some(prediction(&problem, winner)),
                next_value: Some(found.next),
                next_value_fails_because: found.next_fails_because,
            }
        }
        Err(failure) => MaximumRecord {
            what,
            value: None,
            strategy: None,
            prediction: None,
            next_value: None,
            next_value_fails_because: failure.to_string(),
        },
    }
}
