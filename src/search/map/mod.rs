//! The map around a plan: the best strategy in neighbouring settings, and where it stops to fit.

pub mod break_even;
pub mod front;
pub mod maximum;
pub mod sensitivity;
mod setting;
pub mod sweep;
#[cfg(test)]
mod tests;

pub use break_even::{BreakEven, Trait, break_evens};
pub use front::front;
pub use maximum::{Ceiling, Maximize, Maximum, maximum};
pub use sensitivity::{Answer, Kept, Scenario, sensitivity};
pub use setting::Setting;
pub use sweep::{Point, Sweep, SweepKey, Until, sweep};

use crate::search::request::Progress;

/// Who is told how far the map is; both may be called from any thread.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// The next question begins, of those that were asked.
    pub step: &'a (dyn Fn(&str) + Sync),
    /// The next search begins, of one or many that answer the question: what it is of.
    pub part: &'a (dyn Fn(&str) + Sync),
    /// How far that search is.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

impl Watch<'_> {
    /// Tells nobody.
    pub const SILENT: Watch<'static> = Watch { step: &|_| {}, part: &|_| {}, progress: &|_| {} };
}
