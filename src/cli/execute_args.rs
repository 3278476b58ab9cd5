//! The command line of `meshwright execute`: its options, and the settings that they give.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::claims::Claims;
use super::error::CliError;
use super::execute_plan::Changes;
use super::execute_slice as slice;
use super::folder::makeable;
use super::number::{real, whole};
use super::output::Outputs;
use super::{hints, workload};
use crate::execute::data::DataError;
use crate::execute::error::ExecuteError;
use crate::execute::launch::launcher::Launcher;
use crate::execute::run::{DeviceKind, Settings};
use crate::execute::weights::{self, SAVED, WeightsError};
use crate::files::{self, Unread};
use crate::strategy::Draft;

const GRADIENTS: &str = "grads.safetensors";

/// The options, as typed.
#[derive(Args, Clone, Debug)]
pub struct ExecuteArgs {
    /// A plan document, as `plan --out` and `simulate --out` write it [default: a small GPT is planned]
    #[arg(value_name = "PLAN.json")]
    pub(super) plan: Option<PathBuf>,
    /// Optimizer steps; 0 with --save writes the initial weights [default: 10, of the small GPT 60]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) steps: Option<String>,
    /// Text (bytes are tokens), 16-bit token ids (.bin), or llm.c's files [default: a synthetic stream]
    #[arg(long, value_name = "FILE")]
    pub(super) data: Option<PathBuf>,
    /// How token ids lie in --data: text, u16 or llmc [default: by its name and first bytes]
    #[arg(long, value_name = "FORMAT")]
    pub(super) data_format: Option<String>,
    /// Permute the windows of the data by this seed
    #[arg(long, value_name = "SEED", allow_negative_numbers = true)]
    pub(super) shuffle: Option<String>,
    /// Start from the weights in this folder, and go on where the run stopped that saved them
    #[arg(long, value_name = "DIR")]
    pub(super) init: Option<PathBuf>,
    /// Start at step 0 from the weights of --init, whatever run they were saved by
    #[arg(long, requires = "init")]
    pub(super) fresh: bool,
    /// Write weights, config and state to this folder at the end, as one: all of them or none
    #[arg(long, value_name = "DIR")]
    pub(super) save: Option<PathBuf>,
    /// Write the trace here: plan, times of all instructions, memory curve, losses
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Write these weights' gradients of the last step, before clipping: names separated by commas, or all
    #[arg(long, value_name = "NAMES")]
    pub(super) grads: Option<String>,
    /// Where --grads go
    #[arg(long, value_name = "FILE", default_value = GRADIENTS)]
    pub(super) grads_out: PathBuf,
    /// Compute nothing: count the memory of every rank
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Run only these ranks, one by one: memory and compute are measured, communication is priced
    #[arg(long, value_name = "RANK,…")]
    pub(super) slice: Option<String>,
    /// Execute nothing: print the script that starts a process for each rank on the plan's cluster
    #[arg(long, value_name = "LAUNCHER")]
    #[arg(value_parser = PossibleValuesParser::new(Launcher::ALL.map(Launcher::name)).try_map(|name| name.parse::<Launcher>()))]
    pub(super) launch: Option<Launcher>,
    /// What ranks run on: this machine's cores, or its first NVIDIA GPU
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    #[arg(value_parser = PossibleValuesParser::new(["cpu", "cuda"]))]
    pub(super) device: String,
    /// Run all ranks on one GPU, each with its own part of its memory
    #[arg(long)]
    pub(super) share_device: bool,
    /// Predict by the cost model in this file [default: this machine's, measured once and kept]
    #[arg(long, value_name = "FILE")]
    pub(super) cost_model: Option<PathBuf>,
    /// Predict by the built-in cost model of CPUs; measure nothing
    #[arg(long, conflicts_with = "cost_model")]
    pub(super) no_calibrate: bool,
    /// Print losses, memory and time as JSON
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) optimizer: OptimizerArgs,
    #[command(flatten)]
    pub(super) changes: ChangeArgs,
}

impl ExecuteArgs {
    /// What is to be written beside the save; nothing of it, nor the save, goes to where something is read. A run may be
    /// saved over the one that it goes on from.
    pub(super) fn outputs(&self, has_gradients: bool) -> Result<Outputs, CliError> {
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
    pub(super) fn look(&self) -> Result<(), CliError> {
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

    pub(super) fn device_kind(&self) -> Result<DeviceKind, CliError> {
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

    pub(super) fn beside_slice(&self, steps: u64) -> slice::Beside {
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
pub(super) struct OptimizerArgs {
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
pub(super) struct ChangeArgs {
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
    pub(super) fn settings(&self) -> Result<Settings, CliError> {
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
    pub(super) fn changes(&self) -> Result<Changes, CliError> {
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

pub(super) fn seed(field: &str, text: &str) -> Result<u64, CliError> {
    whole(field, text, 0..=u64::MAX)
}
