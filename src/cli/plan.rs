//! `meshwright plan`: the best strategy for a model on a cluster.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::claims::Claims;
use super::document;
use super::error::CliError;
use super::folder::Folder;
use super::keys;
use super::map::{MapArgs, MapRequest};
use super::number::whole;
use super::output::Outputs;
use super::progress::Bar;
use super::quantity::{self, Rule, TIMES};
use super::workload::{EngineChoice, Subject, WorkloadArgs, WorkloadRequest};
use super::{hints, interrupt};
use crate::plan::{self, map::Goal};
use crate::profile::engines::engines_in_use;
use crate::search::map::{Setting, Watch};
use crate::search::{Objective, Request};
use crate::strategy::{Draft, Key};
use crate::units::{Bytes, Seconds};

/// Plans that may be asked for beside the best.
const MOST_ALTERNATIVES: u64 = 1000;

pub const EXAMPLES: &str = "\
Examples:
  meshwright plan llama-3.1-70b --cluster 8x8xh100-sxm \\
      --global-batch 512 --seq-len 8192
  meshwright plan ./my-model/config.json --cluster lab.json \\
      --out plan.json --report plan.html
  meshwright plan gpt3-175b --cluster 128x8xa100-sxm-80gb --engine megatron \\
      --fix tp=8,sched=1f1b
  meshwright plan llama-3.1-8b --cluster 1x8xh100-sxm --sweep devices=8..512 \\
      --price 2.5/h --report map.html
  meshwright plan llama-3.1-8b --cluster 8x8xh100-sxm --tokens 15T --mtbf 30h \\
      --sensitivity --maximize seq-len
  meshwright plan mixtral-8x7b --cluster 4x8xh100-sxm --free capacity \\
      --memory-limit 70GiB --json";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Keys of the strategy that are held, such as tp=8,zero=1
    #[arg(long, value_name = "AXES", value_parser = hints::STRATEGY, hide_possible_values = true)]
    fix: Option<String>,
    #[arg(long, value_name = "KEYS", help = keys::free_help())]
    #[arg(value_parser = hints::FREE, hide_possible_values = true)]
    free: Option<String>,
    /// Device memory that a plan may use, such as 70GiB [default: all of it]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory_limit: Option<String>,
    /// What is best: robust, time, memory, devices or cost
    #[arg(long, value_name = "OBJECTIVE", default_value = "robust", hide_possible_values = true)]
    #[arg(value_parser = PossibleValuesParser::new(["robust", "time", "memory", "devices", "cost"]))]
    objective: String,
    /// How far above the least upper end of a step a robust plan may be
    #[arg(long, value_name = "SHARE", default_value = "3%", allow_hyphen_values = true)]
    tolerance: String,
    /// Plans to show beside the best
    #[arg(long, value_name = "K", default_value = "5", allow_negative_numbers = true)]
    top: String,
    /// Stop each search after this long, such as 5s [default: no limit]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    time_limit: Option<String>,
    /// Play every strategy with every inner choice, whatever its bound; for small spaces
    #[arg(long, conflicts_with = "time_limit")]
    exhaustive: bool,
    #[command(flatten)]
    map: MapArgs,
    /// Write the plan document here
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a page for the browser here
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the engine's configuration into this folder, empty or new
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// Print the plan document as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The arguments with their syntax checked.
struct PlanRequest {
    workload: WorkloadRequest,
    search: Request,
    map: MapRequest,
    memory_limit: Option<Bytes>,
    typed: TypedLimits,
    outputs: Outputs,
    claims: Claims,
    export: Option<(Folder, String)>,
    pub(super) json: bool,
}

/// The limits as they were typed, for errors.
struct TypedLimits {
    time: Option<String>,
    memory: Option<String>,
}

impl PlanArgs {
    fn request(self) -> Result<PlanRequest, CliError> {
        let mut claims = self.workload.claims();
        let workload = self.workload.request()?.of_engines_in_use()?;
        let (objective, goal) = match self.objective.as_str() {
            "memory" => (Objective::Memory, Goal::Given),
            "devices" => (Objective::Time, Goal::FewestDevices),
            "cost" => (Objective::Time, Goal::Cheapest),
            _ => (Objective::Time, Goal::Given),
        };
        let fix = Draft::parse(self.fix.as_deref().unwrap_or_default())?;
        let free = self.free.as_deref().map_or(Ok(Vec::new()), named)?;
        if let Some(key) = free.iter().find(|&&key| fix.gives(key)) {
            return Err(CliError::usage("free", &key.to_string(), "it is fixed by --fix"));
        }
        let share = tolerance(&self.tolerance)?;
        let search = Request {
            fix,
            free,
            objective,
            tolerance: (self.objective == "robust").then_some(share),
            top: whole("top", &self.top, 0..=MOST_ALTERNATIVES)? as usize,
            time_limit: self.time_limit.as_deref().map(time_limit).transpose()?,
            stop: interrupt::stop(),
            exhaustive: self.exhaustive,
        };
        let map = self.map.request(goal, &search.fix)?;
        if workload.engine == EngineChoice::All && (map.is_asked() || goal != Goal::Given) {
            let rule = "a map is made for one engine; name it, or leave out what asks for the map";
            return Err(CliError::usage("engine", "all", rule).or(["auto"]));
        }
        let memory_limit = self.memory_limit.as_deref().map(memory_limit).transpose()?;
        let outputs = Outputs::new(&mut claims, [("out", self.out), ("report", self.report)])?;
        let typed = TypedLimits { time: self.time_limit, memory: self.memory_limit };
        let export = self.export.map(|path| {
            let shown = path.display().to_string();
            Ok::<_, CliError>((Folder::new(&mut claims, "export", path, false)?, shown))
        });
        if export.is_some()
            && let EngineChoice::Named(engine) = workload.engine
        {
            super::export::target_of(&engine.name)?;
        }
        let export = export.transpose()?;
        Ok(PlanRequest {
            workload,
            search,
            map,
            memory_limit,
            typed,
            outputs,
            claims,
            export,
            json: self.json,
        })
    }
}

