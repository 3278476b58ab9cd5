//! `meshwright calibrate`: measures this machine and writes its cost model, or fits cost models to published runs.

use std::path::{Path, PathBuf};

use clap::Args;

use super::claims::Claims;
use super::document::pretty;
use super::error::{CliError, Kind};
use super::fit::{self, FitCommand};
use super::hints;
use super::output::{Outputs, print};
use super::progress::Bar;
use super::table::table;
use crate::calibrate::facts::{self, Facts, FactsError};
use crate::calibrate::{CalibrateError, Calibration, Effort, calibrate, gpu};
use crate::files;
use crate::report::Column::{Name, Number};
use crate::units::{Bytes, FlopsPerSecond, grouped, several};

/// The largest file of facts that is read.
const LARGEST_FACTS: Bytes = Bytes::mib(64);

pub const EXAMPLES: &str = "\
Examples:
  meshwright calibrate --device cpu --out cpu.json
  meshwright calibrate --device cuda --out my-gpu.json
  meshwright simulate gpt2 --cluster 1x2x./cpu.json --strategy tp=2 \\
      --seq-len 256 --global-batch 8 --precision fp32
  meshwright calibrate --fit traces/published --device a100-sxm-80gb \\
      --out a100-sxm-80gb.json
  meshwright calibrate --fit traces/published --models cost_models \\
      --out cost_models
  meshwright calibrate --fit traces/published --left-out
  meshwright calibrate --facts facts.json --out my-h100.json --trace runs.json

The machine should do nothing else meanwhile. A cost-model file stands where a cluster names its device.";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct CalibrateArgs {
    /// What is measured: cpu or cuda; with --fit the device to fit, with --facts the one measured
    #[arg(long, value_name = "NAME", required_unless_present_any = ["fit", "facts"])]
    #[arg(value_parser = hints::DEVICE, hide_possible_values = true)]
    device: Option<String>,
    /// Fit cost models to the runs in these files or folders instead of measuring
    #[arg(long, value_name = "TRACES", num_args = 1..)]
    fit: Vec<PathBuf>,
    /// Take what PyTorch measured on a card from this file instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with = "fit")]
    facts: Option<PathBuf>,
    /// Write the training runs that PyTorch measured here, as a trace
    #[arg(long, value_name = "FILE", requires = "facts")]
    trace: Option<PathBuf>,
    /// The built-in device whose numbers fill what is not measured [default: the one that its driver names]
    #[arg(long, value_name = "NAME", requires = "device", conflicts_with_all = ["fit", "facts"])]
    #[arg(value_parser = hints::DEVICE, hide_possible_values = true)]
    base: Option<String>,
    /// The engine whose profile is fitted; all devices and engines where none is named
    #[arg(long, value_name = "NAME", requires = "fit")]
    #[arg(value_parser = hints::ENGINE, hide_possible_values = true)]
    engine: Option<String>,
    /// Cost models to start from, laid out like cost_models/ [default: the built-in ones]
    #[arg(long, value_name = "DIR", requires = "fit")]
    models: Option<PathBuf>,
    /// Measure or fit roughly, for a first look
    #[arg(long, conflicts_with = "facts")]
    quick: bool,
    /// Fit nothing: leave each source of the runs out in turn, predict it by numbers fitted without it, and report the
    /// errors; the table of evidence goes to --out, if that is given
    #[arg(long, requires = "fit")]
    left_out: bool,
    /// Write the cost model here; what a fit of several changes goes into a folder
    #[arg(long, value_name = "FILE", required_unless_present = "left_out")]
    out: Option<PathBuf>,
    /// Print the cost model, or the report of a fit, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: CalibrateArgs) -> Result<(), CliError> {
    if !args.fit.is_empty() {
        return fit::run(&FitCommand {
            traces: &args.fit,
            device: args.device.as_deref(),
            engine: args.engine.as_deref(),
            models: args.models.as_deref(),
            out: args.out.as_deref(),
            quick: args.quick,
            left_out: args.left_out,
            json: args.json,
        });
    }
    if let Some(path) = &args.facts {
        return take_facts(path, &args);
    }
    match args.device.as_deref().unwrap_or_default() {
        "cpu" if args.base.is_some() => {
            Err(CliError::usage("base", "cpu", "is for a GPU; all of a CPU's model is measured"))
        }
        "cpu" => measure_cores(args),
        "cuda" => measure_gpu(args),
        other => {
            let rule = "cpu and cuda can be measured; other devices are fitted to runs (--fit)";
            Err(CliError::usage("device", other, rule).or(["cpu", "cuda"]))
        }
    }
}

