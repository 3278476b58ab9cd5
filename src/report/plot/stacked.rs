//! Stacked bars, a row for each pipeline rank: memory by category, and time by cause.

use crate::plan::{CategoryBytes, CauseSeconds, Plan};
use crate::units::{Bytes, Seconds};

use super::super::parts::{self, Part};
use super::super::unit::Unit;
use super::axis::Axis;
use super::panel::{Panel, label_every, row_height};
use super::{Ink, Width, draw};

/// One bar.
struct Row {
    label: String,
    parts: Vec<Part>,
    /// Shown at its end.
    whole: String,
}

impl Row {
    fn length(&self) -> f64 {
        self.parts.iter().map(|part| part.amount).sum()
    }
}

/// Memory of every pipeline rank at its peak, against the device's.
pub fn memory(plan: &Plan, width: Width) -> String {
    let device = plan.cluster.device_memory_bytes;
    let rows = rows(plan, |bytes, peak, _, _| (parts::memory(bytes), peak.to_string()));
    let most = rows.iter().map(Row::length).fold(0.0, f64::max);
    let limit = device.0 as f64;
    // A limit far out of reach would leave no picture of what is used.
    let limit = (limit < 8.0 * most).then(|| (limit, format!("device memory {device}")));
    let axis = Axis::from_zero(limit.as_ref().map_or(most, |limit| limit.0.max(most)), Unit::of_bytes);
    let description = "Memory by category of each pipeline rank at its peak";
    picture(&rows, (&axis, "memory of a device"), limit, (width, description))
}

/// The step of every pipeline rank by cause.
pub fn time(plan: &Plan, width: Width) -> String {
    let rows = rows(plan, |_, _, seconds, step| (parts::time(seconds), step.to_string()));
    let axis = Axis::from_zero(rows.iter().map(Row::length).fold(0.0, f64::max), Unit::of_seconds);
    let description = "Time of a step by cause on each pipeline rank";
    picture(&rows, (&axis, "time of a step"), None, (width, description))
}

/// A row for each rank, read from its memory, peak, causes and step.
fn rows(
    plan: &Plan,
    read: impl Fn(&CategoryBytes, Bytes, &CauseSeconds, Seconds) -> (Vec<Part>, String),
) -> Vec<Row> {
    let row = |label: String, (parts, whole)| Row { label, parts, whole };
    let whole = &plan.prediction;
    if whole.ranks.len() < 2 {
        let figures = read(&whole.memory_bytes, whole.peak_memory_bytes, &whole.time_s, whole.step_time_s);
        return vec![row("every rank".to_owned(), figures)];
    }
    let ranks = whole.ranks.iter().map(|rank| {
        let figures = read(&rank.memory_bytes, rank.peak_memory_bytes, &rank.time_s, rank.step_time_s);
        row(format!("stage {}", rank.stage), figures)
    });
    ranks.collect()
}

fn picture(
    rows: &[Row],
    (axis, title): (&Axis, &str),
    limit: Option<(f64, String)>,
    (width, description): (Width, &str),
) -> String {
    let row_height = row_height(rows.len());
    let (top, bottom) = (if limit.is_some() { 28 } else { 8 }, 52);
    let height = top + row_height * rows.len() as u32 + bottom;
    let (left, right) = match width {
        Width::Wide => (100, 90),
        Width::Narrow => (84, 86),
    };
    draw((width, height), description, |root, inks| {
        let y = top as i32..(height - bottom) as i32;
        let panel = Panel::new(root, inks, left..width.units() as i32 - right, y, rows.len());
        panel.bottom_axis(axis, title)?;
        for (place, row) in rows.iter().enumerate() {
            let line = place as f64;
            let mut end = 0.0;
            for part in &row.parts {
                let start = end;
                end += part.amount;
                let share = parts::share(part, &row.parts);
                panel.bar(
                    axis.position(start)..axis.position(end),
                    line + 0.12..line + 0.88,
                    Ink::Series(part.ink),
                    format!("{}: {} {} ({share})", row.label, part.name, part.shown),
                )?;
            }
            if place % label_every(row_height) == 0 {
                panel.row_label(place, &row.label)?;
                panel.note((1.0, line + 0.5), 8, &row.whole)?;
            }
        }
        match &limit {
            Some((limit, words)) => panel.limit(axis.position(*limit), words),
            None => Ok(()),
        }
    })
}
