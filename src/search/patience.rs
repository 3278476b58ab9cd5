//! How much work a search does before it stops and says what is not proven.

use crate::search::deadline::Deadline;
use crate::search::incumbent::{Found, events};
use crate::strategy::Strategy;

/// The most strategies that are solved, and played; what is left keeps its bound.
const MOST_SOLVED: usize = 12_000;
const MOST_PLAYED: usize = 600;
/// The most that are solved where blocks differ: a rank's place then matters to its choice.
const MOST_SOLVED_UNEVEN: usize = 2_000;
/// Instructions that are built and events that are played at the most, together, so that long steps do not make a
/// search long; and of one strategy.
const MOST_EFFORT: u64 = 4_000_000;
const MOST_EFFORT_A_STRATEGY: u64 = 8_000_000;
/// A search that has proven its plan to be within this share of the best goes on for less.
pub const NEAR: f64 = 0.005;
/// The most that is solved and played then.
const MOST_NEAR: [usize; 2] = [3_000, 200];

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// A fixed amount of work, as far as there is time: so many are solved at the most.
    Work { solved: usize, deadline: Deadline },
    /// To the end, whatever the bounds say, unless somebody asks to stop.
    Exhaustive { deadline: Deadline },
}

impl Patience {
    /// The work that a search does for a model whose blocks are all alike, or not.
    pub const fn work(is_even: bool, deadline: Deadline) -> Self {
        Self::Work { solved: if is_even { MOST_SOLVED } else { MOST_SOLVED_UNEVEN }, deadline }
    }

    /// Whether more may be solved than `solved`, if nothing left is below `lowest` seconds; until there is a plan in
    /// any case. Nothing once time is up.
    pub fn may_solve(self, solved: usize, found: &Found, lowest: f64) -> bool {
        let most = match self {
            Self::Work { solved, .. } if found.is_near(lowest) => solved.min(MOST_NEAR[0]),
            Self::Work { solved, .. } => solved,
            Self::Exhaustive { .. } => usize::MAX,
        };
        self.may_play(found, lowest) && (found.best.is_none() || solved < most)
    }

    /// Whether more may be played, likewise.
    pub fn may_play(self, found: &Found, lowest: f64) -> bool {
        let most = if found.is_near(lowest) { MOST_NEAR[1] } else { MOST_PLAYED };
        let has_work = match self {
            Self::Work { .. } => found.tried < most && found.effort < MOST_EFFORT,
            Self::Exhaustive { .. } => true,
        };
        !self.is_over() && (found.best.is_none() || has_work)
    }

    /// Whether the time is up.
    pub fn is_over(self) -> bool {
        let (Self::Work { deadline, .. } | Self::Exhaustive { deadline }) = self;
        deadline.is_over()
    }

    /// Whether so long a step is played.
    pub fn plays(self, strategy: &Strategy) -> bool {
        !matches!(self, Self::Work { .. }) || events(strategy) <= MOST_EFFORT_A_STRATEGY
    }
}
