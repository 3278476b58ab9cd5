//! A plan, and predictions beside measurements, shown to people: text for a terminal, pages for a browser.
//!
//! Nothing here prints: every function returns what is to be shown.

mod bar;
mod html;
mod map;
mod parts;
mod plot;
#[cfg(test)]
mod sample;
mod text;
mod trace;
mod unit;
mod validation;
mod words;

pub use html::page;
pub use text::{Closing, Column, Listing, Style, broken, explanation_text, plan_text, run_text};
pub use trace::trace_events;
pub use validation::{validation_markdown, validation_page, validation_text};
