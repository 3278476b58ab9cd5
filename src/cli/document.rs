//! A plan handed out: its files, then text or JSON on stdout.

use std::env;
use std::io::{self, IsTerminal};

use terminal_size::{Width, terminal_size};

use super::error::CliError;
use super::output::{Outputs, print};
use crate::plan::Plan;
use crate::report::{Closing, Style, page, plan_text, trace_events};

/// Columns of text where nothing says how many there are.
const WIDTH: usize = 100;
/// Wider tables are hard to read.
const WIDEST: usize = 200;

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

/// How text on stdout is to look: colour only on a terminal, and not where `NO_COLOR` is set to anything (no-color.org);
/// the width is that of `COLUMNS` where it is set, else the terminal's.
pub fn style() -> Style {
    let is_terminal = io::stdout().is_terminal();
    let colour = is_terminal && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let said =
        env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|&columns| columns > 0);
    let own = || terminal_size().filter(|_| is_terminal).map(|(Width(columns), _)| usize::from(columns));
    let columns: Option<usize> = said.or_else(own);
    let closing = if columns.is_some() { Closing::Wrapped } else { Closing::OneLine };
    Style { width: columns.map_or(WIDTH, |columns| columns.min(WIDEST)), colour, closing }
}
