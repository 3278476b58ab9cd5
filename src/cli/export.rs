//! `meshwright export`: a plan as the configuration of a training engine.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::claims::Claims;
use super::document::pretty;
use super::error::{CliError, Kind};
use super::folder::Folder;
use super::hints;
use super::output::print;
use super::progress::Bar;
use crate::export::{Check, ExportError, Exported, Goal, Origin, Target, export};
use crate::plan::shell::quoted;
use crate::plan::{self, Plan, Prediction};
use crate::units::several;

pub const EXAMPLES: &str = "\
Examples:
  meshwright export plan.json --to torchtitan --out run
  meshwright export plan.json --to megatron@0.20 --out run --as-is
  meshwright plan llama-3.1-8b --cluster 1x8xh100-sxm --engine torchtitan \\
      --export run

The folder holds the engine's file, scripts for torchrun, Slurm and mpirun, and a README.";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct ExportArgs {
    /// A plan document, as `plan --out` and `simulate --out` write it
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    #[arg(long, value_name = "ENGINE[@VERSION]", help = target_help())]
    #[arg(value_parser = hints::TARGET, hide_possible_values = true)]
    to: String,
    /// The folder to write; it must be empty or not be there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// End with exit code 4, and write nothing, if the engine builds another model than the plan's
    #[arg(long)]
    check: bool,
    /// Export the strategy as it is, or refuse and name the first key that does not fit
    #[arg(long)]
    as_is: bool,
    /// Write into a folder that holds files; those of the same names are replaced
    #[arg(long)]
    force: bool,
    /// Print what was exported as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// One line on `--to`, with the names of all.
fn target_help() -> String {
    let names: Vec<String> = crate::export::targets().map(Target::text).collect();
    format!("The engine that is to run the plan; {}", names.join(", "))
}

/// Runs the command.
pub fn run(args: ExportArgs) -> Result<(), CliError> {
    let target = target(&args.to)?;
    let mut claims = Claims::default().reads("PLAN.json", Some(&args.plan));
    let folder = Folder::new(&mut claims, "out", args.out.clone(), args.force)?;
    let plan = plan::read(&args.plan)?;
    let goal = Goal { target, is_as_is: args.as_is };
    let bar = Bar::new(!args.json);
    let exported = export(&plan, goal, &|progress| bar.show(progress));
    bar.clear();
    let exported = exported?;
    if let (true, Some(warning)) = (args.check, warning(&exported)) {
        return Err(CliError {
            kind: Kind::Illegal,
            field: "check".to_owned(),
            value: exported.target.clone(),
            message: warning,
            nearest: Vec::new(),
        });
    }
    folder.write(&mut claims, &exported.files)?;
    let shown = args.out.display().to_string();
    print(&if args.json { pretty(&Summary::of(&exported, &shown)) } else { text(&exported, &shown) })
}

/// The target that `--to` names.
pub fn target(text: &str) -> Result<Target, CliError> {
    Target::parse(text).map_err(|(rule, nearest)| CliError::usage("to", text, rule).or(nearest))
}

/// The target of plans for the engine whose profile is `name`.
pub fn target_of(name: &str) -> Result<Target, CliError> {
    let mut all = crate::export::targets();
    all.find(|target| target.dialect.profile() == name).ok_or_else(|| {
        let mut known: Vec<&str> = crate::export::targets().map(|target| target.dialect.profile()).collect();
        known.dedup();
        let rule = format!("--export writes no files for {name}; it does for {}", known.join(", "));
        CliError { message: rule.clone(), ..CliError::usage("engine", name, rule) }.or(known)
    })
}

/// Writes `plan` to `folder` for its own engine: for the first of its versions that has words for all of the plan, else
/// rounded to those of the usual one.
pub fn exported(plan: &Plan, folder: &Folder, claims: &mut Claims) -> Result<Exported, CliError> {
    let usual = target_of(&plan.engine)?;
    let mut versions = crate::export::targets().filter(|target| target.dialect.profile() == plan.engine);
    let as_planned = versions.find_map(|target| export(plan, Goal { target, is_as_is: true }, &|_| {}).ok());
    let exported = match as_planned {
        Some(exported) => exported,
        None => export(plan, Goal { target: usual, is_as_is: false }, &|_| {})?,
    };
    folder.write(claims, &exported.files)?;
    Ok(exported)
}

