//! `meshwright simulate`: what one strategy costs.

use std::path::PathBuf;

use clap::Args;

use super::claims::Claims;
use super::document;
use super::error::CliError;
use super::from::{Asked, AskedArgs, Question};
use super::output::Outputs;
use super::workload::WorkloadArgs;
use crate::export::Imported;
use crate::plan;
use crate::search::Problem;

pub const EXAMPLES: &str = "\
Examples:
  meshwright simulate llama-3.1-8b --cluster 1x8xh100-sxm \\
      --strategy zero=3,ckpt=full
  meshwright simulate gpt3-175b --cluster 16x8xa100-sxm-80gb --engine megatron \\
      --strategy tp=8,pp=8,sched=interleaved,virtual=3,zero=1,ckpt=selective \\
      --timeline trace.json
  meshwright simulate gpt2 --cluster 1x2xh100-sxm --strategy tp=2 --json
  meshwright simulate --cluster 8x8xh100-sxm --from train.toml

Exit code 4 with the whole document says that the strategy is legal and does not fit.
The timeline opens in https://ui.perfetto.dev and in Chrome's tracing page.";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct SimulateArgs {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    asked: AskedArgs,
    /// Write the plan document here
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write a page for the browser here
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the passes of every pipeline rank here, as trace events
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Print the plan document as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The arguments with their syntax checked.
struct SimulateRequest {
    question: Question,
    outputs: Outputs,
    pub(super) json: bool,
}

impl SimulateArgs {
    fn request(self) -> Result<SimulateRequest, CliError> {
        let mut claims = self.workload.claims().reads("--from", self.asked.from.as_ref());
        let question = Question::new(self.workload, self.asked)?.of_one_engine(false)?;
        let named = [("out", self.out), ("report", self.report), ("timeline", self.timeline)];
        Ok(SimulateRequest { question, outputs: Outputs::new(&mut claims, named)?, json: self.json })
    }
}

/// Runs the command; false where the strategy does not fit.
pub fn run(args: SimulateArgs) -> Result<bool, CliError> {
    let SimulateRequest { question, outputs, json } = args.request()?;
    let Asked { subject, draft, imported, .. } = question.load()?;
    let beside = imported.iter().flat_map(Imported::companions);
    outputs.spare(&beside.fold(Claims::default(), |claims, path| claims.reads("--from", Some(path))))?;
    let problem = Problem::new(&subject.model, &subject.cluster, subject.workload, &subject.engine, None);
    let plan = plan::simulate_draft(&problem, &draft)?;
    document::hand_out(&plan, &outputs, json)?;
    Ok(plan.prediction.fits)
}
