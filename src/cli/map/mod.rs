//! The arguments of `plan` that ask about a plan's surroundings, from what was typed to questions.

mod largest;
mod price;
mod run;
mod sweep;

use clap::Args;
use clap::builder::PossibleValuesParser;

use self::price::Prices;
use self::run::RunRequest;
use self::sweep::SweepRequest;
use super::error::CliError;
use super::hints;
use crate::plan::map::{Goal, Questions};
use crate::search::map::{Maximize, Setting, Sweep, SweepKey};
use crate::strategy::Draft;

const MAP: &str = "Map around the plan";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct MapArgs {
    /// Best plans over devices, batch, seq-len or memory: devices=8..64
    #[arg(long, value_name = "KEY=VALUES", help_heading = MAP)]
    #[arg(value_parser = hints::SWEEP, hide_possible_values = true)]
    sweep: Option<String>,
    /// What changes with half the network, less memory, another batch
    #[arg(long, help_heading = MAP)]
    sensitivity: bool,
    /// The largest batch without accumulation, or seq-len, that fits
    #[arg(long, value_name = "batch|seq-len", help_heading = MAP, hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(["batch", "seq-len"]))]
    maximize: Option<String>,
    /// What a device costs an hour, such as h100-sxm=2.5/h
    #[arg(long, value_name = "DEVICE=PRICE", allow_hyphen_values = true, help_heading = MAP)]
    price: Vec<String>,
    /// Tokens of the whole run, such as 15T, for its days and its cost
    #[arg(long, value_name = "N", allow_hyphen_values = true, help_heading = MAP)]
    tokens: Option<String>,
    /// Mean time between failures of the whole job, such as 3h
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = MAP)]
    mtbf: Option<String>,
    /// The same of one device with its share of the node, such as 5y
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = MAP)]
    mtbf_device: Option<String>,
    /// Training between two checkpoints [default: the best by Daly's formula]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = MAP)]
    checkpoint_interval: Option<String>,
    /// What each device writes of a checkpoint [default: 400MB/s, an estimate]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, help_heading = MAP)]
    checkpoint_bandwidth: Option<String>,
    /// From a failure until training goes on [default: 10m, an estimate]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = MAP)]
    restart_time: Option<String>,
}

/// The arguments with their syntax checked.
#[derive(Debug)]
pub struct MapRequest {
    goal: Goal,
    sweep: Option<SweepRequest>,
    sensitivity: bool,
    maximize: Option<Maximize>,
    prices: Prices,
    run: Option<RunRequest>,
}

impl MapArgs {
    /// Checks what can be checked without reading anything, beside the fixed keys and the goal.
    pub fn request(self, goal: Goal, fix: &Draft) -> Result<MapRequest, CliError> {
        let sweep = self.sweep.as_deref().map(SweepRequest::parse).transpose()?;
        let maximize = self.maximize.as_deref().map(|what| largest::parse(what, fix)).transpose()?;
        let prices = Prices::parse(&self.price)?;
        if goal == Goal::Cheapest && prices.is_empty() {
            let rule = "a price is needed, such as --price h100-sxm=2.5/h";
            return Err(CliError::usage("objective", "cost", rule));
        }
        if let (Goal::Cheapest | Goal::FewestDevices, Some(sweep)) = (goal, &sweep)
            && sweep.key != SweepKey::Devices
        {
            let rule = "this objective chooses among numbers of devices; sweep devices, or nothing";
            return Err(CliError::usage("sweep", sweep.key.name(), rule).or(["devices"]));
        }
        let run = RunRequest::parse(&self)?;
        Ok(MapRequest { goal, sweep, sensitivity: self.sensitivity, maximize, prices, run })
    }
}

impl MapRequest {
    /// Whether anything is asked beside the plan itself.
    pub fn is_asked(&self) -> bool {
        self.sweep.is_some()
            || self.sensitivity
            || self.maximize.is_some()
            || self.run.is_some()
            || !self.prices.is_empty()
    }

    /// The questions about `home`.
    pub fn questions<'a>(self, home: &Setting<'a>) -> Result<Questions<'a>, CliError> {
        let sweep = match (&self.sweep, self.goal) {
            (Some(sweep), _) => Some(sweep.settings(home)?),
            (None, Goal::Given) => None,
            (None, Goal::FewestDevices | Goal::Cheapest) => {
                let all = SweepRequest::all_devices(home);
                Some(Sweep { key: SweepKey::Devices, ..all.settings(home)? })
            }
        };
        Ok(Questions {
            goal: self.goal,
            sweep,
            sensitivity: self.sensitivity,
            maximize: self.maximize.map(|what| (what, largest::ceiling(home, what))),
            price: self.prices.of(&home.cluster.device.name)?,
            run: self.run.map(|run| run.on(home.cluster.devices())),
        })
    }
}
