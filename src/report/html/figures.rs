//! The sections around pictures: each with its legend outside it and its numbers in a table.

use maud::{Markup, PreEscaped, html};

use crate::plan::Plan;

use super::super::parts::{self, Part, share};
use super::super::plot::{self, Width};
use super::super::words;
use super::{section, tables};

/// A picture that scrolls sideways where the window is narrow.
pub fn figure(picture: &str, caption: Markup) -> Markup {
    html! {
        figure {
            div.picture tabindex="0" role="group" aria-label="Picture, scrolls sideways" { (PreEscaped(picture)) }
            figcaption { (caption) span.in-narrow { " The picture scrolls sideways →" } }
        }
    }
}

/// A picture drawn for wide and for narrow windows.
pub fn fitting(draw: impl Fn(Width) -> String, caption: Markup) -> Markup {
    html! {
        figure {
            div.in-wide { (PreEscaped(draw(Width::Wide))) }
            div.in-narrow { (PreEscaped(draw(Width::Narrow))) }
            figcaption { (caption) }
        }
    }
}

/// Forward and backward, whose shades tell chunks apart.
const CHUNK_INKS: [u8; 2] = [2, 4];

/// Swatches and names.
pub fn legend<'a>(entries: impl Iterator<Item = (u8, &'a str)>) -> Markup {
    html! {
        ul.legend {
            @for (ink, name) in entries {
                li { span class={ "swatch ink-" (ink) } aria-hidden="true" {} (name) }
            }
        }
    }
}

/// The shades of the chunks of a rank, of many the first and the last.
fn chunk_legend(chunks: u32) -> Markup {
    let all: Vec<u32> = if chunks <= 8 { (0..chunks).collect() } else { vec![0, chunks - 1] };
    html! {
        ul.legend {
            @for chunk in all {
                li {
                    @for ink in CHUNK_INKS {
                        span class={ "swatch ink-" (ink) } style={ "opacity:" (plot::chunk_shade(chunk, chunks)) }
                            aria-hidden="true" {}
                    }
                    "chunk " (chunk)
                }
            }
        }
    }
}

/// A legend of the parts that are more than nothing anywhere.
fn legend_of(rows: &[Vec<Part>]) -> Markup {
    let is_used = |place: usize| rows.iter().any(|row| row[place].amount > 0.0);
    let parts = rows.first().into_iter().flatten().enumerate();
    legend(parts.filter(|&(place, _)| is_used(place)).map(|(_, part)| (part.ink, part.name)))
}

/// Memory by category and rank.
pub fn memory(plan: &Plan) -> Markup {
    let prediction = &plan.prediction;
    let rows: Vec<_> = [&prediction.memory_bytes]
        .into_iter()
        .chain(prediction.ranks.iter().map(|rank| &rank.memory_bytes))
        .map(parts::memory)
        .collect();
    section(
        "memory",
        "Memory",
        html! {
            p {
                "The process of the fullest rank takes " (words::memory(prediction)) " of the device's "
                (plan.cluster.device_memory_bytes) "; this must fit. Of it " (prediction.peak_memory_bytes)
                " are live at the peak"
                @if let Some(rank) = words::fullest(prediction) {
                    ", reached in "
                    @if prediction.ranks.len() > 1 { "stage " (rank.stage) ", " }
                    (rank.peak_instant)
                }
                "; the rest is what the allocator reserves and driver and libraries hold. What follows is of live memory."
            }
            (legend_of(&rows))
            (fitting(|width| plot::memory(plan, width), html! { "Each rank at its own peak." }))
            (over_time(plan))
            (breakdown("Composition at the peak", "memory", &rows[0]))
            (tables::ranks(plan))
        },
    )
}

/// What the fullest rank holds through a step; nothing of a plan that does not say.
fn over_time(plan: &Plan) -> Markup {
    let Some(curve) = &plan.memory_over_time else { return html! {} };
    if plot::memory_over_time(plan, Width::Wide).is_none() {
        return html! {};
    }
    html! {
        (fitting(|width| plot::memory_over_time(plan, width).unwrap_or_default(), html! {
            "What the fullest rank"
            @if plan.prediction.ranks.len() > 1 { ", of stage " (curve.stage) "," }
            " holds from the start of a step to its end; of a long step the most in each of its parts."
        }))
    }
}

/// Time by cause and rank.
pub fn time(plan: &Plan) -> Markup {
    let prediction = &plan.prediction;
    let rows: Vec<_> = [&prediction.time_s]
        .into_iter()
        .chain(prediction.ranks.iter().map(|rank| &rank.time_s))
        .map(parts::time)
        .collect();
    section(
        "time",
        "Time",
        html! {
            p {
                "The step of " (prediction.step_time_s) " on the busiest rank" (words::busiest_stage(prediction))
                " by what it waits for; " (prediction.communication_hidden_s) " of communication is hidden beside it."
            }
            (legend_of(&rows))
            (fitting(|width| plot::time(plan, width), html! { "Each instant belongs to one cause, so the parts sum to the step." }))
            (breakdown("The step on the busiest rank", "time", &rows[0]))
        },
    )
}

/// Parts, amounts and shares as a table.
fn breakdown(caption: &str, amount: &str, parts: &[Part]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr { th scope="col" { "part" } th.number scope="col" { (amount) } th.number scope="col" { "share" } } }
                tbody {
                    @for part in parts.iter().filter(|part| part.amount > 0.0) {
                        tr {
                            th scope="row" { span class={ "swatch ink-" (part.ink) } aria-hidden="true" {} (part.name) }
                            td.number { (part.shown) }
                            td.number { (share(part, parts)) }
                        }
                    }
                }
            }
        }
    }
}

/// The passes of every stage.
pub fn timeline(plan: &Plan) -> Markup {
    let pictures = plot::timeline(&plan.timeline);
    if pictures.is_empty() {
        return html! {};
    }
    let chunks = plot::chunks(&plan.timeline);
    let is_used = |pass| plan.timeline.iter().any(|span| span.pass == pass);
    section(
        "timeline",
        "Timeline",
        html! {
            @if chunks > 1 {
                p {
                    "Passes of each pipeline stage in one step. Numbers are micro-batch·chunk where there is room, or else \
                     the micro-batch; the later a chunk, the paler it is. Gaps are waiting."
                }
            } @else {
                p { "Passes of each pipeline stage in one step; numbers are micro-batches, and gaps are waiting." }
            }
            (legend(plot::PASSES.into_iter().filter(|&(pass, ..)| is_used(pass)).map(|(_, name, ink)| (ink, name))))
            @if chunks > 1 { (chunk_legend(chunks)) }
            @for (caption, picture) in &pictures { (figure(picture, html! { (caption) })) }
        },
    )
}

/// From plain data parallel to the plan.
pub fn ladder(plan: &Plan) -> Markup {
    if plan.ladder.is_empty() {
        return html! {};
    }
    section(
        "ladder",
        "Step by step",
        html! {
            p { "From the simplest strategy to this plan, one change at a time. ✗ marks what does not fit." }
            (figure(&plot::ladder(plan), html! { "What every step buys." }))
            (tables::ladder(plan))
        },
    )
}

/// Memory against time.
pub fn pareto(plan: &Plan) -> Markup {
    if plan.pareto.is_empty() {
        return html! {};
    }
    section(
        "pareto",
        "Memory against time",
        html! {
            p { (words::several("plan", plan.pareto.len())) " that no other beats in " (words::dimensions(plan)) ", fastest first." }
            (fitting(|width| plot::pareto(plan, width), html! { "Numbers are those of the table." }))
            (tables::pareto(plan))
        },
    )
}
