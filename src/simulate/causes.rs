//! Where the time of a rank goes: disjoint parts that sum to its step.

use std::ops::AddAssign;

use crate::program::Cause;
use crate::units::Seconds;

/// Parts of one rank's step. An instant belongs to the first cause that runs: of optimizer, recompute, compute,
/// communication and copy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CauseTimes {
    of: [Seconds; Cause::COUNT],
    /// Nothing runs.
    pub bubble: Seconds,
    /// Communication that ran while something before it in the order did.
    pub communication_hidden: Seconds,
    /// From its first kernel on, neither a kernel nor a collective between kernels ran: it waited for others, or for
    /// what moves beside the passes. No part of its own, it is in the parts above.
    pub waiting: Seconds,
}

impl CauseTimes {
    /// What is put down to `cause`.
    pub const fn of(&self, cause: Cause) -> Seconds {
        self.of[cause as usize]
    }

    /// The disjoint parts together.
    pub fn total(&self) -> Seconds {
        self.of.iter().copied().sum::<Seconds>() + self.bubble
    }

    /// What was put down since it was `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            of: std::array::from_fn(|cause| self.of[cause] - before.of[cause]),
            bubble: self.bubble - before.bubble,
            communication_hidden: self.communication_hidden - before.communication_hidden,
            waiting: self.waiting - before.waiting,
        }
    }

    /// The same so many times.
    pub(super) fn times(&self, times: f64) -> Self {
        Self {
            of: self.of.map(|seconds| seconds * times),
            bubble: self.bubble * times,
            communication_hidden: self.communication_hidden * times,
            waiting: self.waiting * times,
        }
    }

    /// Puts `span` down to the first of what runs.
    pub(crate) fn add(&mut self, span: Seconds, running: impl Iterator<Item = Cause>) {
        let (mut first, mut communicates) = (None, false);
        for cause in running {
            communicates |= cause == Cause::Communication;
            first = Some(first.map_or(cause, |known: Cause| known.min(cause)));
        }
        *first.map_or(&mut self.bubble, |cause| &mut self.of[cause as usize]) += span;
        if communicates && first < Some(Cause::Communication) {
            self.communication_hidden += span;
        }
    }
}

impl AddAssign for CauseTimes {
    fn add_assign(&mut self, other: Self) {
        self.of.iter_mut().zip(other.of).for_each(|(one, other)| *one += other);
        self.bubble += other.bubble;
        self.communication_hidden += other.communication_hidden;
        self.waiting += other.waiting;
    }
}
