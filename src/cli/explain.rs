//! `meshwright explain`: why not this strategy.

use clap::Args;

use super::document::{pretty, style};
use super::error::CliError;
use super::from::{Asked, AskedArgs, Question};
use super::output::print;
use super::plan::memory_limit;
use super::progress::Bar;
use super::workload::WorkloadArgs;
use crate::export::{Scene, file_diff};
use crate::plan;
use crate::report::explanation_text;
use crate::search::Problem;
use crate::units::Bytes;

pub const EXAMPLES: &str = "\
Examples:
  meshwright explain llama-3.1-8b --cluster 1x8xh100-sxm --strategy tp=6
  meshwright explain llama-3.1-70b --cluster 8x8xh100-sxm --seq-len 8192 \\
      --strategy zero=3,micro=2
  meshwright explain gpt2 --cluster 1x2xh100-sxm --strategy tp=2 \\
      --memory-limit 10GiB --json
  meshwright explain --cluster 8x8xh100-sxm --from train.toml

Exit code 0 says that it could be explained, also where the strategy is illegal or does not fit.";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    asked: AskedArgs,
    /// Device memory that a plan may use, such as 70GiB [default: all of it]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory_limit: Option<String>,
    /// Print the explanation as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The arguments with their syntax checked.
struct ExplainRequest {
    question: Question,
    memory_limit: Option<Bytes>,
    json: bool,
}

impl ExplainArgs {
    fn request(self) -> Result<ExplainRequest, CliError> {
        Ok(ExplainRequest {
            question: Question::new(self.workload, self.asked)?.of_one_engine(true)?,
            memory_limit: self.memory_limit.as_deref().map(memory_limit).transpose()?,
            json: self.json,
        })
    }
}

/// Runs the command.
pub fn run(args: ExplainArgs) -> Result<(), CliError> {
    let ExplainRequest { question, memory_limit, json } = args.request()?;
    let Asked { subject, draft, text, imported, runner, batch, typed } = question.load()?;
    let problem =
        Problem::new(&subject.model, &subject.cluster, subject.workload, &subject.engine, memory_limit);
    let bar = Bar::new(!json);
    let mut explanation = plan::explain(&problem, &text, &draft, &|progress| bar.show(progress));
    bar.clear();
    // A file that hands its settings to another engine is no file of that one.
    let own = imported.as_ref().filter(|imported| {
        imported.target().zip(runner).is_some_and(|(target, runner)| target.text() == runner.text())
    });
    if let Some(imported) = own {
        let scene = Scene {
            model: &subject.model,
            devices: subject.cluster.devices(),
            devices_per_node: u64::from(subject.cluster.devices_per_node),
            global_batch: batch,
            seq_len: Some(subject.workload.seq_len),
            typed: Some(&typed),
        };
        explanation.file = file_diff(imported, &problem, &scene, &explanation);
    }
    print(&if json { pretty(&explanation) } else { explanation_text(&explanation, style()) })
}
