//! From what was found about a strategy to the document that explains it.

use crate::plan::assemble::{prediction, strategy_record};
use crate::plan::cautions;
use crate::plan::document::{CauseSeconds, Prediction};
use crate::plan::explanation::{
    CauseDifference, Dominant, Explained, ExplainedCluster, ExplainedModel, Explanation, Fix, KeyMove,
    KeyOutcome, KeyStep, Miss,
};
use crate::plan::searched::account;
use crate::plan::why::why;
use crate::search::explain::{self, Finding, Fixes, Step, StepOutcome};
use crate::search::{Candidate, Problem, Progress};
use crate::strategy::{Draft, KeyChange};
use crate::units::Bytes;

/// Explains `typed`, which is what the text `asked` says, beside the best plan.
pub fn explain(
    problem: &Problem<'_>,
    asked: &str,
    typed: &Draft,
    progress: &(dyn Fn(Progress) + Sync),
) -> Explanation {
    let explained = explain::explain(problem, typed, progress);
    let explain::Explained { finding, best, fastest, account: searched } = explained;
    let mut document = empty(problem, asked);
    document.best = best.as_ref().ok().map(|best| shown(problem, best));
    document.search = fastest.zip(searched).map(|(fastest, searched)| account(&searched, &fastest));
    match &finding {
        Finding::Illegal { broken, nearest } => {
            document.rule = Some(broken.rule);
            document.message = Some(broken.message.clone());
            document.field = Some(broken.field.clone());
            document.value = Some(broken.value.clone());
            document.nearest = broken.nearest.clone();
            document.nearest_strategy = nearest.as_deref().map(|nearest| shown(problem, nearest));
        }
        Finding::OutOfMemory { mine, fixes } => {
            legal(&mut document, problem, mine);
            put_fixes(&mut document, problem, fixes);
        }
        Finding::Fits { mine, steps } => {
            legal(&mut document, problem, mine);
            document.changes = steps.iter().map(|step| key_step(problem, mine, step)).collect();
        }
    }
    document.verdict = why(problem, &document, &finding, best.as_ref());
    document
}

/// The document before anything is said of the strategy.
fn empty(problem: &Problem<'_>, asked: &str) -> Explanation {
    let (model, cluster) = (problem.model, problem.cluster);
    Explanation {
        version: 1,
        engine: problem.engine.name.clone(),
        model: ExplainedModel {
            name: model.name.clone(),
            parameters: model.parameter_count(),
            layers: model.blocks(),
        },
        cluster: ExplainedCluster {
            name: cluster.name.clone(),
            devices: cluster.devices(),
            nodes: cluster.nodes,
            device: cluster.device.name.clone(),
            device_memory_bytes: cluster.device.memory.value,
        },
        workload: problem.workload,
        asked: asked.to_owned(),
        memory_limit_bytes: problem.memory_limit,
        host_limit_bytes: cluster.host_memory_per_device(),
        legal: false,
        rule: None,
        message: None,
        field: None,
        value: None,
        nearest: Vec::new(),
        nearest_strategy: None,
        strategy: None,
        prediction: None,
        fits: None,
        over_bytes: None,
        over_host_bytes: None,
        dominated_by: None,
        fixes: Vec::new(),
        closest: None,
        tried: 0,
        left_out: 0,
        slower_by: None,
        causes: Vec::new(),
        changes: Vec::new(),
        file: None,
        best: None,
        search: None,
        warnings: [model.warnings.clone(), cautions::of_problem(problem)].concat(),
        verdict: String::new(),
    }
}

fn shown(problem: &Problem<'_>, candidate: &Candidate) -> Explained {
    Explained {
        strategy: strategy_record(problem, &candidate.strategy),
        prediction: prediction(problem, candidate),
    }
}

