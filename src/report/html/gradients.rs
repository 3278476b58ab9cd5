//! The section that answers where gradients are.

use maud::{Markup, html};

use crate::plan::Plan;

use super::super::words;
use super::section;
use super::tables::{plain, table};

/// Every buffer of gradients, with its ranks, its type and its life; nothing of a plan that does not say.
pub fn gradients(plan: &Plan) -> Markup {
    let Some(summary) = words::gradients(plan) else { return html! {} };
    let columns = [
        ("stage", true),
        ("gradients of", false),
        ("where", false),
        ("bytes on a rank", true),
        ("from, until", false),
        ("summed by", false),
    ];
    let rows = plan.gradients.iter().map(|record| {
        let count = record.units.map_or(1, |[first, last]| last - first + 1);
        let bytes = if count > 1 { format!("{count} x {}", record.bytes) } else { record.bytes.to_string() };
        let times = if record.times == 1 { String::new() } else { format!(", {} times", record.times) };
        vec![
            plain(record.stage),
            plain(&record.layers),
            plain(words::gradient_place(record)),
            plain(format!("{bytes} of {}", record.element_type)),
            plain(format!("{} to {}{times}", record.from, record.until)),
            plain(words::gradient_sums(&record.sums)),
        ]
    });
    let listing = table("Buffers of gradients on each rank", &columns, rows);
    section(
        "gradients",
        "Gradients",
        html! {
            p { "Of the first units: " (summary) "." }
            p {
                "A unit (a block, an embedding, a head) has one flat gradient on each rank, in which those of its \
                 weights follow one another. Backward passes add to it; padding fills its last shard."
            }
            @if plan.gradients.len() <= 12 {
                (listing)
            } @else {
                details { summary { "All " (plan.gradients.len()) " buffers" } (listing) }
            }
        },
    )
}