/// Runs the command; the exit code is 0, or 130 after an interrupt, with the best plan found until then.
pub fn run(args: PlanArgs) -> Result<u8, CliError> {
    let PlanRequest { workload, search, map, memory_limit, typed, outputs, mut claims, export, json } =
        args.request()?;
    let compares = workload.engine == EngineChoice::All;
    let Subject { model, cluster, workload, engine } = workload.load()?;
    let home = Setting { model: &model, engine: &engine, cluster, workload, memory_limit };
    let questions = map.questions(&home)?;
    let steps = if compares { engines_in_use().count() as u64 } else { questions.steps() };
    let bar = Bar::of_steps(!json, steps);
    let watch = Watch {
        step: &|what| bar.step(what),
        part: &|what| bar.part(what),
        progress: &|progress| bar.show(progress),
    };
    interrupt::heed();
    let plan = if compares {
        plan::engines::compare(&home, &search, watch)
    } else {
        plan::map::answer(&home, &search, &questions, watch)
    };
    interrupt::ignore();
    bar.clear();
    let code = if interrupt::came() { interrupt::CODE } else { 0 };
    let plan = plan.map_err(|failure| {
        let error = CliError::from(failure).with_typed("time-limit", typed.time.as_deref());
        error.with_typed("memory-limit", typed.memory.as_deref())
    })?;
    let exported = export.map(|(folder, shown)| {
        Ok::<_, CliError>((super::export::exported(&plan, &folder, &mut claims)?, shown))
    });
    let exported = exported.transpose()?;
    document::hand_out(&plan, &outputs, json)?;
    if let Some((exported, shown)) = exported.filter(|_| !json) {
        super::output::print(&format!("\n{}", super::export::text(&exported, &shown)))?;
    }
    Ok(code)
}

/// Names of strategy keys, separated by commas.
fn named(text: &str) -> Result<Vec<Key>, CliError> {
    let key = |name: &str| {
        name.parse::<Key>().map_err(|_| {
            let near = Key::near(name);
            CliError::usage("free", name, "no such strategy key").or(near)
        })
    };
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(key).collect()
}

/// `--tolerance`: a share, such as 3% or 0.03.
fn tolerance(text: &str) -> Result<f64, CliError> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let percent = |percent: &f64| (0.0..=100.0).contains(percent);
    let refused = |rule: &str, near: Vec<String>| Err(CliError::usage("tolerance", text, rule).or(near));
    let range = "a share from 0% to 100% is needed";
    match (text.strip_suffix('%').map(number), number(text)) {
        (Some(Some(given)), _) if percent(&given) => Ok(given / 100.0),
        (None, Some(share)) if (0.0..1.0).contains(&share) => Ok(share),
        // It may be a share or percents.
        (None, Some(1.0)) => {
            refused("1% and 100% are both written so", vec!["1%".to_owned(), "100%".to_owned()])
        }
        (None, Some(given)) if percent(&given) => refused(range, vec![format!("{given}%")]),
        _ => refused(range, vec!["3%".to_owned()]),
    }
}

/// `--time-limit`.
fn time_limit(text: &str) -> Result<Duration, CliError> {
    // A bare number is in seconds, as everywhere where a limit of time is typed.
    let rule = Rule {
        is_legal: |time: &Seconds| as_limit(*time).is_some(),
        legal: "above 0 with s, m or h",
        example: "5s",
        spellings: TIMES,
        units: &["s"],
        needs_unit: |_| false,
    };
    Ok(as_limit(quantity::quantity("time-limit", text, &rule)?).unwrap_or_default())
}

fn as_limit(time: Seconds) -> Option<Duration> {
    Duration::try_from_secs_f64(time.0).ok().filter(|limit| !limit.is_zero())
}

/// `--memory-limit`.
pub(super) fn memory_limit(text: &str) -> Result<Bytes, CliError> {
    quantity::size("memory-limit", text)
}
