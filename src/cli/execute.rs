//! `meshwright execute`: trains under a plan on this machine, and measures what was predicted.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::claims::Claims;
use super::document::{pretty, style};
use super::error::CliError;
use super::execute_launch as launch;
use super::execute_plan::{self, Changes, Planned};
use super::execute_slice as slice;
use super::folder::makeable;
use super::number::{real, whole};
use super::output::{Outputs, print, say};
use super::predicted_by::{Predicted, PredictedBy};
use super::progress::RunBar;
use super::{gpu, hints, interrupt, job, workload};
use crate::execute;
use crate::execute::data::{DataError, DataFormat};
use crate::execute::dry_run::dry_run;
use crate::execute::error::ExecuteError;
use crate::execute::gradients::Wanted;
use crate::execute::launch::launcher::Launcher;
use crate::execute::run::{DeviceKind, Settings};
use crate::execute::session::{self, DataRequest, Failure, Outcome, Request};
use crate::execute::weights::{self, Begin, SAVED, WeightsError};
use crate::execute::world::World;
use crate::files::{self, Unread};
use crate::report::run_text;
use crate::strategy::Draft;
use crate::trace::{RunReport, Trace};

/// Steps that may be asked for.
const MOST_STEPS: u64 = 1 << 40;
/// Steps of the small GPT, and of a plan.
const QUICK_STEPS: u64 = 60;
const STEPS: u64 = 10;
const GRADIENTS: &str = "grads.safetensors";

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

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct ExecuteArgs {
    /// A plan document, as `plan --out` and `simulate --out` write it [default: a small GPT is planned]
    #[arg(value_name = "PLAN.json")]
    plan: Option<PathBuf>,
    /// Optimizer steps; 0 with --save writes the initial weights [default: 10, of the small GPT 60]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    steps: Option<String>,
    /// Text (bytes are tokens), 16-bit token ids (.bin), or llm.c's files [default: a synthetic stream]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// How token ids lie in --data: text, u16 or llmc [default: by its name and first bytes]
    #[arg(long, value_name = "FORMAT")]
    data_format: Option<String>,
    /// Permute the windows of the data by this seed
    #[arg(long, value_name = "SEED", allow_negative_numbers = true)]
    shuffle: Option<String>,
    /// Start from the weights in this folder, and go on where the run stopped that saved them
    #[arg(long, value_name = "DIR")]
    init: Option<PathBuf>,
    /// Start at step 0 from the weights of --init, whatever run they were saved by
    #[arg(long, requires = "init")]
    fresh: bool,
    /// Write weights, config and state to this folder at the end, as one: all of them or none
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Write the trace here: plan, times of all instructions, memory curve, losses
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write these weights' gradients of the last step, before clipping: names separated by commas, or all
    #[arg(long, value_name = "NAMES")]
    grads: Option<String>,
    /// Where --grads go
    #[arg(long, value_name = "FILE", default_value = GRADIENTS)]
    grads_out: PathBuf,
    /// Compute nothing: count the memory of every rank
    #[arg(long)]
    dry_run: bool,
    /// Run only these ranks, one by one: memory and compute are measured, communication is priced
    #[arg(long, value_name = "RANK,…")]
    slice: Option<String>,
    /// Execute nothing: print the script that starts a process for each rank on the plan's cluster
    #[arg(long, value_name = "LAUNCHER")]
    #[arg(value_parser = PossibleValuesParser::new(Launcher::ALL.map(Launcher::name)).try_map(|name| name.parse::<Launcher>()))]
    launch: Option<Launcher>,
    /// What ranks run on: this machine's cores, or its first NVIDIA GPU
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    #[arg(value_parser = PossibleValuesParser::new(["cpu", "cuda"]))]
    device: String,
    /// Run all ranks on one GPU, each with its own part of its memory
    #[arg(long)]
    share_device: bool,
    /// Predict by the cost model in this file [default: this machine's, measured once and kept]
    #[arg(long, value_name = "FILE")]
    cost_model: Option<PathBuf>,
    /// Predict by the built-in cost model of CPUs; measure nothing
    #[arg(long, conflicts_with = "cost_model")]
    no_calibrate: bool,
    /// Print losses, memory and time as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    optimizer: OptimizerArgs,
    #[command(flatten)]
    changes: ChangeArgs,
}

