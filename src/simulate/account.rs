//! The memory account: what a rank holds by category, on device and host, found by walking its whole step.

use crate::lower::Category;
use crate::program::RankProgram;
use crate::units::Bytes;

/// What a rank holds of both spaces over a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub device: Holdings,
    pub host: Holdings,
}

/// Bytes of one space, by category in the order of [`Category::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// At the instant at which most is held: the first of equal ones.
    pub at_peak: [Bytes; 7],
    /// Each category's own peak.
    pub own_peak: [Bytes; 7],
}

impl Holdings {
    /// The most that is held at once.
    pub fn peak(&self) -> Bytes {
        self.at_peak.iter().copied().sum()
    }
}

/// What `rank` holds, instruction by instruction in issue order; [`super::peak`] finds the device's peak faster.
pub fn account(rank: &RankProgram) -> Account {
    let (mut device, mut host) = (Tally::default(), Tally::default());
    for state in &rank.persistent {
        let category = state.holds.category();
        device.change(category, state.device.aligned().0 as i64);
        host.change(category, state.host.aligned().0 as i64);
    }
    device.look();
    host.look();
    for issued in rank.issued() {
        let instruction = issued.instruction;
        for &id in &instruction.allocates {
            let buffer = &rank.frames[issued.frame as usize].buffers[id as usize];
            device.change(buffer.category, buffer.bytes.aligned().0 as i64);
        }
        host.change(Category::Activations, instruction.host_held());
        device.look();
        host.look();
        for freed in rank.frees(&issued) {
            let buffer = &rank.frames[freed.frame as usize].buffers[freed.buffer as usize];
            device.change(buffer.category, -(buffer.bytes.aligned().0 as i64));
        }
    }
    Account { device: device.best, host: host.best }
}

#[derive(Default)]
struct Tally {
    live: [i64; 7],
    best: Holdings,
    highest: i64,
}

impl Tally {
    fn change(&mut self, category: Category, bytes: i64) {
        self.live[category as usize] += bytes;
    }

    fn look(&mut self) {
        for (own, live) in self.best.own_peak.iter_mut().zip(self.live) {
            *own = (*own).max(Bytes(live as u64));
        }
        let total = self.live.iter().sum();
        if total > self.highest {
            self.highest = total;
            self.best.at_peak = self.live.map(|bytes| Bytes(bytes as u64));
        }
    }
}
