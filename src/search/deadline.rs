//! When a search stops looking, and when it must have answered: with a time limit, or once somebody asks it to stop.

use std::time::{Duration, Instant};

use crate::simulate::{Stop, Until};

/// The share of the time in which plans are looked for; the rest is for playing what is shown beside the best.
const LOOKING: f64 = 0.85;
/// What it takes to write down a block of a plan, which is left out of the time, up to half of it.
const WRITING_A_BLOCK: Duration = Duration::from_micros(75);

/// The moments at which a search stops; none without a time limit. If somebody asks it to stop, they are now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline {
    looking: Option<Instant>,
    end: Option<Instant>,
    stop: Stop,
}

impl Deadline {
    /// `limit` from `start` on, for a model of so many blocks, or when `stop` is asked for.
    pub fn new(start: Instant, limit: Option<Duration>, blocks: u32, stop: Stop) -> Self {
        let searching = limit.map(|limit| limit - (limit / 2).min(WRITING_A_BLOCK * blocks));
        Self {
            looking: searching.and_then(|span| start.checked_add(span.mul_f64(LOOKING))),
            end: searching.and_then(|span| start.checked_add(span)),
            stop,
        }
    }

    /// Whether nothing more is looked for. What was being solved or proven then says nothing.
    pub fn is_over(self) -> bool {
        self.looking().is_over()
    }

    /// Whether there is so much time left until an answer is due.
    pub fn allows(self, span: Duration) -> bool {
        let is_before = |end| Instant::now().checked_add(span).is_some_and(|moment| moment < end);
        !self.stop.is_asked() && self.end.is_none_or(is_before)
    }

    /// When a step that may win is no longer played.
    pub const fn looking(self) -> Until {
        Until { moment: self.looking, stop: self.stop }
    }

    /// When a step that is to be shown is no longer played.
    pub const fn end(self) -> Until {
        Until { moment: self.end, stop: self.stop }
    }
}