impl ExecuteArgs {
    /// What is to be written beside the save; nothing of it, nor the save, goes to where something is read. A run may be
    /// saved over the one that it goes on from.
    fn outputs(&self, has_gradients: bool) -> Result<Outputs, CliError> {
        let mut claims = Claims::default()
            .reads("PLAN.json", self.plan.as_ref())
            .reads("--data", self.data.as_ref())
            .reads("--cost-model", self.cost_model.as_ref());
        if let Some(folder) = &self.save {
            makeable(&mut claims, "save", folder, &SAVED)?;
        }
        if let Some(folder) = &self.init {
            claims =
                SAVED.iter().fold(claims, |claims, name| claims.reads("--init", Some(folder.join(name))));
        }
        let gradients = has_gradients.then(|| self.grads_out.clone());
        Outputs::new(&mut claims, [("trace", self.trace.clone()), ("grads-out", gradients)])
    }

    /// That data and weights are there and are files, before anything is measured or planned.
    fn look(&self) -> Result<(), CliError> {
        if let Some(path) = &self.data {
            let unreadable =
                |unread: Unread| DataError::Unreadable { path: path.clone(), reason: unread.to_string() };
            files::regular(path).map_err(unreadable)?;
        }
        let Some(folder) = &self.init else { return Ok(()) };
        if folder.as_os_str().is_empty() {
            let reason = Unread::NoPath.to_string();
            return Err(ExecuteError::from(WeightsError::Unreadable { path: String::new(), reason }).into());
        }
        weights::look(folder).map_err(ExecuteError::from)?;
        Ok(())
    }

    fn device_kind(&self) -> Result<DeviceKind, CliError> {
        match (self.device.as_str(), self.share_device) {
            ("cuda", true) => Ok(DeviceKind::SharedCuda),
            ("cuda", false) => Ok(DeviceKind::Cuda),
            (_, false) => Ok(DeviceKind::Cpu),
            (device, true) => {
                let rule = "ranks on cores share them anyway; --share-device goes with --device cuda";
                Err(CliError::usage("share-device", device, rule).or(["cuda"]))
            }
        }
    }

    fn beside_slice(&self, steps: u64) -> slice::Beside {
        slice::Beside {
            grads: self.grads.is_some(),
            save: self.save.is_some(),
            init: self.init.is_some(),
            dry_run: self.dry_run,
            steps,
        }
    }
}

/// AdamW and its seed, as typed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Optimizer")]
struct OptimizerArgs {
    /// Learning rate, constant
    #[arg(long, value_name = "RATE", default_value = "3e-4", allow_negative_numbers = true)]
    lr: String,
    /// Decay of the first and second moments
    #[arg(long, value_name = "B1,B2", default_value = "0.9,0.95", allow_negative_numbers = true)]
    betas: String,
    /// Added to the root of the second moment
    #[arg(long, value_name = "EPS", default_value = "1e-8", allow_negative_numbers = true)]
    eps: String,
    /// Of tensors of two or more dimensions
    #[arg(long, value_name = "DECAY", default_value = "0.1", allow_negative_numbers = true)]
    weight_decay: String,
    /// Of fresh weights and of dropout
    #[arg(long, value_name = "SEED", default_value = "0", allow_negative_numbers = true)]
    seed: String,
}

