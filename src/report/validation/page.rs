//! A validation as a page for a browser: figures, pictures of errors, and every table.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::html::{figure, frame, legend, plain, section, table};
use super::super::plot::validation::{Mark, residuals, scatter};
use super::amount::{amounts, percent, share, signed};
use super::figures;
use super::listing::{Listing, listings, name};
use crate::units::{grouped, several};
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
    let rest = listings(validation, every_run);
    let shown = |listing: &&Listing| {
        let has_picture = [Quantity::StepTime, Quantity::Memory]
            .into_iter()
            .any(|quantity| listing.title == figures::figures(validation, quantity, false).title);
        !has_picture
    };
    let main = html! {
        @if let Some(all) = validation.groups.iter().find(|group| group.name == "all") { (headline(all)) }
        @for quantity in [Quantity::StepTime, Quantity::Memory] { (errors(validation, quantity)) }
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
    // What the numbers have seen says less than what they have not.
    let mean = |quantity: Quantity, what: &str| {
        let (own, unseen) = (figures::of(all, quantity), figures::left_out(all, quantity));
        let (figures, name) = match unseen.mape {
            Some(_) => (&unseen, format!("mean error of {what}, source left out")),
            None => (own, format!("mean error of {what}")),
        };
        let mut beside = format!("median {}, bias {}", percent(figures.median), signed(figures.bias));
        if unseen.mape.is_some() {
            beside = format!("{beside}; fitted in {}", percent(own.mape));
        }
        tile(&name, percent(figures.mape), beside)
    };
    let unseen = figures::left_out(all, Quantity::StepTime);
    let close = if unseen.mape.is_some() { &unseen } else { &all.time };
    html! {
        section.headline aria-label="Headline numbers" {
            dl.tiles {
                (mean(Quantity::StepTime, "step time"))
                (tile("step times within 10 %", share(close.within_10), format!("{} within 20 %", share(close.within_20))))
                (mean(Quantity::Memory, "peak memory"))
                (tile("mean regret of our best", percent(all.ranking.mean_regret), format!("over {}", several("group", all.ranking.groups))))
            }
        }
    }
}

/// Pictures and table of the errors of one quantity; nothing where nothing was measured.
fn errors(validation: &Validation, quantity: Quantity) -> Markup {
    let listing = figures::figures(validation, quantity, false);
    let inks = inks(validation, quantity);
    let marks = marks(validation, quantity, &inks);
    if marks.is_empty() {
        return html! {};
    }
    let own = inks.iter().filter(|(_, ink)| **ink < INKS).map(|(name, ink)| (*ink, *name));
    let mut entries: Vec<_> = own.collect();
    entries.sort_unstable();
    if inks.values().any(|ink| *ink == INKS) {
        entries.push((INKS, "others"));
    }
    let id = if quantity == Quantity::StepTime { "time" } else { "memory" };
    section(
        id,
        &listing.title,
        html! {
            (legend(entries.into_iter()))
            (figure(&scatter(&marks, quantity), html! {
                "Each dot is a run; on the line prediction and measurement agree, between the red ones they differ by less than 20 %."
            }))
            (figure(&residuals(&marks), html! {
                "Errors by source; too small predictions are on the left, the bar is the median. What is beyond the ends stands there."
            }))
            (listed(&listing))
        },
    )
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
        let [said, found] = amounts(run, quantity);
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

/// The ink of each source with errors of `quantity`: the six with the most runs have their own.
fn inks(validation: &Validation, quantity: Quantity) -> BTreeMap<&str, u8> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let is_shown = |run: &&Run| run.quality != "C" && run.error.of_quantity(quantity).is_some();
    for run in validation.runs.iter().filter(is_shown) {
        *counts.entry(&run.family).or_default() += 1;
    }
    let mut ordered: Vec<_> = counts.into_iter().collect();
    ordered.sort_by_key(|(_, count)| usize::MAX - count);
    ordered.into_iter().zip(1..).map(|((name, _), place)| (name, INKS.min(place))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::html::tests::unbalanced;
    use super::*;
    use crate::plan::{CategoryBytes, CauseSeconds};
    use crate::units::{Bytes, Seconds};
    use crate::validate::{Errors, Figures, Flag, LeftOut, Quantities, Ranking, Skipped, Worst};

    fn validation(id: &str, seconds: f64) -> Validation {
        let of = |factor: f64| Quantities {
            step_time_s: Some(Seconds(seconds * factor)),
            peak_memory_bytes: Some(Bytes((1e9 * factor) as u64)),
        };
        let (predicted, measured) = (of(1.1), of(1.0));
        let error = Errors::of(&predicted, &measured);
        let run = Run {
            id: id.to_owned(),
            family: id.to_owned(),
            quality: "A".to_owned(),
            memory_kind: "allocated".to_owned(),
            predicted,
            measured,
            error,
            left_out: Some(Errors { step_time: Some(0.25), memory: None }),
            time_s: CauseSeconds::default(),
            launches: 0.0,
            memory_bytes: CategoryBytes::default(),
            assumed: Vec::new(),
        };
        let worst =
            Worst { id: id.to_owned(), quantity: Quantity::StepTime, error: 0.1, cause: id.to_owned() };
        let group = Group {
            name: "all".to_owned(),
            runs: 1,
            simulated: 1,
            time: Default::default(),
            memory: Default::default(),
            left_out: Some(LeftOut {
                runs: 1,
                time: Figures { mape: Some(0.25), ..Figures::default() },
                memory: Figures::default(),
            }),
            ranking: Ranking { groups: 1, ..Ranking::default() },
            worst: vec![worst],
        };
        let own = Group { name: id.to_owned(), ..group.clone() };
        Validation {
            version: 1,
            runs: vec![run; 3],
            skipped: vec![Skipped { id: id.to_owned(), reason: id.to_owned() }],
            flags: vec![Flag { id: id.to_owned(), field: id.to_owned(), reason: id.to_owned() }],
            groups: vec![group, own],
        }
    }

    #[test]
    fn whatever_a_record_says_is_escaped_and_no_size_is_too_much() {
        for seconds in [1.0, 0.0, 1e300, f64::INFINITY, f64::NAN] {
            let page = validation_page(&validation("<script>'&\"", seconds), "2026-11-22", true);
            assert_eq!(unbalanced(&page), Vec::<String>::new());
            assert!(!page.contains("<script"));
        }
    }

    #[test]
    fn every_part_is_there() {
        let page = validation_page(&validation("a source", 2.0), "2026-11-22", false);
        for part in [
            "id=\"time\"",
            "id=\"memory\"",
            "Ranking",
            "Worst ten",
            "Not simulated: 1",
            "cannot be",
            ">Runs<",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(page.contains("a source: step time 2.20 s, measured 2.00 s (+10.0 %)"));
        // The headline is of what the numbers have not seen.
        assert!(page.contains("mean error of step time, source left out</dt><dd><strong>25.0 %"));
        assert!(page.contains("mean error of peak memory</dt>"));
    }
}
