//! `meshwright validate`: predictions against measured runs.

use std::path::PathBuf;

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};

use super::document::pretty;
use super::error::{CliError, Kind};
use super::output::print;
use super::table::table;
use crate::profile::engine::engine;
use crate::units::{Bytes, Seconds};
use crate::validate::{UnreadTrace, Validation, read, validate};

pub const EXAMPLES: &str = "\
Examples:
  meshwright execute --steps 20 --trace trace.json
  meshwright validate trace.json
  meshwright validate traces/ --json

Each run is predicted anew with the cost model that its plan was made with.";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct ValidateArgs {
    /// Traces that `execute --trace` wrote, arrays of runs, or folders of either
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Predict all runs as this engine would run them; auto: each as its own
    #[arg(long, value_name = "E", default_value = "auto")]
    engine: String,
    /// Print the document as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: &ValidateArgs) -> Result<(), CliError> {
    let engine = match args.engine.as_str() {
        "auto" => None,
        name => Some(engine(name).ok_or_else(|| {
            CliError::usage("engine", name, "no such engine; auto takes each run's own").or(["auto"])
        })?),
    };
    let mut traces = Vec::new();
    for path in &args.traces {
        traces.extend(read(path)?);
    }
    let validation = validate(traces, engine);
    print(&if args.json { pretty(&validation) } else { text(&validation) })
}

fn text(validation: &Validation) -> String {
    let percent =
        |error: Option<f64>| error.map_or("-".to_owned(), |error| format!("{:+.1} %", 100.0 * error));
    let seconds = |value: Option<Seconds>| value.map_or("-".to_owned(), |value| value.to_string());
    let bytes = |value: Option<Bytes>| value.map_or("-".to_owned(), |value| value.to_string());
    let runs = validation.runs.iter().map(|run| {
        [
            run.id.clone(),
            seconds(run.predicted.step_time_s),
            seconds(run.measured.step_time_s),
            percent(run.error.step_time),
            bytes(run.predicted.peak_memory_bytes),
            bytes(run.measured.peak_memory_bytes),
            percent(run.error.memory),
        ]
    });
    let header = ["RUN", "STEP PREDICTED", "MEASURED", "ERROR", "MEMORY PREDICTED", "MEASURED", "ERROR"];
    let mut text = table(header, [Left, Right, Right, Right, Right, Right, Right], runs) + "\n";
    let share = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{:.1} %", 100.0 * value));
    let groups = validation.groups.iter().map(|group| {
        [
            group.name.clone(),
            group.runs.to_string(),
            share(group.time.median),
            share(group.time.mape),
            percent(group.time.bias),
            share(group.time.within_10),
            share(group.memory.mape),
        ]
    });
    if !validation.groups.is_empty() {
        let header = ["GROUP", "RUNS", "TIME MEDIAN", "MEAN", "BIAS", "WITHIN 10 %", "MEMORY MEAN"];
        text += &format!("\n{}\n", table(header, [Left, Right, Right, Right, Right, Right, Right], groups));
    }
    for skipped in validation.skipped.iter().take(SHOWN) {
        text += &format!("skipped {}: {}\n", skipped.id, skipped.reason);
    }
    if let Some(more) = validation.skipped.len().checked_sub(SHOWN + 1) {
        text += &format!("and {} more skipped\n", more + 1);
    }
    text
}

/// Skipped runs that are named.
const SHOWN: usize = 10;

impl From<UnreadTrace> for CliError {
    fn from(error: UnreadTrace) -> Self {
        let message = error.to_string();
        Self { kind: Kind::Input, message, ..Self::usage("trace", &error.path.display().to_string(), "") }
    }
}
