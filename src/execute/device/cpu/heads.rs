//! Exchanges of heads for tokens between context ranks: in place of their peers' memory, processes see what these pack for
//! them.

use super::members::Members;
use crate::execute::call::HeadExchange;
use crate::execute::comm::{CommError, ProcessEndpoint};
use crate::execute::element::Element;

type Done = Result<(), CommError>;

/// Of a row of one context rank's tokens, the row among all tokens.
const fn row_of(layout: &HeadExchange, row: usize, context: usize) -> usize {
    (row / layout.local * layout.contexts + context) * layout.local + row % layout.local
}

/// Does what `layout` says with `from` and `to`.
pub fn exchange<T: Element>(members: &mut Members, layout: &HeadExchange, from: &[T], to: &mut [T]) -> Done {
    if !layout.to_heads {
        to.fill(T::default());
    }
    match members {
        Members::Threads(endpoint) if layout.to_heads => endpoint.exchange(from, |member, theirs| {
            for (row, source) in theirs.chunks_exact(layout.all_width).take(layout.rows).enumerate() {
                let mut parts = parts_for(layout, layout.context, source);
                take_heads(layout, (row, member), &mut parts, to);
            }
        }),
        Members::Threads(endpoint) => endpoint.exchange(from, |member, theirs| {
            for row in 0..layout.rows {
                let source = &theirs[row_of(layout, row, layout.context) * layout.own_width..];
                take_tokens(layout, (row, member), &source[..layout.own_width], to);
            }
        }),
        Members::Processes(endpoint) => packed(endpoint, layout, from, to),
    }
}

/// The parts of a row of all heads that are those of context rank `context`.
fn parts_for<'s, T>(layout: &'s HeadExchange, context: usize, row: &'s [T]) -> impl Iterator<Item = &'s [T]> {
    layout.runs.iter().map(move |run| {
        let first = run.all + context / run.copies * run.width;
        &row[first..first + run.width]
    })
}

/// Puts the parts of a row of `member`'s tokens where they stand among all tokens.
fn take_heads<'s, T: Element>(
    layout: &HeadExchange,
    (row, member): (usize, usize),
    parts: &mut impl Iterator<Item = &'s [T]>,
    to: &mut [T],
) {
    let target = &mut to[row_of(layout, row, member) * layout.own_width..][..layout.own_width];
    for (run, part) in layout.runs.iter().zip(parts) {
        target[run.own..run.own + run.width].copy_from_slice(part);
    }
}

/// Adds `member`'s heads of a row of this rank's tokens; what ranks share is summed.
fn take_tokens<T: Element>(layout: &HeadExchange, (row, member): (usize, usize), source: &[T], to: &mut [T]) {
    let target = &mut to[row * layout.all_width..][..layout.all_width];
    for run in &layout.runs {
        let first = run.all + member / run.copies * run.width;
        for (to, from) in target[first..first + run.width].iter_mut().zip(&source[run.own..]) {
            *to = T::narrow(to.wide() + from.wide());
        }
    }
}

/// A block for each context rank goes out, and one of each comes in.
fn packed<T: Element>(
    endpoint: &mut ProcessEndpoint,
    layout: &HeadExchange,
    from: &[T],
    to: &mut [T],
) -> Done {
    let width: usize = layout.runs.iter().map(|run| run.width).sum();
    // On the way to heads a row's parts lie side by side; on the way back a row is as it is.
    let row_width = if layout.to_heads { width } else { layout.own_width };
    let block = layout.rows * row_width;
    let mut sent = Vec::with_capacity(layout.contexts * block);
    for context in 0..layout.contexts {
        for row in 0..layout.rows {
            if layout.to_heads {
                let source = &from[row * layout.all_width..][..layout.all_width];
                parts_for(layout, context, source).for_each(|part| sent.extend_from_slice(part));
            } else {
                let source = &from[row_of(layout, row, context) * layout.own_width..];
                sent.extend_from_slice(&source[..layout.own_width]);
            }
        }
    }
    let mut received = vec![T::default(); sent.len()];
    endpoint.all_to_all(&sent, &mut received)?;
    for (member, block) in received.chunks_exact(block.max(1)).enumerate() {
        for (row, source) in block.chunks_exact(row_width).enumerate() {
            if layout.to_heads {
                let mut rest = source;
                let mut parts = layout.runs.iter().map(|run| {
                    let (part, behind) = rest.split_at(run.width);
                    rest = behind;
                    part
                });
                take_heads(layout, (row, member), &mut parts, to);
            } else {
                take_tokens(layout, (row, member), source, to);
            }
        }
    }
    Ok(())
}
