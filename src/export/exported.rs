//! From a plan to the files of an engine: what it cannot say is rounded or planned anew, and each is priced.

use super::beside::Beside;
use super::case::Case;
use super::check::Check;
use super::differences::{Difference, described, differences};
use super::error::{ExportError, ImportError};
use super::import::{self, Given, Understood};
use super::launch::{ranks, scripts};
use super::meaning::Scene;
use super::readme::readme;
use super::syntax::Comment;
use super::targets::Target;
use crate::plan::{self, Plan};
use crate::profile::EngineProfile;
use crate::profile::engines::engine;
use crate::search::{Problem, Progress, Request};
use crate::strategy::{Draft, KeyChange, Strategy, rules};
use crate::units::{Bytes, Seconds, several};

/// What is to be exported, and how strictly.
#[derive(Clone, Copy)]
pub struct Goal {
    pub target: Target,
    /// The strategy is exported as it is, or not at all.
    pub is_as_is: bool,
}

/// How the exported strategy came to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// It is the plan's.
    AsPlanned,
    /// The plan's, with these keys at the nearest value that the engine has a word for.
    Rounded(Vec<KeyChange>),
    /// Planned anew inside what the engine can run, with what became of each key; and why.
    PlannedAnew { changes: Vec<KeyChange>, reason: String },
}

/// One file of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub text: String,
    /// It is run.
    pub is_executable: bool,
}

/// An export, ready to be written.
#[derive(Clone, Debug)]
pub struct Exported {
    /// `ENGINE@VERSION`.
    pub target: String,
    pub origin: Origin,
    /// The exported strategy under the engine's profile.
    pub plan: Plan,
    /// What was predicted of the given plan, by the engine that it was made for.
    pub planned: Outlook,
    pub checks: Vec<Check>,
    /// What of the plan no setting says.
    pub unsaid: Vec<String>,
    /// Fields of the model that the engine takes from elsewhere than the plan.
    pub differences: Vec<Difference>,
    pub files: Vec<File>,
}

/// Time and memory of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Outlook {
    pub engine: String,
    pub strategy: String,
    pub step_time: Seconds,
    pub peak: Bytes,
    /// The memory that must fit.
    pub process: Bytes,
}

impl Outlook {
    /// Those of `plan`.
    pub fn of(plan: &Plan) -> Self {
        Self {
            engine: plan.engine.clone(),
            strategy: plan.strategy.text.clone(),
            step_time: plan.prediction.step_time_s,
            peak: plan.prediction.peak_memory_bytes,
            process: plan.prediction.process_bytes(),
        }
    }
}

/// The profile of a target: that of its engine, narrowed to what its version can do.
pub fn narrowed(target: Target) -> Option<EngineProfile> {
    let mut profile = engine(target.dialect.profile())?.clone();
    target.dialect.narrow(&mut profile.supports);
    Some(profile)
}