/// Where the cost model goes, which is asked for wherever one is written.
fn out_shown(args: &CalibrateArgs) -> String {
    args.out.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}

const fn effort(is_quick: bool) -> Effort {
    if is_quick { Effort::Quick } else { Effort::Thorough }
}

/// `--device cpu`.
fn measure_cores(args: CalibrateArgs) -> Result<(), CliError> {
    let shown = out_shown(&args);
    let outputs = Outputs::new(&mut Claims::default(), [("out", args.out)])?;
    let bar = Bar::new(!args.json);
    let calibration = calibrate(effort(args.quick), &|part, share| bar.next(part, share));
    bar.clear();
    let calibration = calibration?;
    let document = pretty(&calibration.model);
    outputs.write(&[("out", document.clone())])?;
    print(&if args.json { document } else { text(&calibration, &shown) })
}

/// `--device cuda`.
fn measure_gpu(args: CalibrateArgs) -> Result<(), CliError> {
    let shown = out_shown(&args);
    let outputs = Outputs::new(&mut Claims::default(), [("out", args.out)])?;
    let bar = Bar::new(!args.json);
    let say = |part, share| bar.next(part, share);
    let calibration = gpu::calibrate(args.base.as_deref(), effort(args.quick), &say);
    bar.clear();
    let calibration = calibration?;
    let document = pretty(&calibration.model);
    outputs.write(&[("out", document.clone())])?;
    print(&if args.json { document } else { text_of_gpu(&calibration, &shown) })
}

/// `--facts`.
fn take_facts(path: &Path, args: &CalibrateArgs) -> Result<(), CliError> {
    let shown = path.display().to_string();
    let failed =
        |message: String| CliError { kind: Kind::Input, message, ..CliError::usage("facts", &shown, "") };
    let mut claims = Claims::default().reads("--facts", Some(path));
    let outputs = Outputs::new(&mut claims, [("out", args.out.clone()), ("trace", args.trace.clone())])?;
    let text = files::text(path, LARGEST_FACTS)
        .map_err(|unread| failed(format!("{shown} cannot be read: {unread}")))?;
    let unusable = |error: FactsError| match error {
        FactsError::Number(error) => failed(format!("{shown}: {error}")).or(error.nearest()),
        error @ FactsError::Run { .. } => failed(format!("{shown}: {error}")),
        error => failed(format!("{shown} {error}")),
    };
    let device = args.device.as_deref();
    let Facts { model, changed } = facts::read(&text, device).map_err(unusable)?;
    let training =
        args.trace.as_ref().map(|_| facts::training(&text, device)).transpose().map_err(unusable)?;
    let target = out_shown(args);
    let document = pretty(&model);
    let trace = training.as_ref().map(|training| ("trace", pretty(&training.trace)));
    outputs.write(&[("out", document.clone())].into_iter().chain(trace).collect::<Vec<_>>())?;
    let runs = args.trace.as_ref().zip(training).map_or_else(String::new, |(path, training)| {
        let (count, path) = (several("run", training.trace.runs.len()), path.display());
        format!("\n{count} in {path}, {} skipped or failed and left out\n", training.left_out)
    });
    let rows = changed.iter().map(|(path, was, is)| [(*path).to_owned(), number(*was), number(*is)]);
    let text = format!(
        "{}\n\n{}\n\nUse it as a device: --cluster 1x8x{target}\n{runs}",
        model.title,
        table([("MEASURED", Name), ("BUILT IN", Number), ("HERE", Number)], rows)
    );
    print(&if args.json { document } else { text })
}

