//! Time for memory: how much longer a block takes the less it keeps between forward and backward.

use crate::search::class_costs::MODES;

/// The lower convex hull of a block's checkpoint modes: no mix of modes over blocks is below it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trade {
    /// Bytes that a block keeps for one micro-batch under its fastest mode.
    pub kept: f64,
    /// Corners of the hull: bytes that a block keeps less than that, and seconds that it takes longer, for one micro-batch.
    /// The first `count` are set.
    hull: [(f64, f64); MODES],
    count: usize,
}

impl Trade {
    /// The trade of modes that take so many seconds and keep so many bytes, for one micro-batch.
    pub fn new(modes: [(f64, f64); MODES]) -> Self {
        let faster =
            |one: &(f64, f64), other: &(f64, f64)| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1));
        let (fastest, kept) = modes.into_iter().min_by(faster).unwrap_or_default();
        let mut trade = Self { kept, ..Self::default() };
        let mut at = (0.0, 0.0);
        loop {
            let slope = |&(bytes, seconds): &(f64, f64)| (seconds - at.1) / (bytes - at.0);
            let further = modes.map(|(seconds, bytes)| (kept - bytes, seconds - fastest));
            let next = further.into_iter().filter(|corner| corner.0 > at.0);
            // Of corners in one direction, the furthest.
            let cheaper = |one: &(f64, f64), other: &(f64, f64)| {
                slope(one).total_cmp(&slope(other)).then(other.0.total_cmp(&one.0))
            };
            let Some(corner) = next.min_by(cheaper) else { return trade };
            trade.hull[trade.count] = corner;
            trade.count += 1;
            at = corner;
        }
    }

    /// Bytes that a block keeps less at each corner of the hull, the fewest first.
    pub fn corners(&self) -> impl Iterator<Item = f64> {
        self.hull[..self.count].iter().map(|corner| corner.0)
    }

    /// Seconds that blocks take longer on average, for one micro-batch, if they keep `bytes` less on average; infinite if
    /// no mode keeps so little.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let mut from = (0.0, 0.0);
        if bytes <= 0.0 {
            return 0.0;
        }
        for &to in &self.hull[..self.count] {
            if bytes <= to.0 {
                return from.1 + (to.1 - from.1) * (bytes - from.0) / (to.0 - from.0);
            }
            from = to;
        }
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_of_what_a_mode_saves_costs_half_of_its_time() {
        let trade = Trade::new([(10.0, 100.0), (11.0, 60.0), (14.0, 10.0)]);
        assert_eq!(trade.kept, 100.0);
        assert_eq!(trade.seconds(-5.0), 0.0);
        assert_eq!(trade.seconds(20.0), 0.5);
        assert_eq!(trade.seconds(65.0), 2.5);
        assert_eq!(trade.seconds(90.0), 4.0);
        assert_eq!(trade.seconds(91.0), f64::INFINITY);
    }

    #[test]
    fn a_mode_that_others_beat_together_is_passed_over() {
        let trade = Trade::new([(10.0, 100.0), (13.5, 60.0), (14.0, 10.0)]);
        assert!((trade.seconds(40.0) - 4.0 * 40.0 / 90.0).abs() < 1e-12);
    }

    proptest! {
        /// No blocks, each of any mode, are faster than the trade says of what they save in the mean.
        #[test]
        fn no_mix_of_modes_is_faster(
            modes in prop::array::uniform3((1.0..2.0_f64, 0.0..100.0_f64)),
            blocks in prop::collection::vec(0..MODES, 1..12),
        ) {
            let trade = Trade::new(modes);
            let fastest = modes.iter().map(|mode| mode.0).fold(f64::INFINITY, f64::min);
            let count = blocks.len() as f64;
            let longer = blocks.iter().map(|&mode| modes[mode].0 - fastest).sum::<f64>() / count;
            let saved = blocks.iter().map(|&mode| trade.kept - modes[mode].1).sum::<f64>() / count;
            prop_assert!(trade.seconds(saved * (1.0 - 1e-9)) <= longer + 1e-9);
        }
    }
}
