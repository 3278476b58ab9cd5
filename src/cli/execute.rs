//! `meshwright execute`: trains under a plan on this machine, and measures what was predicted.

use std::path::Path;
use std::sync::Arc;

use super::document::{pretty, style};
use super::error::CliError;
use super::execute_args::{ExecuteArgs, seed};
use super::execute_launch as launch;
use super::execute_plan::{self, Planned};
use super::execute_slice as slice;
use super::number::whole;
use super::output::{Outputs, print, say};
use super::predicted_by::{Predicted, PredictedBy};
use super::progress::RunBar;
use super::{gpu, interrupt, job};
use crate::execute;
use crate::execute::data::DataFormat;
use crate::execute::dry_run::dry_run;
use crate::execute::gradients::Wanted;
use crate::execute::run::{DeviceKind, Settings};
use crate::execute::session::{self, DataRequest, Failure, Outcome, Request};
use crate::execute::weights::Begin;
use crate::execute::world::World;
use crate::report::run_text;
use crate::trace::{RunReport, Trace};

/// Steps that may be asked for.
const MOST_STEPS: u64 = 1 << 40;
/// Steps of the small GPT, and of a plan.
const QUICK_STEPS: u64 = 60;
const STEPS: u64 = 10;

pub const EXAMPLES: &str = "\
Examples:
  meshwright execute
  meshwright execute --data book.txt --steps 300 --save small-gpt

  # A plan of your own model, trained on your data
  meshwright plan ./my-model --cluster 1x4xcpu --precision fp32 \\
      --seq-len 256 --out plan.json
  meshwright execute plan.json --init ./my-model --data tokens.bin \\
      --steps 100 --save out

  # What every gradient is before clipping
  meshwright execute plan.json --grads all --steps 1
  # Predicted by the built-in cost model of CPUs
  meshwright execute plan.json --no-calibrate
  # On a GPU; several ranks may share it
  meshwright execute plan.json --device cuda --share-device
  # Memory of every rank, nothing computed
  meshwright execute big-plan.json --dry-run
  # The batch script that trains on the plan's cluster
  meshwright execute plan.json --steps 1000 --save out --launch slurm > run.sh
  # Two ranks of a plan for hundreds, each by itself on this machine
  meshwright execute big-plan.json --slice 0,511 --steps 3 --trace trace.json";

/// Runs the command; the exit code is 0, or 130 after an interrupt.
pub fn run(args: ExecuteArgs) -> Result<u8, CliError> {
    if !args.dry_run
        && args.slice.is_none()
        && let Some(launched) = job::launched()?
    {
        let device = args.device_kind()?;
        return job::run(args, launched, device);
    }
    run_in(args, None)
}

/// Runs the command in this process, or as one rank of `world`.
pub fn run_in(args: ExecuteArgs, world: Option<Arc<World>>) -> Result<u8, CliError> {
    let speaks = world.as_ref().is_none_or(|world| world.is_first());
    let default_steps = if args.plan.is_some() { STEPS } else { QUICK_STEPS };
    let steps =
        args.steps.as_deref().map_or(Ok(default_steps), |text| whole("steps", text, 0..=MOST_STEPS))?;
    let device = args.device_kind()?;
    let slice = args.slice.as_deref().map(|text| slice::ranks(text, args.beside_slice(steps))).transpose()?;
    let settings = Settings { device, ..args.optimizer.settings()? };
    let changes = args.changes.changes()?;
    if let Some(launcher) = args.launch {
        let (plan, changes) = (args.plan.as_deref(), &changes);
        let (dry_run, slice, json) = (args.dry_run, slice.is_some(), args.json);
        return launch::run(
            launcher,
            &launch::Beside { plan, changes, settings, steps, dry_run, slice, json },
        );
    }
    let data = DataRequest {
        file: args.data.clone(),
        format: args.data_format.as_deref().map(str::parse::<DataFormat>).transpose()?,
        shuffle: args.shuffle.as_deref().map(|text| seed("shuffle", text)).transpose()?,
    };
    let gradients = args.grads.as_deref().map(wanted).filter(|_| steps > 0 && !args.dry_run);
    let has_gradients = gradients.is_some();
    let mut outputs = if speaks { args.outputs(has_gradients)? } else { Outputs::default() };
    if !args.dry_run {
        args.look()?;
    }
    if device != DeviceKind::Cpu && !args.dry_run {
        gpu::warn_of_several_kinds();
    }
    let predicted = match slice {
        _ if args.dry_run => Predicted::DryRun,
        Some(_) => Predicted::Slice,
        None => Predicted::Run,
    };
    let predicted_by = match speaks {
        true => PredictedBy::choose(device, predicted, args.cost_model, args.no_calibrate),
        // Rank 0 predicts for all.
        false => PredictedBy::Plan,
    };
    let Planned { plan, job, own, calibrated } = match &args.plan {
        Some(path) => execute_plan::read(path, &changes, device, &predicted_by)?,
        None => job::quick(world.as_deref(), changes, |changes| {
            let ranks = world.as_ref().map(|world| world.own.size);
            execute_plan::quick(&changes, (device, ranks), &predicted_by)
        })?,
    };
    let settings = match &world {
        Some(world) => job::agreed(world, (&job, settings), (steps, &data))?,
        None => settings,
    };
    let (trace_path, json, of_job) = (args.trace.as_deref(), args.json, world.is_some());
    let after = |outputs| AfterFailure {
        outputs,
        trace: trace_path,
        asked_for_gradients: has_gradients,
        of_job,
        json,
    };
    let outcome = if let Some(ranks) = slice {
        let mut bar = RunBar::of_slice(!args.json, steps * ranks.len() as u64);
        let request = execute::slice::Request { plan, job, settings, steps, data, ranks };
        interrupt::heed();
        let outcome = execute::slice::run(&request, &mut bar);
        bar.clear();
        interrupt::ignore();
        outcome.map_err(|failure| after(&outputs).error(failure))?
    } else if args.dry_run {
        let trace = dry_run(plan, job, settings)?;
        Outcome { trace: Some(trace), was_broken_off: false }
    } else {
        let mut bar = RunBar::new(!args.json, steps, job.workload.tokens());
        let gradients = gradients.map(|wanted| (wanted, outputs.take("grads-out")));
        let begin = if args.fresh { Begin::Fresh } else { Begin::WhereItStopped };
        let (init, save) = (args.init.map(|folder| (folder, begin)), args.save.clone());
        let planned = own;
        let request =
            Request { plan, job, planned, calibrated, settings, steps, data, init, save, gradients, world };
        interrupt::heed();
        let outcome =
            if speaks { session::run(&request, &mut bar) } else { session::run(&request, &mut job::Silent) };
        bar.clear();
        interrupt::ignore();
        outcome.map_err(|failure| after(&outputs).error(failure))?
    };
    let code = if outcome.was_broken_off { interrupt::CODE } else { 0 };
    let Some(trace) = &outcome.trace else { return Ok(code) };
    if outputs.wants("trace") {
        outputs.write(&[("trace", compact(trace))])?;
    }
    let shown = |path: &Path| path.display().to_string();
    let written = Written {
        trace: args.trace.as_deref().map(shown),
        saved: args.save.as_deref().filter(|_| !args.dry_run).map(shown),
        gradients: (!trace.named_gradients.is_empty()).then(|| shown(&args.grads_out)),
    };
    let broken_off = outcome.was_broken_off;
    print(&if args.json { pretty(&report(trace, broken_off, written)) } else { text(trace, &written) })?;
    if broken_off {
        say(&interrupted(trace));
    }
    Ok(code)
}

