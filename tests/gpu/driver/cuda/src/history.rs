//! Who wrote and read which bytes last, of device memory and of the host's pinned memory: two accesses of the same bytes,
//! one of them a write, must have an order.

use crate::clock::{Clock, Stamp};
use std::collections::BTreeMap;

/// Stretches of addresses by their start; they don't overlap.
#[derive(Default)]
pub struct History {
    stretches: BTreeMap<u64, Stretch>,
}

#[derive(Clone)]
struct Stretch {
    end: u64,
    write: Option<Stamp>,
    /// The reads since, the latest of each lane.
    reads: Vec<Stamp>,
}

/// An earlier access that isn't ordered with a new one.
#[derive(Debug)]
pub struct Conflict {
    pub start: u64,
    pub end: u64,
    pub verb: &'static str,
    pub other: Stamp,
}

impl History {
    /// Notes an access by work that knows what `clock` says.
    pub fn access(
        &mut self,
        (start, end): (u64, u64),
        write: bool,
        clock: &Clock,
        stamp: &Stamp,
    ) -> Result<(), Conflict> {
        if start >= end {
            return Ok(());
        }
        self.split(start);
        self.split(end);
        for (&from, stretch) in self.stretches.range(start..end) {
            let reads = if write { stretch.reads.as_slice() } else { &[] };
            let writes = stretch.write.iter().map(|write| ("writes", write));
            let unseen =
                writes.chain(reads.iter().map(|read| ("reads", read))).find(|(_, other)| !clock.saw(other));
            if let Some((verb, other)) = unseen {
                return Err(Conflict { start: from, end: stretch.end, verb, other: other.clone() });
            }
        }
        if write {
            self.forget(start, end);
            self.stretches.insert(start, Stretch { end, write: Some(stamp.clone()), reads: vec![] });
            return Ok(());
        }
        let mut at = start;
        let mut gaps = vec![];
        for (&from, stretch) in self.stretches.range_mut(start..end) {
            if at < from {
                gaps.push((at, from));
            }
            stretch.reads.retain(|read| read.lane != stamp.lane);
            stretch.reads.push(stamp.clone());
            at = stretch.end;
        }
        if at < end {
            gaps.push((at, end));
        }
        for (from, end) in gaps {
            self.stretches.insert(from, Stretch { end, write: None, reads: vec![stamp.clone()] });
        }
        Ok(())
    }

    /// Memory that is given back begins anew.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.split(start);
        self.split(end);
        let inside: Vec<u64> = self.stretches.range(start..end).map(|(&from, _)| from).collect();
        for from in inside {
            self.stretches.remove(&from);
        }
    }

    /// Makes `at` a border of stretches.
    fn split(&mut self, at: u64) {
        if let Some((_, stretch)) = self.stretches.range_mut(..at).next_back()
            && stretch.end > at
        {
            let behind = stretch.clone();
            stretch.end = at;
            self.stretches.insert(at, behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lanes that know nothing of each other.
    fn stamps() -> [(Clock, Stamp); 2] {
        [0, 1].map(|lane| {
            let mut clock = Clock::default();
            let stamp = clock.tick(lane, "work".into());
            (clock, stamp)
        })
    }

    #[test]
    fn bytes_that_overlap_conflict_and_others_do_not() {
        let [(first, a), (second, b)] = stamps();
        let mut history = History::default();
        assert!(history.access((10, 20), true, &first, &a).is_ok());
        assert!(history.access((0, 10), true, &second, &b).is_ok());
        assert!(history.access((20, 30), true, &second, &b).is_ok());
        let conflict = history.access((19, 21), false, &second, &b).expect_err("a conflict");
        assert_eq!((conflict.start, conflict.end, conflict.verb), (19, 20, "writes"));
    }

    #[test]
    fn reads_conflict_with_writes_only() {
        let [(first, a), (second, b)] = stamps();
        let mut history = History::default();
        assert!(history.access((0, 8), false, &first, &a).is_ok());
        assert!(history.access((4, 12), false, &second, &b).is_ok());
        assert!(history.access((8, 12), true, &first, &a).is_err());
        assert!(history.access((0, 4), true, &first, &a).is_ok());
    }

    #[test]
    fn what_was_seen_does_not_conflict() {
        let [(first, a), (mut second, b)] = stamps();
        let mut history = History::default();
        assert!(history.access((0, 8), true, &first, &a).is_ok());
        second.join(&first);
        assert!(history.access((0, 8), true, &second, &b).is_ok());
    }
}
