//! `meshwright report`: the page of a plan document.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::claims::Claims;
use super::document::pretty;
use super::error::CliError;
use super::output::{Outputs, print};
use crate::plan;
use crate::report::page;

pub const EXAMPLES: &str = "\
Examples:
  meshwright plan gpt2-xl --cluster 1x8xa100-sxm-40gb --out plan.json
  meshwright report plan.json --out page.html";

/// What was typed.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// A plan document, as `plan --out` and `simulate --out` write it
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// Write the page here
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print what was written, or what went wrong, as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the command.
pub fn run(args: ReportArgs) -> Result<(), CliError> {
    let path = args.out.display().to_string();
    let mut claims = Claims::default().reads("PLAN.json", Some(&args.plan));
    let outputs = Outputs::new(&mut claims, [("out", Some(args.out))])?;
    let plan = plan::read(&args.plan)?;
    outputs.write(&[("out", page(&plan))])?;
    if args.json { print(&pretty(&json!({ "report": path }))) } else { Ok(()) }
}
