//! Vector clocks: what has certainly happened before what. Each stream has an entry, and so has each branch of a graph.

use std::sync::Arc;

/// Up to which time of each lane everything has happened.
#[derive(Clone, Debug, Default)]
pub struct Clock(Vec<u32>);

/// One piece of work: the lane that did it, and when.
#[derive(Clone, Debug)]
pub struct Stamp {
    pub lane: usize,
    time: u32,
    /// In words.
    pub what: Arc<str>,
}

impl Clock {
    /// Knows all that the other knows, too.
    pub fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, other) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*other);
        }
    }

    /// The next piece of work of a lane.
    pub fn tick(&mut self, lane: usize, what: Arc<str>) -> Stamp {
        if self.0.len() <= lane {
            self.0.resize(lane + 1, 0);
        }
        self.0[lane] += 1;
        Stamp { lane, time: self.0[lane], what }
    }

    /// Whether that work has happened before what this clock stands for.
    pub fn saw(&self, stamp: &Stamp) -> bool {
        self.0.get(stamp.lane).is_some_and(|&time| time >= stamp.time)
    }
}
