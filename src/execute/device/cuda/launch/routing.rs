//! Launches of routing. Before tokens go to slots or come from them, and before the gradient, `choose` and `place` write
//! what these read: experts, weights and slots of `tokens · top_k` choices, entries of `experts · slots` slots, all of
//! 4 bytes.

use super::runs::{Types, by_row, by_run, by_warp, line};
use super::{Launch, Source};

/// Threads that look through the choices side by side.
const LOOKERS: u32 = 1024;

/// Experts that a token is sent to, at most: one a lane.
pub const MOST_CHOICES: u32 = 32;

pub fn source(types: Types) -> Source {
    types.source("routing/routing.cu", &[])
}

pub fn assign(tokens: u32) -> Launch {
    by_warp("routing_assign", tokens)
}

pub fn choose(tokens: u32) -> Launch {
    by_warp("routing_choose", tokens)
}

pub fn place(experts: u32) -> Launch {
    line("routing_place", u64::from(experts), LOOKERS)
}

/// There must be a slot.
pub fn to_slots(experts: u32, slots: u32, width: u32) -> Launch {
    by_row("routing_to_slots", experts * slots, width)
}

pub fn from_slots(tokens: u32, width: u32) -> Launch {
    by_run("routing_from_slots", tokens, width)
}

pub fn gradient(tokens: u32) -> Launch {
    by_warp("routing_gradient", tokens)
}
