//! When playing, and a search with it, is given up: at a moment, or once somebody asks for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Whether somebody asks to stop, who may do so at any time from any thread; nobody by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop(Option<&'static AtomicBool>);

impl Stop {
    /// Once `flag` is set.
    pub const fn once(flag: &'static AtomicBool) -> Self {
        Self(Some(flag))
    }

    /// Whether anybody can ask.
    pub const fn is_possible(self) -> bool {
        self.0.is_some()
    }

    /// Whether to stop.
    pub fn is_asked(self) -> bool {
        self.0.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// The end of what may take long; never by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    pub moment: Option<Instant>,
    pub stop: Stop,
}

impl Until {
    /// Whether it is over.
    pub fn is_over(self) -> bool {
        self.stop.is_asked() || self.moment.is_some_and(|moment| Instant::now() >= moment)
    }
}