fn number(value: f64) -> String {
    if (1e-2..1e7).contains(&value.abs()) { format!("{value:.4}") } else { format!("{value:.3e}") }
}

fn text_of_gpu(calibration: &gpu::Calibration, path: &str) -> String {
    let gpu::Calibration { model, changed, measured, seconds } = calibration;
    let rows = changed.iter().map(|change| {
        let was = change.was.map_or_else(|| "-".to_owned(), number);
        [change.path.clone(), was, number(change.is)]
    });
    let instructions: usize = measured.bf16.iter().chain(&measured.fp32).map(|timed| timed.count).sum();
    let left_out = match measured.left_out {
        0 => String::new(),
        count => format!(", {count} left out for lack of time or memory"),
    };
    format!(
        "{}\n\n{}\n\n{} of {} measured in {seconds:.1} s{left_out}. All other numbers, links between \
         GPUs among them, are the built-in model's.\n\nUse it as a device: --cluster 1x1x{path} --engine embedded\n",
        model.title,
        table([("MEASURED", Name), ("BUILT IN", Number), ("HERE", Number)], rows),
        several("instruction", instructions),
        several("program", measured.programs),
    )
}

fn text(calibration: &Calibration, path: &str) -> String {
    let Calibration { model, measured, seconds } = calibration;
    let micro = |seconds: f64| format!("{:.1} us", seconds * 1e6);
    let mut rows = vec![
        ["cores".to_owned(), measured.cores.to_string()],
        ["products in fp32, one core".to_owned(), model.peak.fp32.value.to_string()],
        ["products in fp64, one core".to_owned(), model.peak.fp64.value.to_string()],
    ];
    let half = |rate: FlopsPerSecond| ["products in bf16, one core".to_owned(), rate.to_string()];
    rows.extend(model.peak.bf16.as_ref().map(|rate| half(rate.value)));
    rows.extend([
        ["memory, all cores".to_owned(), model.memory_bandwidth.value.to_string()],
        ["copies between arenas".to_owned(), model.host_link.bandwidth.value.to_string()],
        ["collectives, one member".to_owned(), model.scale_up.link.bandwidth.value.to_string()],
        ["a meeting of ranks".to_owned(), micro(measured.meeting)],
        ["from instruction to instruction".to_owned(), micro(measured.gap)],
        ["cores alone that do as much as all".to_owned(), format!("{:.2}", measured.effective)],
        ["handing a kernel to all cores".to_owned(), micro(measured.dispatch)],
        ["of it not shared by cores".to_owned(), format!("{:.1} %", 100.0 * measured.serial_share)],
    ]);
    rows.extend(
        model.kernels.iter().map(|(kind, rates)| [kind.name().to_owned(), rates.fp32.value.to_string()]),
    );
    let samples = measured.fp32.len() + measured.fp64.len() + measured.bf16.len();
    format!(
        "{}\n\n{}\n\n{} ops measured in {seconds:.1} s; use it as a device: --cluster 1x{}x{path}\n",
        model.title,
        table([("MEASURED", Name), ("", Number)], rows),
        grouped(samples as u64),
        measured.cores.max(2),
    )
}

impl From<CalibrateError> for CliError {
    fn from(error: CalibrateError) -> Self {
        let message = error.to_string();
        let of = |kind, field, value: &str| Self { kind, message, ..Self::usage(field, value, "") };
        match error {
            CalibrateError::Run(error) => error.into(),
            CalibrateError::Data(error) => error.into(),
            CalibrateError::Card { card, nearest } => of(Kind::Input, "base", &card).or(nearest),
            CalibrateError::Held { held, .. } => of(Kind::Infeasible, "memory", &held.0.to_string()),
            CalibrateError::Number(error) => {
                of(Kind::Input, error.field(), &error.value()).or(error.nearest())
            }
            CalibrateError::Program { program, .. } => of(Kind::Run, "program", &program),
        }
    }
}
