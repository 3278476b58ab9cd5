//! The memory account: what a rank holds by category, on device and host, counted as it is taken and given back.

use serde::{Deserialize, Serialize};

use crate::lower::Category;
use crate::program::RankProgram;
use crate::units::Bytes;

/// Bytes of one space, by category in the order of [`Category::ALL`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// At the end.
    pub live: [Bytes; 7],
    /// At the instant at which most is held: the first of equal ones.
    pub at_peak: [Bytes; 7],
    /// Each category's own peak.
    pub own_peak: [Bytes; 7],
    /// The instruction, in issue order, at which most is held; none if nothing more was taken after the start.
    pub peak_issue: Option<usize>,
    /// Instructions at which the sum changed, with the sum.
    pub curve: Vec<(u32, Bytes)>,
}

impl Counters {
    pub(crate) fn take(&mut self, category: Category, bytes: Bytes) {
        self.live[category as usize] += bytes;
    }

    pub(crate) fn give(&mut self, category: Category, bytes: Bytes) {
        self.live[category as usize] -= bytes;
    }

    /// Instruction `issue` has taken what it takes; none before the first.
    pub(crate) fn look(&mut self, issue: Option<usize>) {
        for (own, live) in self.own_peak.iter_mut().zip(self.live) {
            *own = (*own).max(live);
        }
        let sum = self.live.iter().copied().sum();
        if sum > self.peak() {
            (self.at_peak, self.peak_issue) = (self.live, issue);
        }
        if let Some(issue) = issue
            && self.curve.last().is_none_or(|&(_, before)| before != sum)
        {
            self.curve.push((issue as u32, sum));
        }
    }

    /// The most that is held at once.
    pub fn peak(&self) -> Bytes {
        self.at_peak.iter().copied().sum()
    }
}

/// What `rank` holds of device and host over a step, instruction by instruction in issue order; [`super::peak`] finds the
/// device's peak faster.
pub fn account(rank: &RankProgram) -> (Counters, Counters) {
    let (mut device, mut host) = (Counters::default(), Counters::default());
    for state in &rank.persistent {
        device.take(state.holds.category(), state.device.aligned());
        host.take(state.holds.category(), state.host.aligned());
    }
    device.look(None);
    host.look(None);
    for (index, issued) in rank.issued().enumerate() {
        for &id in &issued.instruction.allocates {
            let buffer = &rank.frames[issued.frame as usize].buffers[id as usize];
            device.take(buffer.category, buffer.bytes.aligned());
        }
        let held = issued.instruction.host_held();
        host.take(Category::Activations, Bytes(held.max(0) as u64));
        device.look(Some(index));
        host.look(Some(index));
        for freed in rank.frees(&issued) {
            let buffer = &rank.frames[freed.frame as usize].buffers[freed.buffer as usize];
            device.give(buffer.category, buffer.bytes.aligned());
        }
        host.give(Category::Activations, Bytes(held.min(0).unsigned_abs()));
    }
    (device, host)
}