/// Exports `plan`.
///
/// # Errors
/// If the plan's model or cluster cannot be made again; if the strategy is to stay as it is and the engine cannot run
/// it or has no word for it; if the engine has no strategy at all for the plan's problem.
pub fn export(
    plan: &Plan,
    goal: Goal,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Exported, ExportError> {
    let part = |part, reason| ExportError::Plan { part, reason };
    let model = plan.made_model().map_err(|error| part("model", error.to_string()))?;
    let cluster = plan.made_cluster().map_err(|reason| part("cluster", reason))?;
    let target = goal.target.text();
    let profile = narrowed(goal.target)
        .ok_or_else(|| part("engine", format!("there is no profile {}", goal.target.dialect.profile())))?;
    let problem = Problem::new(&model, &cluster, plan.workload, &profile, None);
    let draft = Draft::parse(&plan.strategy.text).map_err(|error| part("strategy", error.to_string()))?;
    let is_same_engine = plan.engine == profile.name;
    // What the text leaves out is the engine's default, which may be another under the rules of this version.
    let planned = engine(&plan.engine).filter(|_| is_same_engine).and_then(|wide| {
        let wide = Problem::new(&model, &cluster, plan.workload, wide, None);
        draft.resolve(&wide.facts).ok()
    });

    let (strategy, origin) = match draft.resolve(&problem.facts) {
        Err(broken) if goal.is_as_is => return Err(ExportError::AsIs { target, broken: Box::new(broken) }),
        Ok(strategy) if goal.is_as_is || is_same_engine => {
            let nearest = said(goal.target, &problem, &strategy)?;
            let before = planned.as_ref().unwrap_or(&strategy);
            let changes = before.changes_to(&nearest, problem.facts.defaults);
            match changes.first() {
                Some(first) if goal.is_as_is => {
                    return Err(ExportError::NoWord {
                        target,
                        key: first.key.to_string(),
                        value: first.from.clone(),
                        nearest: first.to.clone(),
                    });
                }
                Some(_) => (nearest, Origin::Rounded(changes)),
                None => (strategy, Origin::AsPlanned),
            }
        }
        resolved => {
            let rounded = match is_same_engine {
                true => rounded(plan, goal.target, &draft, &problem),
                false => None,
            };
            match (rounded, resolved) {
                (Some((strategy, changes)), _) => (strategy, Origin::Rounded(changes)),
                (None, resolved) => {
                    let reason = match resolved {
                        Err(broken) => broken.message,
                        Ok(_) => format!("the plan was made for {}", plan.engine),
                    };
                    let anew = plan::search(&problem, &Request::plain(), progress).map_err(|failure| {
                        ExportError::NoStrategy { target: target.clone(), reason: failure.to_string() }
                    })?;
                    let strategy = Draft::parse(&anew.strategy.text)
                        .map_err(|error| part("strategy", error.to_string()))?
                        .resolve(&problem.facts)
                        .map_err(|broken| ExportError::AsIs {
                            target: target.clone(),
                            broken: Box::new(broken),
                        })?;
                    let strategy = said(goal.target, &problem, &strategy)?;
                    let changes = changes(plan, &strategy, &problem);
                    (strategy, Origin::PlannedAnew { changes, reason })
                }
            }
        }
    };
    let exported = plan::simulate(&problem, strategy.clone());
    let case = Case { problem: &problem, strategy: &strategy };
    let dialect = goal.target.dialect;
    let mut exported = Exported {
        target,
        origin,
        plan: exported,
        planned: Outlook::of(plan),
        checks: dialect.checks(&case),
        unsaid: Vec::new(),
        differences: Vec::new(),
        files: Vec::new(),
    };
    if let Some(broken) = exported.checks.iter().find(|check| !check.holds) {
        let (rule, place) = (broken.rule.clone(), broken.source.clone());
        return Err(ExportError::Refused { target: exported.target, rule, place });
    }
    (exported.unsaid, exported.differences) = unsaid(goal.target, &case);
    exported.files = files(goal.target, &case, &exported);
    Ok(exported)
}

/// Facts of a case that no setting says: what the engine has no word for, what no engine's settings say, and of the model what
/// the engine builds otherwise, or all of it where it is made by hand.
pub fn unsaid(target: Target, case: &Case<'_>) -> (Vec<String>, Vec<Difference>) {
    let dialect = target.dialect;
    let mut sentences = dialect.unsaid(case);
    let model = case.problem.model;
    let frozen = model.layers().filter(|layer| layer.frozen).count();
    if frozen > 0 {
        sentences
            .push(format!("The plan freezes {}: so must the training script.", several("layer", frozen)));
    }
    let Some((decoder, build)) = case.decoder().zip(dialect.builds(case, &dialect.settings(case))) else {
        sentences.push(format!("{} is yours to make, as follows.", model.name));
        sentences.extend(described(model));
        return (sentences, Vec::new());
    };
    let differences = differences(&decoder, &build);
    sentences.extend(differences.iter().map(|difference| difference.sentence(&target.text())));
    (sentences, differences)
}

/// The strategy that the settings of `strategy` mean when they are read back: itself, or the nearest that they say.
fn said(target: Target, problem: &Problem<'_>, strategy: &Strategy) -> Result<Strategy, ExportError> {
    let refused = |error| ExportError::ReadBack { target: target.text(), error: Box::new(error) };
    let read = read_back(target, problem, strategy).map_err(refused)?;
    read.meaning
        .draft
        .resolve(&problem.facts)
        .map_err(|broken| ExportError::AsIs { target: target.text(), broken: Box::new(broken) })
}

/// What the settings of `strategy` mean when they are read back.
///
/// # Errors
/// If they do not read back, which a test sees that they do.
pub fn read_back(
    target: Target,
    problem: &Problem<'_>,
    strategy: &Strategy,
) -> Result<Understood, ImportError> {
    let case = Case { problem, strategy };
    let dialect = target.dialect;
    let text = dialect.text(&case, &dialect.settings(&case), &[]);
    let order = dialect.program(&case).order;
    let placed = ranks(strategy, order);
    let scene = Scene {
        model: problem.model,
        devices: problem.cluster.devices(),
        devices_per_node: case.devices_per_node(),
        global_batch: Some(problem.workload.global_batch),
        seq_len: Some(problem.workload.seq_len),
        typed: None,
    };
    let files = dialect.companions(&case);
    let given =
        Given { path: dialect.file(), text: &text, ranks: placed.as_deref(), beside: Beside::Files(&files) };
    import::meaning_of(target, &given, &scene)
}

/// The plan's strategy with what this version of the engine cannot say at its nearest, where that is legal.
fn rounded(
    plan: &Plan,
    target: Target,
    draft: &Draft,
    problem: &Problem<'_>,
) -> Option<(Strategy, Vec<KeyChange>)> {
    let wide = engine(&plan.engine)?;
    let wide = Problem::new(problem.model, problem.cluster, problem.workload, wide, None);
    let strategy = draft.resolve(&wide.facts).ok()?;
    let nearest = read_back(target, &wide, &strategy).ok()?.meaning.draft.resolve(&problem.facts).ok()?;
    rules::legal(&nearest, &problem.facts).then(|| {
        let changes = strategy.changes_to(&nearest, problem.facts.defaults);
        (nearest, changes)
    })
}

/// What became of each key of the plan's strategy.
fn changes(plan: &Plan, strategy: &Strategy, problem: &Problem<'_>) -> Vec<KeyChange> {
    let Some(engine) = engine(&plan.engine) else { return Vec::new() };
    let before = Problem::new(problem.model, problem.cluster, problem.workload, engine, None);
    let resolved = Draft::parse(&plan.strategy.text).ok().and_then(|draft| draft.resolve(&before.facts).ok());
    resolved.map_or_else(Vec::new, |before| before.changes_to(strategy, problem.facts.defaults))
}

fn files(target: Target, case: &Case<'_>, exported: &Exported) -> Vec<File> {
    let dialect = target.dialect;
    let plain = |name: &str, text: String| File { name: name.to_owned(), text, is_executable: false };
    let program = dialect.program(case);
    let placed = ranks(case.strategy, program.order);
    let head = [
        Comment::from(format!(
            "{} for {}, written by meshwright {}",
            exported.plan.model.name,
            exported.target,
            env!("CARGO_PKG_VERSION")
        )),
        Comment::from(format!("strategy: {}", exported.plan.strategy.text)),
    ];
    let mut files = vec![plain(dialect.file(), dialect.text(case, &dialect.settings(case), &head))];
    files.extend(dialect.companions(case).into_iter().map(|(name, text)| plain(&name, text)));
    let size = (case.nodes(), case.devices_per_node());
    files.extend(
        scripts(&program, size, placed.as_deref()).into_iter().map(|(name, text, is_executable)| File {
            name,
            text,
            is_executable,
        }),
    );
    files.push(plain("README.md", readme(target, case, exported)));
    files
}