/// What is to be other than the plan says, as typed.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Other than the plan says")]
struct ChangeArgs {
    /// The strategy, such as tp=2,zero=1
    #[arg(long, value_name = "STRATEGY", value_parser = hints::STRATEGY, hide_possible_values = true)]
    strategy: Option<String>,
    /// Sequences a step
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    global_batch: Option<String>,
    /// Tokens a sequence
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seq_len: Option<String>,
    /// Type of the arithmetic: bf16, fp32 or fp64
    #[arg(long, value_name = "TYPE")]
    precision: Option<String>,
    /// Probability of dropout
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    dropout: Option<String>,
    /// Norm that gradients are clipped to; 0 is off
    #[arg(long, value_name = "C", allow_negative_numbers = true)]
    clip: Option<String>,
    /// Layers that are not trained, by name; may be given again
    #[arg(long, value_name = "GLOB")]
    freeze: Vec<String>,
}

impl OptimizerArgs {
    fn settings(&self) -> Result<Settings, CliError> {
        let at_least_0 = |field, text: &str| real(field, text, |value| value >= 0.0, "of at least 0", 0);
        let beta =
            |text: &str| real("betas", text, |beta| (0.0..1.0).contains(&beta), "from 0 to below 1", 0.9);
        let Some((first, second)) = self.betas.split_once(',') else {
            return Err(CliError::usage("betas", &self.betas, "two numbers are needed").or(["0.9,0.95"]));
        };
        Ok(Settings {
            learning_rate: at_least_0("lr", &self.lr)?,
            betas: (beta(first.trim())?, beta(second.trim())?),
            epsilon: at_least_0("eps", &self.eps)?,
            weight_decay: at_least_0("weight-decay", &self.weight_decay)?,
            seed: seed("seed", &self.seed)?,
            ..Settings::default()
        })
    }
}

impl ChangeArgs {
    fn changes(&self) -> Result<Changes, CliError> {
        fn given<T>(
            text: Option<&String>,
            read: impl Fn(&str) -> Result<T, CliError>,
        ) -> Result<Option<T>, CliError> {
            text.map(|text| read(text)).transpose()
        }
        Ok(Changes {
            global_batch: given(self.global_batch.as_ref(), workload::global_batch)?,
            seq_len: given(self.seq_len.as_ref(), workload::seq_len)?,
            precision: given(self.precision.as_ref(), workload::precision)?,
            dropout: given(self.dropout.as_ref(), workload::dropout)?,
            clip: given(self.clip.as_ref(), workload::clip)?,
            freeze: self.freeze.clone(),
            strategy: given(self.strategy.as_ref(), |text| Ok(Draft::parse(text)?))?,
        })
    }
}

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
    let outcome = if let Some(ranks) = slice {
        let mut bar = RunBar::of_slice(!args.json, steps * ranks.len() as u64);
        let request = execute::slice::Request { plan, job, settings, steps, data, ranks };
        interrupt::heed();
        let outcome = execute::slice::run(&request, &mut bar);
        bar.clear();
        interrupt::ignore();
        outcome.map_err(|failure| failed(failure, &outputs, args.trace.as_deref(), has_gradients))?
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
        outcome.map_err(|failure| failed(failure, &outputs, args.trace.as_deref(), has_gradients))?
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

/// The error of a run that failed; the trace of its complete steps is written, where one was asked for.
fn failed(failure: Failure, outputs: &Outputs, path: Option<&Path>, asked_for_gradients: bool) -> CliError {
    let mut error = CliError::from(failure.error);
    let Some(trace) = failure.trace else { return error };
    if let Some(path) = path {
        error.message += &match outputs.write(&[("trace", compact(&trace))]) {
            Ok(()) => {
                let steps = trace.losses.len();
                let plural = if steps == 1 { "" } else { "s" };
                format!("; the trace of {steps} step{plural} before that is in `{}`", path.display())
            }
            Err(other) => format!("; {}", other.message),
        };
    }
    if asked_for_gradients && trace.named_gradients.is_empty() {
        error.message += "; no gradients were written";
    }
    error
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

fn seed(field: &str, text: &str) -> Result<u64, CliError> {
    whole(field, text, 0..=u64::MAX)
}

fn wanted(text: &str) -> Wanted {
    if text == "all" {
        return Wanted::All;
    }
    Wanted::Named(
        text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
    )
}
