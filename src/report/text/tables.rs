//! The tables of a report: stages, the next plans, and the ladder.

use crate::plan::{Plan, RankPrediction};
use crate::units::Bytes;

use super::super::unit::Unit;
use super::super::words;
use super::listing::{
    Column::{Number, Text},
    Listing,
};
use super::sheet::Sheet;

/// Stages shown in full; of more, the ends and the extremes.
const MOST_STAGES: usize = 8;

/// Memory and time of each pipeline rank; nothing where there is but one.
pub fn stages(sheet: &mut Sheet, plan: &Plan) {
    let ranks = &plan.prediction.ranks;
    if ranks.len() < 2 {
        return;
    }
    let unit = Unit::of_bytes(ranks.iter().map(|rank| rank.peak_memory_bytes.0 as f64).fold(0.0, f64::max));
    let live = format!("live {}", unit.name);
    let mut table = Listing::new(&[
        ("stage", Number),
        (&live, Number),
        ("states", Number),
        ("activations", Number),
        ("other", Number),
        ("bubble", Number),
        ("peak reached in", Text),
    ]);
    let mut before = None;
    for place in shown(ranks) {
        if before.is_some_and(|before| before + 1 < place) {
            table.row(["...".to_owned()]);
        }
        before = Some(place);
        let rank = &ranks[place];
        let memory = &rank.memory_bytes;
        let sum = |parts: &[Bytes]| unit.show(parts.iter().map(|part| part.0 as f64).sum());
        table.row([
            rank.stage.to_string(),
            sum(&[rank.peak_memory_bytes]),
            sum(&[memory.parameters, memory.gradients, memory.optimizer]),
            sum(&[memory.activations]),
            sum(&[memory.logits, memory.buffers, memory.overhead]),
            rank.time_s.bubble.to_string(),
            rank.peak_instant.clone(),
        ]);
    }
    sheet.listing("stages", &table);
}

/// The places of the ranks to show: all, or the first and last few, the fullest and the busiest.
fn shown(ranks: &[RankPrediction]) -> Vec<usize> {
    let all = 0..ranks.len();
    if ranks.len() <= MOST_STAGES {
        return all.collect();
    }
    let fullest = all.clone().max_by_key(|&place| (ranks[place].peak_memory_bytes, ranks.len() - place));
    let busiest = words::busiest(ranks);
    all.filter(|&place| {
        place < 3 || place + 3 >= ranks.len() || Some(place) == fullest || Some(place) == busiest
    })
    .collect()
}

/// The next best plans and what each trades.
pub fn alternatives(sheet: &mut Sheet, plan: &Plan) {
    if plan.alternatives.is_empty() {
        return;
    }
    let mut table =
        Listing::new(&[("plan", Text), ("step", Number), ("memory", Number), ("what it trades", Text)]);
    for other in &plan.alternatives {
        table.row([
            other.strategy.text.clone(),
            other.prediction.step_time_s.to_string(),
            other.prediction.process_bytes().to_string(),
            other.trades.clone(),
        ]);
    }
    sheet.listing("next", &table);
}

/// From the simplest plan to the chosen one.
pub fn ladder(sheet: &mut Sheet, plan: &Plan) {
    if plan.ladder.is_empty() {
        return;
    }
    let mut table = Listing::new(&[("change", Text), ("step", Number), ("memory", Number), ("", Text)]);
    for step in &plan.ladder {
        table.row([
            step.changed.clone(),
            step.prediction.step_time_s.to_string(),
            step.prediction.process_bytes().to_string(),
            words::fit(&step.prediction, plan.cluster.device_memory_bytes),
        ]);
    }
    sheet.listing("ladder", &table);
}
