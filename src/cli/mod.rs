//! The command line: one file a subcommand; printing, progress and exit codes live here.
//!
//! Two stages: `Args` is what was typed; from it comes a validated request. Nothing below sees a flag.

mod calibrate;
mod claims;
mod clusters;
mod completions;
#[cfg(unix)]
mod devices;
mod document;
mod error;
mod execute;
mod execute_args;
mod execute_error;
mod execute_launch;
mod execute_plan;
mod execute_slice;
mod explain;
mod export;
mod fit;
mod fit_text;
mod folder;
mod freeze;
mod from;
mod gpu;
mod help;
mod hints;
mod interrupt;
mod job;
mod kept;
mod keys;
mod layers;
mod machine;
mod map;
mod memory;
mod models;
mod number;
mod output;
mod parent;
mod plan;
mod predicted_by;
mod progress;
mod quantity;
mod quick;
mod report;
mod simulate;
mod table;
mod validate;
mod workload;

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use error::{CliError, ErrorDocument, Kind};
pub use memory::Heap;

/// Plans, simulates and explains parallel training of large models.
#[derive(Parser, Debug)]
#[command(name = "meshwright", version, about, after_help = EXAMPLES)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  meshwright plan llama-3.1-70b --cluster 8x8xh100-sxm --seq-len 8192 \\
      --report plan.html
  meshwright simulate gpt2 --cluster 1x2xh100-sxm --strategy tp=2
  meshwright explain gpt2 --cluster 1x2xh100-sxm --strategy tp=2
  meshwright execute

How strategies are written: meshwright help strategy

Exit codes: 0 done, 2 usage, 3 input, 4 infeasible or illegal,
5 output could not be written, 6 a run failed, 130 interrupted.";

#[derive(Subcommand, Debug)]
enum Command {
    /// Find the best parallel strategy for a model on a cluster
    #[command(after_help = plan::EXAMPLES, mut_arg("model", |arg| arg.required(true)))]
    Plan(plan::PlanArgs),
    /// Predict memory and time of one strategy
    #[command(after_help = simulate::EXAMPLES, mut_arg("model", |arg| arg.required_unless_present("from")))]
    Simulate(simulate::SimulateArgs),
    /// Say why a strategy is illegal, does not fit or is slower than the best, and what would help
    #[command(after_help = explain::EXAMPLES, mut_arg("model", |arg| arg.required_unless_present("from")))]
    Explain(explain::ExplainArgs),
    /// Train under a plan on this machine's cores or GPU, and measure what was predicted
    #[command(after_help = execute::EXAMPLES)]
    Execute(execute_args::ExecuteArgs),
    /// Measure this machine and write its cost model
    #[command(after_help = calibrate::EXAMPLES)]
    Calibrate(calibrate::CalibrateArgs),
    /// Compare predictions with measured runs
    #[command(after_help = validate::EXAMPLES)]
    Validate(validate::ValidateArgs),
    /// Write a plan as the configuration of a training engine, with scripts that start it
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportArgs),
    /// Write the page of a plan document
    #[command(after_help = report::EXAMPLES)]
    Report(report::ReportArgs),
    /// List the models that can be named, or the layers of one
    #[command(after_help = models::EXAMPLES)]
    Models(models::ModelsArgs),
    /// List the devices that clusters can be made of
    #[command(after_help = clusters::EXAMPLES)]
    Clusters(clusters::ClustersArgs),
    #[cfg(unix)]
    /// List what this machine can train on: its cores, its GPUs, and what these need
    #[command(after_help = devices::EXAMPLES)]
    Devices(devices::DevicesArgs),
    /// Print completions for a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArgs),
    /// Explain a command in full, or how strategies are written: help strategy
    #[command(after_help = help::EXAMPLES)]
    Help(help::HelpArgs),
}