fn interrupted(trace: &Trace) -> String {
    match &trace.slice {
        Some(slice) => format!("interrupted at rank {}", slice.ranks.last().copied().unwrap_or_default()),
        None => format!("interrupted after step {}", trace.losses.len()),
    }
}

/// Writes the trace of a run that failed, and tells the user where it is.
struct AfterFailure<'a> {
    outputs: &'a Outputs,
    trace: Option<&'a Path>,
    asked_for_gradients: bool,
    /// It is one of a job, in which another rank may have failed, and say so: what was left is a line of its own.
    of_job: bool,
    json: bool,
}

impl AfterFailure<'_> {
    /// The error of a run that failed; the trace of its complete steps is written, where one was asked for.
    fn error(&self, failure: Failure) -> CliError {
        let mut error = CliError::from(failure.error);
        let Some(trace) = failure.trace else { return error };
        let mut left = Vec::new();
        if let Some(path) = self.trace {
            left.push(match self.outputs.write(&[("trace", compact(&trace))]) {
                Ok(()) => {
                    let steps = trace.losses.len();
                    let plural = if steps == 1 { "" } else { "s" };
                    format!("the trace of {steps} step{plural} before that is in `{}`", path.display())
                }
                Err(other) => other.message,
            });
        }
        if self.asked_for_gradients && trace.named_gradients.is_empty() {
            left.push("no gradients were written".to_owned());
        }
        match (self.of_job, self.json) {
            (false, _) => left.iter().for_each(|left| error.message += &format!("; {left}")),
            (true, false) => left.iter().for_each(|left| say(left)),
            (true, true) => {}
        }
        error
    }
}

/// Paths of what a run has written.
struct Written {
    trace: Option<String>,
    saved: Option<String>,
    gradients: Option<String>,
}

fn text(trace: &Trace, written: &Written) -> String {
    let files = [("trace", &written.trace), ("weights", &written.saved), ("gradients", &written.gradients)];
    let files: Vec<_> = files.into_iter().filter_map(|(what, path)| Some((what, path.as_deref()?))).collect();
    run_text(trace, &files, style())
}

fn report(trace: &Trace, interrupted: bool, written: Written) -> RunReport {
    RunReport {
        version: trace.version,
        strategy: trace.plan.strategy.text.clone(),
        slice: trace.slice.clone(),
        first_step: trace.first_step,
        losses: trace.losses.clone(),
        loss_parts: trace.loss_parts.clone(),
        memory: trace.memory.clone(),
        extent: trace.extent.clone(),
        resident_bytes: trace.resident_bytes,
        time: trace.time.clone(),
        step_time_s: trace.step_time_s,
        planned: trace.planned.clone(),
        tokens_per_s: trace.tokens_per_s(),
        trace: written.trace,
        saved: written.saved,
        gradients: written.gradients,
        named_gradients: trace.named_gradients.clone(),
        interrupted,
        warnings: trace.plan.warnings.clone(),
    }
}

/// On one line: a trace has a number for every instruction of every rank.
fn compact(trace: &Trace) -> String {
    serde_json::to_string(trace).unwrap_or_default() + "\n"
}

fn wanted(text: &str) -> Wanted {
    if text == "all" {
        return Wanted::All;
    }
    Wanted::Named(
        text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
    )
}
