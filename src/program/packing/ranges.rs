//! Sets of addresses.

/// Disjoint address ranges in order; ranges that touch are joined.
#[derive(Clone, Default)]
pub(super) struct Ranges {
    ranges: Vec<(u64, u64)>,
}

impl Ranges {
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Adds the addresses `from..to`.
    pub(super) fn add(&mut self, from: u64, to: u64) {
        let first = self.ranges.partition_point(|range| range.1 < from);
        let touching = self.ranges[first..].partition_point(|range| range.0 <= to);
        if touching == 0 {
            self.ranges.insert(first, (from, to));
            return;
        }
        let last = self.ranges[first + touching - 1];
        let joined = &mut self.ranges[first];
        *joined = (joined.0.min(from), last.1.max(to));
        self.ranges.drain(first + 1..first + touching);
    }

    /// Lowest first.
    pub(super) fn as_slice(&self) -> &[(u64, u64)] {
        &self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    #[test]
    fn ranges_that_touch_are_joined() {
        let mut taken = Ranges::default();
        taken.add(0, 64);
        taken.add(128, 192);
        taken.add(320, 384);
        assert_eq!(taken.as_slice(), [(0, 64), (128, 192), (320, 384)]);
        taken.add(64, 128);
        assert_eq!(taken.as_slice(), [(0, 192), (320, 384)]);
        taken.add(0, 1024);
        assert_eq!(taken.as_slice(), [(0, 1024)]);
    }
}
