//! The tables of a report: stages, the next plans, and the ladder.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::plan::{Plan, RankPrediction};
use crate::units::Bytes;

use super::super::unit::Unit;
use super::super::words;
use super::sheet::{Sheet, pieces, plain, wrapped};

/// Stages shown in full; of more, the ends and the extremes.
const MOST_STAGES: usize = 8;

/// Memory and time of each pipeline rank; nothing where there is but one.
pub fn stages(sheet: &mut Sheet, plan: &Plan) {
    let ranks = &plan.prediction.ranks;
    if ranks.len() < 2 {
        return;
    }
    let unit = Unit::of_bytes(ranks.iter().map(|rank| rank.peak_memory_bytes.0 as f64).fold(0.0, f64::max));
    let peak = format!("peak {}", unit.name);
    let header = ["stage", &peak, "states", "activations", "other", "bubble", "peak reached in"];
    let mut table = table(sheet, &header, &[0, 1, 2, 3, 4, 5]);
    let mut before = None;
    for place in shown(ranks) {
        if before.is_some_and(|before| before + 1 < place) {
            table.add_row(["..."]);
        }
        before = Some(place);
        let rank = &ranks[place];
        let memory = &rank.memory_bytes;
        let sum = |parts: &[Bytes]| unit.show(parts.iter().map(|part| part.0 as f64).sum());
        table.add_row([
            rank.stage.to_string(),
            sum(&[rank.peak_memory_bytes]),
            sum(&[memory.parameters, memory.gradients, memory.optimizer]),
            sum(&[memory.activations]),
            sum(&[memory.logits, memory.buffers, memory.overhead]),
            rank.time_s.bubble.to_string(),
            plain(&rank.peak_instant),
        ]);
    }
    write(sheet, "stages", &table);
}

/// The places of the ranks to show: all, or the first and last few, the fullest and the slowest.
fn shown(ranks: &[RankPrediction]) -> Vec<usize> {
    let all = 0..ranks.len();
    if ranks.len() <= MOST_STAGES {
        return all.collect();
    }
    let fullest = all.clone().max_by_key(|&place| (ranks[place].peak_memory_bytes, ranks.len() - place));
    let slowest = all.clone().max_by(|&a, &b| ranks[a].step_time_s.0.total_cmp(&ranks[b].step_time_s.0));
    all.filter(|&place| {
        place < 3 || place + 3 >= ranks.len() || Some(place) == fullest || Some(place) == slowest
    })
    .collect()
}

/// The next best plans and what each trades.
pub fn alternatives(sheet: &mut Sheet, plan: &Plan) {
    if plan.alternatives.is_empty() {
        return;
    }
    let strategy = sheet.room() * 2 / 5;
    let mut table = table(sheet, &["plan", "step", "memory", "what it trades"], &[1, 2]);
    for other in &plan.alternatives {
        table.add_row([
            folded(&other.strategy.text, strategy),
            other.prediction.step_time_s.to_string(),
            other.prediction.peak_memory_bytes.to_string(),
            plain(&other.trades),
        ]);
    }
    if let (Some(column), Ok(strategy)) = (table.column_mut(0), u16::try_from(strategy)) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(strategy + 2)));
    }
    write(sheet, "next", &table);
}

/// From the simplest plan to the chosen one.
pub fn ladder(sheet: &mut Sheet, plan: &Plan) {
    if plan.ladder.is_empty() {
        return;
    }
    let mut table = table(sheet, &["change", "step", "memory", ""], &[1, 2]);
    for step in &plan.ladder {
        table.add_row([
            plain(&step.changed),
            step.prediction.step_time_s.to_string(),
            step.prediction.peak_memory_bytes.to_string(),
            words::fit(&step.prediction, plan.cluster.device_memory_bytes),
        ]);
    }
    write(sheet, "ladder", &table);
}

/// A strategy text in lines of `width`, broken after commas.
pub(super) fn folded(text: &str, width: usize) -> String {
    wrapped(&pieces(&plain(text), &[','], width), "", width).join("\n")
}

pub(super) fn table(sheet: &Sheet, header: &[&str], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(sheet.room()).unwrap_or(u16::MAX))
        .set_header(header.iter().map(Cell::new));
    for &number in numbers {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

pub(super) fn write(sheet: &mut Sheet, label: &str, table: &Table) {
    let lines: Vec<_> = table.trim_fmt().lines().map(str::to_owned).collect();
    sheet.gap();
    sheet.lines(label, "1", &lines);
}
