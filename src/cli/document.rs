//! A plan handed out: its files, then text or JSON on stdout.

use std::env;
use std::io::{self, IsTerminal};

use terminal_size::{Width, terminal_size};

use super::error::CliError;
use super::output::{Outputs, print};
use crate::plan::Plan;
use crate::report::{Style, page, plan_text, trace_events};

/// Columns of text where nothing says how many there are.
const WIDTH: usize = 100;
/// Wider lines are hard to read.
const WIDEST: usize = 140;

/// Writes the files that `outputs` asks for, then prints `plan`.
pub fn hand_out(plan: &Plan, outputs: &Outputs, json: bool) -> Result<(), CliError> {
    let mut texts = Vec::new();
    if outputs.wants("out") {
        texts.push(("out", pretty(plan)));
    }
    if outputs.wants("report") {
        texts.push(("report", page(plan)));
    }
    if outputs.wants("timeline") {
        texts.push(("timeline", trace_events(plan).to_string() + "\n"));
    }
    outputs.write(&texts)?;
    print(&if json { pretty(plan) } else { plan_text(plan, style()) })
}

/// A document as JSON with line breaks.
pub fn pretty(document: &impl serde::Serialize) -> String {
    // Documents hold nothing that JSON cannot: keys are text, and there are no foreign types.
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

/// Colour only on a terminal, and not where `NO_COLOR` is set to anything (no-color.org).
pub fn style() -> Style {
    let is_terminal = io::stdout().is_terminal();
    let colour = is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let columns = if is_terminal { terminal_size() } else { None };
    Style { width: columns.map_or(WIDTH, |(Width(columns), _)| usize::from(columns).min(WIDEST)), colour }
}