/// All commands with their arguments, as they are defined.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs what the process was asked for; the exit code is as documented.
pub fn run() -> ExitCode {
    let typed: Vec<OsString> = env::args_os().collect();
    let json = asks_for_json(&typed);
    if let Err(error) = memory::prepare(json) {
        return end(Err(error), json);
    }
    interrupt::install();
    if help::asks_for_strategy(&typed) {
        return end(help::strategy().map(|()| 0), false);
    }
    let cli = match parse(&typed) {
        Ok(cli) => cli,
        // Help and version are not errors.
        Err(shown) if !shown.use_stderr() => {
            return end(output::print(&shown.render().to_string()).map(|()| 0), false);
        }
        Err(_) if !job::speaks() => return ExitCode::from(Kind::Usage.code()),
        Err(error) => {
            if !json {
                // With clap's own tips and usage; that nobody reads them is no reason to fail otherwise.
                let text = error.render();
                let text =
                    if io::stderr().is_terminal() { text.ansi().to_string() } else { text.to_string() };
                output::say(text.trim_end());
                return ExitCode::from(Kind::Usage.code());
            }
            return end(Err(error.into()), true);
        }
    };
    let json = cli.command.prints_json();
    let done = match cli.command {
        Command::Plan(args) => plan::run(args),
        Command::Simulate(args) => {
            simulate::run(args).map(|fits| if fits { 0 } else { Kind::Infeasible.code() })
        }
        Command::Explain(args) => explain::run(args).map(|()| 0),
        Command::Execute(args) => execute::run(args),
        Command::Calibrate(args) => calibrate::run(args).map(|()| 0),
        Command::Validate(args) => validate::run(args).map(|()| 0),
        Command::Export(args) => export::run(args).map(|()| 0),
        Command::Report(args) => report::run(args).map(|()| 0),
        Command::Models(args) => models::run(&args).map(|()| 0),
        Command::Clusters(args) => clusters::run(&args).map(|()| 0),
        #[cfg(unix)]
        Command::Devices(args) => devices::run(&args).map(|()| 0),
        Command::Completions(args) => completions::run(&args).map(|()| 0),
        Command::Help(args) => help::run(&args).map(|()| 0),
    };
    end(done, json)
}

/// The command that was typed; `-h` shows less than `--help`.
fn parse(typed: &[OsString]) -> Result<Cli, clap::Error> {
    let command = Cli::command();
    let command = if typed.iter().any(|argument| argument == "-h") { help::brief(command) } else { command };
    Cli::from_arg_matches(&command.try_get_matches_from(typed)?)
}

impl Command {
    const fn prints_json(&self) -> bool {
        match self {
            Self::Plan(args) => args.json,
            Self::Simulate(args) => args.json,
            Self::Explain(args) => args.json,
            Self::Execute(args) => args.json,
            Self::Calibrate(args) => args.json,
            Self::Validate(args) => args.json,
            Self::Export(args) => args.json,
            Self::Report(args) => args.json,
            Self::Models(args) => args.json,
            Self::Clusters(args) => args.json,
            #[cfg(unix)]
            Self::Devices(args) => args.json,
            Self::Completions(_) | Self::Help(_) => false,
        }
    }
}

/// Whether `--json` stands among the arguments, for those that did not parse.
fn asks_for_json(typed: &[OsString]) -> bool {
    typed.iter().skip(1).take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

/// The exit code of what was done, which has one of its own, or of its error.
fn end(done: Result<u8, CliError>, json: bool) -> ExitCode {
    let error = match done {
        Ok(code) => return ExitCode::from(code),
        Err(error) => error,
    };
    tell(&error, json);
    ExitCode::from(error.kind.code())
}

/// Says `error` on stderr, and on stdout as a document where those are asked for.
fn tell(error: &CliError, json: bool) {
    output::say(&error.to_string());
    if json {
        let _ = output::print(&document::pretty(&ErrorDocument { error: error.clone() }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_can_be_pasted_from_a_terminal_of_80_columns() {
        let root = command();
        let commands: Vec<_> = std::iter::once(&root).chain(root.get_subcommands()).collect();
        for command in commands {
            let help = command.get_after_help().unwrap().to_string();
            let examples = help.split_once("Examples:\n").unwrap().1.split("\n\nHow").next().unwrap();
            let lines = examples.lines().filter(|line| line.starts_with("  "));
            assert!(lines.clone().all(|line| line.chars().count() <= 80), "{examples}");
            let mut parsed = 0;
            for line in examples.replace("\\\n", "").lines() {
                let line = line.trim();
                if line.starts_with("meshwright ") {
                    let typed = line.split(" > ").next().unwrap_or_default().split_whitespace();
                    assert!(Cli::try_parse_from(typed).is_ok(), "{line}");
                    parsed += 1;
                } else {
                    let is_prose = line.is_empty() || line.starts_with('#') || !line.starts_with("--");
                    assert!(is_prose, "{line}");
                }
            }
            assert!(parsed > 0, "{help}");
        }
    }
}
