//! Errors by source, as titled tables: of sources left out of a fit, and of numbers that were fitted to them.

use super::amount::{percent, share, signed};
use super::listing::{Listing, name};
use crate::trace::published::Quality;
use crate::validate::{Figures, Group, LeftOut, Quantity, Run, Validation};

/// Errors by source, each predicted by numbers that were fitted without it.
pub fn unseen(validation: &Validation, quantity: Quantity) -> Listing {
    let mut groups: Vec<&Group> = validation.groups.iter().filter(|group| !is_weak(&group.name)).collect();
    groups.sort_by_key(|group| group.name == "all");
    let rows = groups.into_iter().filter_map(|group| {
        let figures = left_out(group, quantity);
        figures.mape?;
        Some(vec![
            group.name.clone(),
            percent(figures.mape),
            percent(figures.median),
            signed(figures.bias),
            share(figures.within_10),
            share(figures.within_20),
            percent(of(group, quantity).mape),
        ])
    });
    Listing {
        title: format!("{}, each source left out", name(quantity)),
        note: "Predicted by numbers that were fitted without the source: what a run of somebody new may expect. Fitted in: \
               by numbers that were fitted to these runs too.",
        columns: vec![
            ("source", false),
            ("mean error", true),
            ("median", true),
            ("bias", true),
            ("within 10 %", true),
            ("20 %", true),
            ("fitted in", true),
        ],
        rows: rows.collect(),
    }
}

/// Errors by source, of quality A and B or of C.
pub fn figures(validation: &Validation, quantity: Quantity, of_weak: bool) -> Listing {
    let mut groups: Vec<&Group> =
        validation.groups.iter().filter(|group| is_weak(&group.name) == of_weak).collect();
    groups.sort_by_key(|group| group.name == "all");
    let rows = groups.into_iter().filter_map(|group| {
        let figures = of(group, quantity);
        let compared = compared(validation, group, quantity);
        // A run without a measured peak says nothing of memory; one that was not simulated says so under time.
        if compared == 0 && quantity == Quantity::Memory {
            return None;
        }
        Some(vec![
            group.name.strip_suffix("/C").unwrap_or(&group.name).to_owned(),
            group.runs.to_string(),
            group.simulated.to_string(),
            compared.to_string(),
            percent(figures.mape),
            percent(figures.median),
            signed(figures.bias),
            share(figures.within_5),
            share(figures.within_10),
            share(figures.within_20),
        ])
    });
    let grades = if of_weak { "quality C, not for headlines" } else { "quality A and B" };
    Listing {
        title: format!("{}, {grades}", name(quantity)),
        note: "Errors are predicted over measured, less one; the mean and the median are of their sizes.",
        columns: vec![
            ("source", false),
            ("runs", true),
            ("simulated", true),
            ("compared", true),
            ("mean error", true),
            ("median", true),
            ("bias", true),
            ("within 5 %", true),
            ("10 %", true),
            ("20 %", true),
        ],
        rows: rows.collect(),
    }
}

/// The figures of `quantity`.
pub const fn of(group: &Group, quantity: Quantity) -> &Figures {
    match quantity {
        Quantity::StepTime => &group.time,
        Quantity::Memory => &group.memory,
    }
}

/// The figures of `quantity` by numbers that were fitted without each source.
pub fn left_out(group: &Group, quantity: Quantity) -> Figures {
    let left_out = group.left_out.as_ref();
    let of = |left_out: &LeftOut| match quantity {
        Quantity::StepTime => left_out.time,
        Quantity::Memory => left_out.memory,
    };
    left_out.map(of).unwrap_or_default()
}

/// Runs of `group` with an error of `quantity`.
pub fn compared(validation: &Validation, group: &Group, quantity: Quantity) -> usize {
    let is_in = |run: &&Run| {
        let weak = run.quality == Quality::C.name();
        match group.name.strip_suffix("/C") {
            Some(family) => weak && run.family == family,
            None => !weak && (group.name == "all" || run.family == group.name),
        }
    };
    validation.runs.iter().filter(is_in).filter(|run| run.error.of_quantity(quantity).is_some()).count()
}

/// Whether a group is one of quality C.
pub fn is_weak(name: &str) -> bool {
    name.ends_with("/C")
}
