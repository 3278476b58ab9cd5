//! `meshwright validate`: predictions against measured runs.

use std::path::PathBuf;

use clap::Args;

use super::claims::Claims;
use super::document::{pretty, style};
use super::error::{CliError, Kind};
use super::hints;
use super::output::{Outputs, print};
use crate::profile::engines::{engine, engines};
use crate::report::{validation_markdown, validation_page, validation_text};
use crate::spelling::nearest;
use crate::trace::today;
use crate::validate::{UnreadTrace, read, sources, validate};

pub const EXAMPLES: &str = "\
Examples:
  meshwright execute --steps 20 --trace trace.json
  meshwright validate trace.json
  meshwright validate traces/published --report accuracy.html
  meshwright validate runs.json --json

A run of our own is predicted anew with the cost model that its plan was made with, a published one with the built-in
model of its device, as the engine named in it runs.";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct ValidateArgs {
    /// Traces that `execute --trace` wrote, arrays of runs, or folders of either
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Predict all runs as this engine would run them; auto: each as its own
    #[arg(long, value_name = "E", default_value = "auto", value_parser = hints::ENGINE, hide_possible_values = true)]
    engine: String,
    /// Show every run, however many there are
    #[arg(long)]
    runs: bool,
    /// Write tables and pictures here: a page, or Markdown if the name ends in .md
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print the document as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: ValidateArgs) -> Result<(), CliError> {
    let engine = match args.engine.as_str() {
        "auto" => None,
        name => Some(engine(name).ok_or_else(|| {
            let names = || ["auto"].into_iter().chain(engines().iter().map(|engine| engine.name.as_str()));
            let known = names().collect::<Vec<_>>().join(", ");
            let rule = format!("no such engine; the known ones are {known}, and auto takes each run's own");
            CliError::usage("engine", name, rule).or(nearest(name, names()))
        })?),
    };
    let is_markdown =
        args.report.as_ref().is_some_and(|path| path.extension().is_some_and(|extension| extension == "md"));
    let sources = args.traces.iter().flat_map(|path| sources(path));
    let mut claims = sources.fold(Claims::default(), |claims, path| claims.reads("TRACE", Some(path)));
    let outputs = Outputs::new(&mut claims, [("report", args.report)])?;
    let mut traces = Vec::new();
    for path in &args.traces {
        traces.extend(read(path)?);
    }
    let validation = validate(traces, engine);
    if outputs.wants("report") {
        let write = if is_markdown { validation_markdown } else { validation_page };
        outputs.write(&[("report", write(&validation, &today(), args.runs))])?;
    }
    print(&if args.json {
        pretty(&validation)
    } else {
        validation_text(&validation, args.runs, style().width)
    })
}

impl From<UnreadTrace> for CliError {
    fn from(error: UnreadTrace) -> Self {
        let message = error.to_string();
        let nearest = error.nearest.iter().map(|near| near.display());
        Self { kind: Kind::Input, message, ..Self::usage("trace", &error.path.display().to_string(), "") }
            .or(nearest)
    }
}