/// What is said of an export, in lines.
pub fn text(exported: &Exported, folder: &str) -> String {
    let now = &exported.plan.prediction;
    let origin = match &exported.origin {
        Origin::AsPlanned => "as planned".to_owned(),
        Origin::Rounded(changes) => {
            let keys: Vec<String> = changes
                .iter()
                .map(|change| format!("{} {} -> {}", change.key, change.from, change.to))
                .collect();
            format!("rounded to what it has words for: {}", keys.join(", "))
        }
        Origin::PlannedAnew { reason, .. } => format!("planned anew: {reason}"),
    };
    // As a shell takes it: the last line is there to be followed.
    let [folder, readme, run] = ["", "/README.md", "/run.sh"].map(|name| {
        let path = format!("{folder}{name}");
        quoted(&if path.starts_with('-') { format!("./{path}") } else { path })
    });
    let mut lines = vec![
        format!("{} for {} in {folder}", several("file", exported.files.len()), exported.target),
        format!("  strategy  {}", exported.plan.strategy.text),
        format!("            {origin}"),
        format!(
            "  predicted {} a step, {} a device{} (planned for {}: {}, {})",
            now.step_time_s,
            now.process_bytes(),
            if now.fits { "" } else { ", which does not fit" },
            exported.planned.engine,
            exported.planned.step_time,
            exported.planned.process
        ),
    ];
    for sentence in &exported.unsaid {
        lines.push(format!("  not said  {sentence}"));
    }
    let rules = format!("{} rules of {} that were checked hold", exported.checks.len(), exported.target);
    let next = format!("read {readme}, then start {run}");
    lines.push(match warning(exported) {
        None => format!("All {rules}; {next}."),
        Some(warning) => format!("Warning: {warning} The {rules}; {next}."),
    });
    lines.join("\n") + "\n"
}

/// That the engine trains another model, if it does.
fn warning(exported: &Exported) -> Option<String> {
    let others = exported.differences.iter().filter(|difference| difference.built.is_some()).count();
    let (fields, them) = match others {
        0 => return None,
        1 => ("1 field".to_owned(), "it"),
        several => (format!("{several} fields"), "them"),
    };
    Some(format!(
        "the model that {} builds is not the plan's in {fields}; set {them} by hand if your version can, as said above.",
        exported.target
    ))
}

/// The same as JSON.
#[derive(Serialize)]
pub struct Summary<'a> {
    target: &'a str,
    out: &'a str,
    files: Vec<&'a str>,
    strategy: &'a str,
    /// `as_planned`, `rounded` or `planned_anew`.
    origin: &'static str,
    reason: Option<&'a str>,
    changes: Vec<[String; 3]>,
    prediction: &'a Prediction,
    planned: Planned<'a>,
    checks: &'a [Check],
    unsaid: &'a [String],
    /// Fields of the model with the plan's value and the one that the engine has, null where nothing settles it.
    differences: Vec<Differing<'a>>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Differing<'a> {
    field: &'a str,
    planned: &'a serde_json::Value,
    built: Option<&'a serde_json::Value>,
}

#[derive(Serialize)]
struct Planned<'a> {
    engine: &'a str,
    strategy: &'a str,
    step_time_s: f64,
    peak_memory_bytes: u64,
}

impl<'a> Summary<'a> {
    /// What was exported to the folder `out`.
    pub fn of(exported: &'a Exported, out: &'a str) -> Self {
        let (origin, reason, changes) = match &exported.origin {
            Origin::AsPlanned => ("as_planned", None, &[][..]),
            Origin::Rounded(changes) => ("rounded", None, &changes[..]),
            Origin::PlannedAnew { changes, reason } => ("planned_anew", Some(reason.as_str()), &changes[..]),
        };
        let change = |change: &crate::strategy::KeyChange| {
            [change.key.to_string(), change.from.clone(), change.to.clone()]
        };
        Self {
            target: &exported.target,
            out,
            files: exported.files.iter().map(|file| file.name.as_str()).collect(),
            strategy: &exported.plan.strategy.text,
            origin,
            reason,
            changes: changes.iter().map(change).collect(),
            prediction: &exported.plan.prediction,
            planned: Planned {
                engine: &exported.planned.engine,
                strategy: &exported.planned.strategy,
                step_time_s: exported.planned.step_time.0,
                peak_memory_bytes: exported.planned.peak.0,
            },
            checks: &exported.checks,
            unsaid: &exported.unsaid,
            differences: exported
                .differences
                .iter()
                .map(|difference| Differing {
                    field: &difference.field,
                    planned: &difference.planned,
                    built: difference.built.as_ref(),
                })
                .collect(),
            warnings: warning(exported).into_iter().collect(),
        }
    }
}

impl From<ExportError> for CliError {
    fn from(error: ExportError) -> Self {
        let message = error.to_string();
        let (kind, field, value, nearest) = match error {
            ExportError::Plan { part, .. } => (Kind::Input, part.to_owned(), String::new(), Vec::new()),
            ExportError::AsIs { broken, .. } => (Kind::Illegal, broken.field, broken.value, broken.nearest),
            ExportError::NoWord { key, value, nearest, .. } => (Kind::Illegal, key, value, vec![nearest]),
            ExportError::NoStrategy { target, .. } => (Kind::Infeasible, "to".to_owned(), target, Vec::new()),
            ExportError::Refused { target, .. } => (Kind::Illegal, "check".to_owned(), target, Vec::new()),
            ExportError::ReadBack { target, .. } => (Kind::Illegal, "to".to_owned(), target, Vec::new()),
        };
        Self { kind, field, value, message, nearest }
    }
}