/// What is said of every legal strategy.
fn legal(document: &mut Explanation, problem: &Problem<'_>, mine: &Candidate) {
    let Explained { strategy, prediction } = shown(problem, mine);
    document.legal = true;
    document.fits = Some(prediction.fits);
    document.over_bytes = Some(prediction.safe_memory_bytes.process.saturating_sub(problem.memory_limit));
    let host = problem.cluster.host_memory_per_device();
    document.over_host_bytes = Some(prediction.host_memory_bytes.saturating_sub(host));
    document.dominated_by = if prediction.fits { None } else { dominant(&prediction) };
    if let Some(best) = &document.best {
        document.slower_by = Some(prediction.step_time_s.0 / best.prediction.step_time_s.0 - 1.0);
        document.causes = causes(&prediction.time_s, &best.prediction.time_s);
    }
    document.strategy = Some(strategy);
    document.prediction = Some(prediction);
}

fn dominant(prediction: &Prediction) -> Option<Dominant> {
    let fullest = prediction.ranks.iter().rev().max_by_key(|rank| rank.peak_memory_bytes)?;
    let (category, bytes) = fullest.memory_bytes.parts().into_iter().rev().max_by_key(|part| part.1)?;
    Some(Dominant {
        category: category.to_owned(),
        bytes,
        stage: fullest.stage,
        instant: fullest.peak_instant.clone(),
    })
}

fn causes(mine: &CauseSeconds, best: &CauseSeconds) -> Vec<CauseDifference> {
    let mut causes: Vec<CauseDifference> = mine
        .parts()
        .into_iter()
        .zip(best.parts())
        .map(|((cause, seconds), (_, best_seconds))| CauseDifference {
            cause: cause.to_owned(),
            seconds,
            best_seconds,
            lost_s: seconds - best_seconds,
        })
        .collect();
    causes.sort_by(|one, other| other.lost_s.0.total_cmp(&one.lost_s.0));
    causes
}

fn put_fixes(document: &mut Explanation, problem: &Problem<'_>, fixes: &Fixes) {
    let text = |candidate: &Candidate| candidate.strategy.text(problem.facts.defaults);
    document.tried = fixes.tried;
    document.left_out = fixes.left_out;
    document.fixes = fixes
        .fitting
        .iter()
        .map(|fix| Fix {
            key: fix.key.key,
            from: fix.key.from.clone(),
            to: fix.key.to.clone(),
            follows: moves(&fix.follows),
            changes_numerics: fix.key.key.changes_numerics(),
            strategy: text(&fix.candidate),
            step_time_s: fix.candidate.playback.step_time,
            process_bytes: fix.candidate.memory.process,
            host_memory_bytes: host(&fix.candidate),
        })
        .collect();
    document.closest = fixes.closest.as_ref().map(|miss| Miss {
        key: miss.change.key.key,
        from: miss.change.key.from.clone(),
        to: miss.change.key.to.clone(),
        strategy: miss.change.strategy.text(problem.facts.defaults),
        over_bytes: miss.process.saturating_sub(document.memory_limit_bytes),
        over_host_bytes: miss.host.saturating_sub(document.host_limit_bytes),
    });
}

fn host(candidate: &Candidate) -> Bytes {
    candidate.playback.ranks.iter().map(|rank| rank.memory.host).max().unwrap_or_default()
}

fn key_step(problem: &Problem<'_>, mine: &Candidate, step: &Step) -> KeyStep {
    let empty = KeyStep {
        key: step.key.key,
        from: step.key.from.clone(),
        to: step.key.to.clone(),
        follows: moves(&step.follows),
        outcome: KeyOutcome::Illegal,
        message: None,
        strategy: None,
        step_time_s: None,
        saved_s: None,
    };
    match &step.outcome {
        StepOutcome::Illegal(broken) => KeyStep { message: Some(broken.message.clone()), ..empty },
        StepOutcome::Played(candidate) => KeyStep {
            outcome: if problem.fits(candidate) { KeyOutcome::Fits } else { KeyOutcome::OutOfMemory },
            strategy: Some(candidate.strategy.text(problem.facts.defaults)),
            step_time_s: Some(candidate.playback.step_time),
            saved_s: Some(mine.playback.step_time - candidate.playback.step_time),
            ..empty
        },
    }
}

fn moves(changes: &[KeyChange]) -> Vec<KeyMove> {
    changes
        .iter()
        .map(|change| KeyMove { key: change.key, from: change.from.clone(), to: change.to.clone() })
        .collect()
}
