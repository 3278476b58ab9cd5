//! Which setting of the map the plan is of.

use super::{Goal, Questions};
use crate::search::map::{Maximize, Maximum, Point, Setting, Watch};
use crate::search::{Failure, Outcome, Request, search};
use crate::units::typed;

/// The setting that the plan is of, and what was found there.
pub struct Chosen<'a> {
    pub setting: Setting<'a>,
    pub outcome: Outcome,
    /// That it is not the setting which was asked about, and why.
    pub warning: Option<String>,
}

/// What was to be as large as possible, and what was found.
pub type Largest<'a> = (Maximize, Result<Maximum<'a>, Failure>);

/// The setting that the goal of `questions` names; `points` and `largest` are what was found elsewhere.
///
/// # Errors
/// Why nothing fits, where nothing fits anywhere.
pub fn choose<'a>(
    home: &Setting<'a>,
    request: &Request,
    questions: &Questions<'_>,
    points: &[Point<'a>],
    largest: Option<&Largest<'a>>,
    watch: Watch<'_>,
) -> Result<Chosen<'a>, Failure> {
    let fitting = points.iter().filter(|point| point.found.is_ok());
    let expense = |point: &Point<'_>| {
        let winner = point.winner().map(|winner| questions.expense(&point.setting.problem(), winner));
        winner.unwrap_or(f64::INFINITY)
    };
    let point = match questions.goal {
        Goal::Given => points.iter().find(|point| point.setting.is_same(home)),
        Goal::FewestDevices => points.last(),
        Goal::Cheapest => {
            fitting.min_by(|one, other| expense(one).total_cmp(&expense(other))).or_else(|| points.last())
        }
    };
    let (setting, found) = match point {
        Some(point) => (point.setting.clone(), point.found.clone()),
        None => {
            (watch.part)("");
            (home.clone(), search(&home.problem(), request, watch.progress))
        }
    };
    let failure = match found {
        Ok(outcome) => return Ok(Chosen { setting, outcome, warning: None }),
        Err(failure) => failure,
    };
    let Some(mut elsewhere) = nearest(home, questions, points, largest) else { return Err(failure) };
    let what = |setting: &Setting<'_>| {
        format!(
            "{} x {} of {} with a batch of {} x {}",
            setting.cluster.devices(),
            setting.cluster.device.name,
            setting.cluster.device.memory.value,
            setting.workload.global_batch,
            typed("token", setting.workload.seq_len)
        )
    };
    elsewhere.warning = Some(format!(
        "There is no plan for {}, as was asked for: {failure}. This one is for {}.",
        what(home),
        what(&elsewhere.setting)
    ));
    Ok(elsewhere)
}

/// The point of the sweep nearest to `home` in which something fits, else the largest that fits.
fn nearest<'a>(
    home: &Setting<'a>,
    questions: &Questions<'_>,
    points: &[Point<'a>],
    largest: Option<&Largest<'a>>,
) -> Option<Chosen<'a>> {
    let distance = |setting: &Setting<'_>| {
        let value = |setting| questions.sweep.as_ref().map_or(1.0, |sweep| sweep.key.value(setting) as f64);
        (value(setting) / value(home)).ln().abs()
    };
    let swept = points
        .iter()
        .filter_map(|point| Some((&point.setting, point.found.as_ref().ok()?)))
        .min_by(|(one, _), (other, _)| distance(one).total_cmp(&distance(other)));
    let largest = || {
        let (_, Ok(found)) = largest? else { return None };
        Some((&found.setting, &found.outcome))
    };
    let (setting, outcome) = swept.or_else(largest)?;
    Some(Chosen { setting: setting.clone(), outcome: outcome.clone(), warning: None })
}
