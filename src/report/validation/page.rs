//! A validation as a page for a browser: figures, pictures of errors, and every table.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::html::{figure, frame, legend, plain, section, table};
use super::super::plot::validation::{Mark, residuals, scatter};
use super::listing::{self, Listing, listings, name, of, percent, share, signed};
use crate::units::grouped;
use crate::validate::{Group, Quantity, Run, Validation};

/// Inks of the sources with the most runs; all others share the last.
const INKS: u8 = 7;

/// The whole page, dated `date`. It fetches nothing and runs no script; whatever comes from records is escaped.
pub fn validation_page(validation: &Validation, date: &str, every_run: bool) -> String {
    let heading = format!("{} measured runs, predicted", grouped(validation.runs.len() as u64));
    let header = html! {
        p.kicker { "Meshwright validation" }
        h1 { (heading) }
        p { "By version " (env!("CARGO_PKG_VERSION")) " on " (date) "; " (validation.skipped.len()) " more could not be simulated." }
    };
    let inks = inks(validation);
    let rest = listings(validation, every_run);
    let shown = |listing: &&Listing| {
        let has_picture = [Quantity::StepTime, Quantity::Memory]
            .into_iter()
            .any(|quantity| listing.title == listing::figures(validation, quantity, false).title);
        !has_picture
    };
    let main = html! {
        @if let Some(all) = validation.groups.iter().find(|group| group.name == "all") { (headline(all)) }
        @for quantity in [Quantity::StepTime, Quantity::Memory] { (errors(validation, quantity, &inks)) }
        @for (place, listing) in rest.iter().filter(shown).enumerate() {
            (section(&format!("listing-{place}"), &listing.title, listed(listing)))
        }
    };
    let footer = "Errors are predicted over measured, less one. GiB are 2³⁰ bytes.";
    frame(&format!("Meshwright validation: {heading}"), header, main, footer)
}

fn headline(all: &Group) -> Markup {
    let tile = |name: &str, value: String, beside: String| {
        html! { div { dt { (name) } dd { strong { (value) } span { (beside) } } } }
    };
    let beside = |figures: &crate::validate::Figures| {
        format!("median {}, bias {}", percent(figures.median), signed(figures.bias))
    };
    html! {
        section.headline aria-label="Headline numbers" {
            dl.tiles {
                (tile("mean error of step time", percent(all.time.mape), beside(&all.time)))
                (tile("step times within 10 %", share(all.time.within_10), format!("{} within 20 %", share(all.time.within_20))))
                (tile("mean error of peak memory", percent(all.memory.mape), beside(&all.memory)))
                (tile("mean regret of our best", percent(all.ranking.mean_regret), format!("over {} groups", all.ranking.groups)))
            }
        }
    }
}

/// Pictures and table of the errors of one quantity; nothing where nothing was measured.
fn errors(validation: &Validation, quantity: Quantity, inks: &BTreeMap<&str, u8>) -> Markup {
    let listing = listing::figures(validation, quantity, false);
    let marks = marks(validation, quantity, inks);
    if marks.is_empty() {
        return html! {};
    }
    let mut names: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
    for (name, ink) in inks.iter().filter(|(name, _)| marks.iter().any(|mark| mark.source == **name)) {
        names.entry(*ink).or_default().push(name);
    }
    let entries = names.iter().map(|(ink, names)| (*ink, if *ink == INKS { "others" } else { names[0] }));
    let id = if quantity == Quantity::StepTime { "time" } else { "memory" };
    section(
        id,
        &listing.title,
        html! {
            (legend(entries))
            (figure(&scatter(&marks, quantity), html! {
                "Each dot is a run; on the line prediction and measurement agree, between the dotted ones they differ by less than 20 %."
            }))
            (figure(&residuals(&marks), html! {
                "Errors by source, too short predictions to the left; the bar is the median. What is beyond the ends stands there."
            }))
            (listed(&listing))
            @let unseen = of_all(validation, quantity);
            @if let Some(figures) = unseen { p.small { "Over all: mean " (percent(figures.0)) ", median " (percent(figures.1)) "." } }
        },
    )
}

fn of_all(validation: &Validation, quantity: Quantity) -> Option<(Option<f64>, Option<f64>)> {
    let all = validation.groups.iter().find(|group| group.name == "all")?;
    Some((of(all, quantity).mape, of(all, quantity).median))
}

fn listed(listing: &Listing) -> Markup {
    let rows = listing.rows.iter().map(|row| row.iter().map(plain).collect());
    html! {
        @if !listing.note.is_empty() { p { (listing.note) } }
        (table("", &listing.columns, rows))
    }
}

fn marks<'a>(validation: &'a Validation, quantity: Quantity, inks: &BTreeMap<&str, u8>) -> Vec<Mark<'a>> {
    let amount = |run: &Run| {
        let of = |quantities: &crate::validate::Quantities| match quantity {
            Quantity::StepTime => quantities.step_time_s.map(|seconds| seconds.0),
            Quantity::Memory => quantities.peak_memory_bytes.map(|bytes| bytes.0 as f64),
        };
        Some((of(&run.predicted)?, of(&run.measured)?))
    };
    let good = validation.runs.iter().filter(|run| run.quality != "C");
    good.filter_map(|run| {
        let error = run.error.of_quantity(quantity)?;
        let (predicted, measured) = amount(run)?;
        let [said, found] = listing::amounts(run, quantity);
        Some(Mark {
            source: &run.family,
            ink: inks.get(run.family.as_str()).copied().unwrap_or(INKS),
            predicted,
            measured,
            error,
            title: format!(
                "{}: {} {said}, measured {found} ({})",
                run.id,
                name(quantity).to_lowercase(),
                signed(Some(error))
            ),
        })
    })
    .collect()
}

/// The ink of each source: the six with the most runs have their own.
fn inks(validation: &Validation) -> BTreeMap<&str, u8> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for run in validation.runs.iter().filter(|run| run.quality != "C") {
        *counts.entry(&run.family).or_default() += 1;
    }
    let mut ordered: Vec<_> = counts.into_iter().collect();
    ordered.sort_by_key(|(_, count)| usize::MAX - count);
    ordered.into_iter().enumerate().map(|(place, (name, _))| (name, (place as u8 + 1).min(INKS))).collect()
}
