//! A plan as a page for a browser: self-contained, light and dark, readable without its pictures.

mod copying;
mod evidence;
mod figures;
mod gradients;
mod map;
mod tables;
#[cfg(test)]
pub(super) mod tests;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::plan::Plan;

use super::words;
pub(super) use figures::{figure, legend};
pub(super) use tables::{plain, table};

/// Colours, sizes and layout; the colours of both themes are variables.
const SHEET: &str = include_str!("html/page.css");

/// The whole page. It fetches nothing, its one script is its own and only copies; whatever comes from the plan is escaped.
pub fn page(plan: &Plan) -> String {
    let title = format!("{} on {} x {}", plan.model.name, plan.cluster.devices, plan.cluster.device);
    let header = html! {
        p.kicker { "Meshwright plan" }
        h1 { (words::subject(plan)) }
        p { (words::work(&plan.workload, &plan.engine)) }
    };
    let main = html! {
        (headline(plan))
        (strategy(plan))
        (evidence::evidence(plan))
        (figures::memory(plan))
        (map::run(plan))
        (gradients::gradients(plan))
        (figures::time(plan))
        (figures::timeline(plan))
        (figures::ladder(plan))
        (tables::alternatives(plan))
        (figures::pareto(plan))
        (map::sweep(plan))
        (map::sensitivity(plan))
        (map::maximum(plan))
        (tables::search(plan))
        (tables::provenance(plan))
        (copying::script())
    };
    let footer = "Every figure is a prediction; intervals are 80 %. GiB are 2³⁰ bytes.";
    frame(&format!("Meshwright plan: {title}"), header, main, footer)
}

/// A page of these parts, in the house's style.
pub(super) fn frame(title: &str, header: Markup, main: Markup, footer: &str) -> String {
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "meshwright " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(SHEET)) }
            }
            body {
                header { (header) }
                main { (main) }
                footer {
                    p { (footer) }
                    p { "Meshwright " (env!("CARGO_PKG_VERSION")) }
                }
            }
        }
    };
    body.into_string()
}

/// A section under a heading.
pub(super) fn section(id: &str, heading: &str, body: Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby={ (id) "-heading" } {
            h2 id={ (id) "-heading" } { (heading) }
            (body)
        }
    }
}

fn headline(plan: &Plan) -> Markup {
    let prediction = &plan.prediction;
    let device = plan.cluster.device_memory_bytes;
    let [fast, slow] = prediction.interval.step_time_s;
    let tile = |name: &str, value: String, beside: String| {
        html! { div { dt { (name) } dd { strong { (value) } span { (beside) } } } }
    };
    let fit = words::fit(prediction, device);
    html! {
        section.headline aria-label="Headline numbers" {
            p.verdict { (plan.verdict) }
            @if !prediction.fits {
                p.alert role="alert" { strong { "This plan does not fit" } " (" (fit) ")." }
            }
            dl.tiles {
                (tile("step time", prediction.step_time_s.to_string(), match words::spread(prediction) {
                    Some(spread) => format!("{spread}, {fast} to {slow}"),
                    None => String::new(),
                }))
                (tile("tokens/s per device", words::rate(prediction.tokens_per_s_per_device), String::new()))
                (tile("model FLOP utilisation", words::percent(prediction.mfu), String::new()))
                (tile("memory of a device", words::memory(prediction), format!("of {device}: {fit}")))
                @if prediction.host_memory_bytes.0 > 0 {
                    (tile("host memory", prediction.host_memory_bytes.to_string(), "a device".to_owned()))
                }
            }
        }
    }
}

fn strategy(plan: &Plan) -> Markup {
    let record = &plan.strategy;
    section(
        "plan",
        "The plan",
        html! {
            p { (copying::parts(&record.description)) "." }
            (copying::copied("strategy-text", "Strategy text", &record.text))
            @for difference in &record.numerics {
                p.caution { strong { "Numerics: " } (difference) }
            }
            (tables::strategy(record))
            p { "To predict it again:" }
            (copying::copied("command", "Command", &words::command(plan)))
            @if !plan.warnings.is_empty() {
                h3 { "Warnings" }
                ul { @for warning in &plan.warnings { li.caution { (warning) } } }
            }
        },
    )
}
