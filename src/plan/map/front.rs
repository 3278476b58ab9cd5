//! The Pareto front over all plans of the map.

use super::Questions;
use super::choose::Chosen;
use crate::plan::assemble::peak;
use crate::plan::document::ParetoPoint;
use crate::plan::money::cost;
use crate::search::map::{self, Point, SweepKey};
use crate::units::Bytes;

/// The plans that no other beats in all that was asked about: time, memory, devices, money. None where only time and
/// memory count, as in the front that the search itself returns.
pub fn front(
    questions: &Questions<'_>,
    points: &[Point<'_>],
    chosen: &Chosen<'_>,
) -> Option<Vec<ParetoPoint>> {
    let by_devices = questions.sweep.as_ref().is_some_and(|sweep| sweep.key == SweepKey::Devices);
    if !by_devices && questions.price.is_none() {
        return None;
    }
    let found = points.iter().filter_map(|point| Some((&point.setting, point.found.as_ref().ok()?)));
    let found = found.filter(|_| by_devices).chain([(&chosen.setting, &chosen.outcome)]);
    let mut all: Vec<ParetoPoint> = Vec::new();
    for (setting, outcome) in found {
        let problem = setting.problem();
        for candidate in outcome.pareto.iter().chain([&outcome.winner]) {
            let devices = candidate.strategy.devices();
            let point = ParetoPoint {
                strategy: candidate.strategy.text(problem.facts.defaults),
                step_time_s: candidate.playback.step_time,
                peak_memory_bytes: peak(&problem, candidate),
                process_bytes: Some(candidate.memory.process),
                devices: by_devices.then_some(devices),
                cost_token: questions.price.map(|price| cost(&problem, candidate, price, None).token),
            };
            if !all.contains(&point) {
                all.push(point);
            }
        }
    }
    // Whichever of the two figures of memory is looked at.
    let fitting = unbeaten(all, ParetoPoint::process_bytes);
    let mut kept = unbeaten(fitting, |point| point.peak_memory_bytes);
    kept.sort_by(|one, other| one.step_time_s.0.total_cmp(&other.step_time_s.0));
    Some(kept)
}

/// The points that no other beats in all of time, `memory`, devices and money.
fn unbeaten(points: Vec<ParetoPoint>, memory: impl Fn(&ParetoPoint) -> Bytes) -> Vec<ParetoPoint> {
    let known = |amount: Option<f64>| amount.unwrap_or(0.0);
    let dimensions = points.iter().map(|point| {
        [
            point.step_time_s.0,
            memory(point).0 as f64,
            known(point.devices.map(|devices| devices as f64)),
            known(point.cost_token.map(|cost| cost.0)),
        ]
    });
    let dimensions: Vec<[f64; 4]> = dimensions.collect();
    map::front(&dimensions).into_iter().map(|place| points[place].clone()).collect()
}
