//! Whether a step that is being played can still end in time.

use crate::simulate::outlook::Outlook;
use crate::simulate::player::Playback;
use crate::simulate::rank::Position;
use crate::units::Seconds;

/// What playing shows of a step that may take too long.
#[derive(Clone, Debug, PartialEq)]
pub enum Below {
    Played(Playback),
    /// It was not played to its end.
    Slower(Slower),
}

/// A step that is known to take too long before it ends, or was given up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slower {
    /// It takes at least so long.
    pub at_least: Seconds,
    /// It would take about so long if it goes on losing time as it did.
    pub about: Seconds,
}

/// Looks ahead while a step is played.
pub(super) struct Watch {
    outlook: Outlook,
    limit: f64,
    /// What is known once the step takes too long.
    pub(super) over: Option<Slower>,
}

impl Watch {
    /// Watches a step that is to end before `limit` seconds.
    pub(super) const fn new(outlook: Outlook, limit: f64) -> Self {
        Self { outlook, limit, over: None }
    }

    /// Looks ahead from the start, at `time`, of what stands at `position` of `stream` of `rank`, in `template`.
    pub(super) fn look(
        &mut self,
        (rank, stream): (usize, usize),
        position: Position,
        template: u32,
        time: f64,
    ) {
        let at_least = time + self.outlook.left(rank, stream, position, template);
        if at_least >= self.limit && self.over.is_none() {
            let shortest = self.outlook.shortest;
            let share = (time / at_least).max(f64::EPSILON);
            let about = shortest + (at_least - shortest) / share;
            self.over = Some(Slower { at_least: Seconds(at_least), about: Seconds(about) });
        }
    }
}
