//! What a validation says, as titled tables of words: every dress shows the same.

use std::collections::BTreeMap;

use super::amount::{NOTHING, amounts, percent, signed};
use super::figures::{figures, is_weak, unseen};
use crate::units::several;
use crate::validate::{Errors, Group, Quantity, Validation, Worst};

/// Columns of one of the worst runs.
const WORST: [(&str, bool); 5] =
    [("run", false), ("error", true), ("predicted", true), ("measured", true), ("likely cause", false)];
/// Runs that are shown one by one unless all are asked for.
const FEW: usize = 30;

/// A table under a title; of each column the name and whether it holds numbers.
pub struct Listing {
    pub title: String,
    pub note: &'static str,
    pub columns: Vec<(&'static str, bool)>,
    pub rows: Vec<Vec<String>>,
}

/// All listings that have rows, in reading order: `every_run` shows each run however many there are.
pub fn listings(validation: &Validation, every_run: bool) -> Vec<Listing> {
    let mut list = Vec::new();
    if every_run || validation.runs.len() <= FEW {
        list.push(runs(validation));
    }
    list.extend([
        unseen(validation, Quantity::StepTime),
        unseen(validation, Quantity::Memory),
        figures(validation, Quantity::StepTime, false),
        figures(validation, Quantity::Memory, false),
        ranking(validation),
        worst_of_each(validation, Quantity::StepTime),
        worst_of_each(validation, Quantity::Memory),
        figures(validation, Quantity::StepTime, true),
        figures(validation, Quantity::Memory, true),
        skipped(validation),
        flags(validation),
        worst(validation, Quantity::StepTime),
        worst(validation, Quantity::Memory),
    ]);
    list.retain(|listing| !listing.rows.is_empty());
    list
}

/// The name of a quantity in titles.
pub const fn name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::StepTime => "Step time",
        Quantity::Memory => "Peak memory",
    }
}

/// How well strategies of one task are ordered.
pub fn ranking(validation: &Validation) -> Listing {
    let mut groups: Vec<&Group> =
        validation.groups.iter().filter(|group| group.ranking.groups > 0 && !is_weak(&group.name)).collect();
    groups.sort_by_key(|group| group.name == "all");
    let rows = groups.into_iter().map(|group| {
        let ranking = &group.ranking;
        vec![
            group.name.clone(),
            ranking.groups.to_string(),
            ranking.spearman.map_or(NOTHING.to_owned(), |value| format!("{value:.2}")),
            percent(ranking.median_regret),
            percent(ranking.mean_regret),
        ]
    });
    Listing {
        title: "Ranking of strategies, quality A and B".to_owned(),
        note: "Groups of three and more runs that differ in strategy alone. Regret: how much slower than the best \
               measured run is the one that is predicted to be the best.",
        columns: vec![
            ("source", false),
            ("groups", true),
            ("rank correlation", true),
            ("median regret", true),
            ("mean regret", true),
        ],
        rows: rows.collect(),
    }
}

/// The ten largest errors over all.
pub fn worst(validation: &Validation, quantity: Quantity) -> Listing {
    let all = validation.groups.iter().find(|group| group.name == "all");
    let worst = all.into_iter().flat_map(|group| &group.worst).filter(|worst| worst.quantity == quantity);
    let rows = worst.map(|worst| row(validation, worst));
    Listing {
        title: format!("Worst ten of all, {}", name(quantity).to_lowercase()),
        note: "The likely cause is what the prediction is mostly made of, and what the record leaves open: a place to \
               look, not a proof.",
        columns: WORST.to_vec(),
        rows: rows.collect(),
    }
}

/// The ten largest errors of each source; nothing where there is but one, whose worst are those of all.
fn worst_of_each(validation: &Validation, quantity: Quantity) -> Listing {
    let sources: Vec<&Group> =
        validation.groups.iter().filter(|group| group.name != "all" && !is_weak(&group.name)).collect();
    let sources = if sources.len() > 1 { sources } else { Vec::new() };
    let rows = sources.into_iter().flat_map(|group| {
        group
            .worst
            .iter()
            .filter(|worst| worst.quantity == quantity)
            .map(|worst| [group.name.clone()].into_iter().chain(row(validation, worst)).collect())
    });
    Listing {
        title: format!("Worst ten of each source, {}", name(quantity).to_lowercase()),
        note: "",
        columns: [("source", false)].into_iter().chain(WORST).collect(),
        rows: rows.collect(),
    }
}

/// What stands in the columns `WORST` of one of the worst runs.
fn row(validation: &Validation, worst: &Worst) -> Vec<String> {
    let run = validation.runs.iter().find(|run| run.id == worst.id);
    let [predicted, measured] = run.map_or_else(Default::default, |run| amounts(run, worst.quantity));
    vec![worst.id.clone(), signed(Some(worst.error)), predicted, measured, worst.cause.clone()]
}

/// Runs that were not simulated, by reason, the most frequent first.
pub fn skipped(validation: &Validation) -> Listing {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for skipped in &validation.skipped {
        reasons.entry(&skipped.reason).or_default().push(&skipped.id);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, ids)| usize::MAX - ids.len());
    let rows = reasons
        .into_iter()
        .map(|(reason, ids)| vec![ids.len().to_string(), reason.to_owned(), ids[0].to_owned()]);
    Listing {
        title: format!("Not simulated: {}", several("run", validation.skipped.len())),
        note: "",
        columns: vec![("runs", true), ("reason", false), ("first of them", false)],
        rows: rows.collect(),
    }
}

/// Measured values that cannot be.
pub fn flags(validation: &Validation) -> Listing {
    let rows =
        validation.flags.iter().map(|flag| vec![flag.id.clone(), format!("{} {}", flag.field, flag.reason)]);
    Listing {
        title: "Values that cannot be, not compared".to_owned(),
        note: "",
        columns: vec![("run", false), ("value", false)],
        rows: rows.collect(),
    }
}

fn runs(validation: &Validation) -> Listing {
    let has_left_out = validation.runs.iter().any(|run| run.left_out.is_some());
    let both = [Quantity::StepTime, Quantity::Memory];
    let rows = validation.runs.iter().map(|run| {
        let cells = both.into_iter().flat_map(|quantity| {
            let [predicted, measured] = amounts(run, quantity);
            let left_out = run.left_out.and_then(|errors: Errors| errors.of_quantity(quantity));
            let left_out = has_left_out.then(|| signed(left_out));
            let error = signed(run.error.of_quantity(quantity));
            [predicted, measured].into_iter().chain(left_out).chain([error])
        });
        [run.id.clone()].into_iter().chain(cells).collect()
    });
    let columns = ["step predicted", "memory predicted"].into_iter().flat_map(|predicted| {
        let left_out = has_left_out.then_some(("left out", true));
        [(predicted, true), ("measured", true)].into_iter().chain(left_out).chain([("error", true)])
    });
    Listing {
        title: "Runs".to_owned(),
        note: "",
        columns: [("run", false)].into_iter().chain(columns).collect(),
        rows: rows.collect(),
    }
}
