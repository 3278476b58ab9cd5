//! The table of gradients that a run was asked for: norms, and which rank holds which elements.

use crate::trace::{NamedGradient, ShardRecord};
use crate::units::grouped;

use super::listing::{
    Column::{Name, Number, Text},
    Listing,
};
use super::sheet::Sheet;

/// Gradients shown of many: the first.
const MOST_ROWS: usize = 20;
/// Places shown of one gradient.
const MOST_PLACES: usize = 4;

/// Where each gradient lay before the last optimizer step.
pub fn table(sheet: &mut Sheet, gradients: &[NamedGradient]) {
    let Some(first) = gradients.first() else { return };
    let mut table = Listing::new(&[
        ("gradient", Name),
        ("shape", Name),
        ("norm", Number),
        ("elements of the flattened weight, by rank", Text),
    ]);
    for gradient in gradients.iter().take(MOST_ROWS) {
        let shape: Vec<_> = gradient.shape.iter().map(u64::to_string).collect();
        table.row([
            gradient.name.clone(),
            shape.join(" x "),
            gradient.norm.map_or_else(|| "-".to_owned(), |norm| format!("{norm:.4e}")),
            places(&gradient.shards),
        ]);
    }
    sheet.listing("gradients", &table);
    let hidden = gradients.len().saturating_sub(MOST_ROWS) as u64;
    let more =
        if hidden > 0 { format!("{} more are in the trace. ", grouped(hidden)) } else { String::new() };
    sheet.paragraph("", &format!("{more}In {}, before clipping.", first.element_type));
}

/// `0: 0..64; 1: 64..128`: ranks that hold the same elements together.
fn places(shards: &[ShardRecord]) -> String {
    let mut places: Vec<(Vec<String>, String)> = Vec::new();
    for shard in shards {
        let ([start, end], [first, behind]) = (shard.span, shard.elements);
        let count = behind - first;
        let held = if end - start == count {
            format!("{start}..{end}")
        } else {
            format!("{count} of {start}..{end}")
        };
        let rank = shard.rank.to_string();
        match places.iter_mut().find(|(_, other)| *other == held) {
            Some((ranks, _)) => ranks.push(rank),
            None => places.push((vec![rank], held)),
        }
    }
    let count = places.len();
    let mut shown: Vec<_> = places
        .into_iter()
        .take(MOST_PLACES)
        .map(|(ranks, held)| match ranks.as_slice() {
            [first, .., last] if ranks.len() > 4 => format!("{first}, ... {last}: {held}"),
            _ => format!("{}: {held}", ranks.join(", ")),
        })
        .collect();
    if count > MOST_PLACES {
        shown.push(format!("and {} more", grouped((count - MOST_PLACES) as u64)));
    }
    shown.join("; ")
}
