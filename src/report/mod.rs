//! Floor 11: a plan shown to people, as text for a terminal and as a page for a browser.
//!
//! Nothing here prints: every function returns what is to be shown.

mod bar;
mod html;
mod parts;
mod plot;
#[cfg(test)]
mod sample;
mod text;
mod trace;
mod unit;
mod words;

pub use html::page;
pub use text::{Style, plan_text, run_text};
pub use trace::trace_events;
