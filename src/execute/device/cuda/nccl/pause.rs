//! Rests between looks at work that others do.

use std::thread;
use std::time::Duration;

/// Rests that grow: who waits for microseconds is not late, and who waits for long does not keep a core busy.
#[derive(Debug, Default)]
pub struct Pause(u32);

impl Pause {
    /// Looks that come without a rest between them.
    const LOOKS: u32 = 64;
    const LONGEST: Duration = Duration::from_micros(500);

    pub fn rest(&mut self) {
        self.0 = self.0.saturating_add(1);
        match self.0.checked_sub(Self::LOOKS) {
            None => thread::yield_now(),
            Some(rests) => thread::sleep((Duration::from_micros(20) * (rests / 16 + 1)).min(Self::LONGEST)),
        }
    }
}
