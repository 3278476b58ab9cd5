//! Where the time of a rank goes: disjoint parts that sum to its step.

use crate::program::Cause;
use crate::units::Seconds;

/// Parts of one rank's step. An instant belongs to the first that runs of optimizer, recompute, compute,
/// communication and copy; where nothing runs it is communication if an awaited message is under way, else bubble.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CauseTimes {
    pub compute: Seconds,
    pub recompute: Seconds,
    pub communication_exposed: Seconds,
    pub copy_exposed: Seconds,
    pub bubble: Seconds,
    pub optimizer: Seconds,
    /// Communication that ran while something before it in the order did.
    pub communication_hidden: Seconds,
}

impl CauseTimes {
    /// The disjoint parts together.
    pub fn total(&self) -> Seconds {
        self.compute
            + self.recompute
            + self.communication_exposed
            + self.copy_exposed
            + self.bubble
            + self.optimizer
    }

    /// Puts `span` down to the first of what runs, `awaited` saying that a message is under way to an idle rank.
    pub(super) fn add(&mut self, span: Seconds, running: impl Iterator<Item = Cause>, awaited: bool) {
        let mut first = None;
        let mut communicates = awaited;
        for cause in running {
            communicates |= cause == Cause::Communication;
            first = Some(first.map_or(cause, |known: Cause| known.min(cause)));
        }
        let part = match first {
            Some(Cause::Optimizer) => &mut self.optimizer,
            Some(Cause::Recompute) => &mut self.recompute,
            Some(Cause::Compute) => &mut self.compute,
            Some(Cause::Communication) => &mut self.communication_exposed,
            Some(Cause::Copy) => &mut self.copy_exposed,
            None if awaited => &mut self.communication_exposed,
            None => &mut self.bubble,
        };
        *part += span;
        if communicates && matches!(first, Some(Cause::Optimizer | Cause::Recompute | Cause::Compute)) {
            self.communication_hidden += span;
        }
    }
}
