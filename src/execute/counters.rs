//! What a rank holds of one space, counted as it is handed out.

use crate::lower::Category;
use crate::program::placing::Region;
use crate::units::Bytes;

/// The memory that a region takes.
const fn held(region: Region) -> u64 {
    Bytes(region.bytes as u64).aligned().0
}

/// Bytes by category: now, and at their peaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    live: [u64; 7],
    /// At the highest sum: the first, of equal ones.
    peak: [u64; 7],
    /// Each category's own highest.
    own_peak: [u64; 7],
    /// The instruction, in issue order, at which the sum was highest; none before the first.
    at: Option<usize>,
    /// Sums after each instruction that changed them, by instruction.
    curve: Vec<(u32, u64)>,
}

impl Counters {
    pub(super) fn take(&mut self, category: Category, region: Region) {
        let place = category as usize;
        self.live[place] += held(region);
        self.own_peak[place] = self.own_peak[place].max(self.live[place]);
        if self.at.is_none() && self.curve.is_empty() {
            self.peak = self.live;
        }
    }

    pub(super) fn give(&mut self, category: Category, region: Region) {
        self.live[category as usize] -= held(region);
    }

    /// Instruction `issue` has taken what it takes.
    pub(super) fn mark(&mut self, issue: usize) {
        let now = self.live();
        if now > self.peak.iter().sum() {
            self.peak = self.live;
            self.at = Some(issue);
        }
        if self.curve.last().is_none_or(|&(_, before)| before != now) {
            self.curve.push((issue as u32, now));
        }
    }

    /// All bytes now.
    pub fn live(&self) -> u64 {
        self.live.iter().sum()
    }

    /// All bytes at the peak.
    pub fn peak(&self) -> u64 {
        self.peak.iter().sum()
    }

    /// Bytes of `category` at the peak of the sum.
    pub const fn at_peak(&self, category: Category) -> u64 {
        self.peak[category as usize]
    }

    /// The most bytes of `category` at any time.
    pub const fn own_peak(&self, category: Category) -> u64 {
        self.own_peak[category as usize]
    }

    /// The instruction, in issue order, at which the sum was highest; none if nothing was taken after the start.
    pub const fn peak_issue(&self) -> Option<usize> {
        self.at
    }

    /// Instructions at which the sum changed, with the sum.
    pub fn curve(&self) -> &[(u32, u64)] {
        &self.curve
    }
}
