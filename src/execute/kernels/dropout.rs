//! Dropout whose mask is a function of seed, step, site and the element's place in the whole tensor, so that every
//! sharding and every recomputation drops the same elements.

use crate::execute::element::Real;

/// The dropout of one site in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    key: u64,
    /// Elements whose 32 random bits are below this are dropped.
    threshold: u64,
    scale: f64,
}

impl Dropout {
    /// Drops each element with `probability`; what is kept is multiplied by 1 / (1 − probability).
    pub fn new(probability: f64, seed: u64, step: u64, site: u64) -> Self {
        assert!((0.0..1.0).contains(&probability), "a probability of {probability}");
        let key = mix(mix(mix(seed) ^ step) ^ site);
        let threshold = (probability * 2f64.powi(32)).round() as u64;
        Self { key, threshold, scale: 1.0 / (1.0 - probability) }
    }

    /// What element `element` of the whole tensor is multiplied by: 0 or 1 / (1 − p).
    #[inline(always)]
    pub fn factor<W: Real>(&self, element: u64) -> W {
        let bits = mix(self.key ^ element) >> 32;
        if bits < self.threshold { W::ZERO } else { W::of(self.scale) }
    }
}

/// The output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) after one step from `state`.
#[inline(always)]
pub(in crate::execute) const fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Which elements of the whole tensor a slice holds: local row `r` is global row `start + rows[r]`, of `width` elements.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub start: u64,
    pub rows: &'a [u32],
    pub width: u64,
}

impl Place<'_> {
    /// The place of the first element of local row `row`.
    #[inline(always)]
    pub fn first(&self, row: usize) -> u64 {
        (self.start + u64::from(self.rows[row])) * self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_is_splitmix64() {
        // The first outputs of the reference implementation for seed 1234567.
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
        assert_eq!(mix(1_234_567u64.wrapping_add(0x9e37_79b9_7f4a_7c15)), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_share_dropped_is_the_probability_and_the_mean_stays() {
        let dropout = Dropout::new(0.1, 7, 3, 12);
        let factors: Vec<f64> = (0..200_000).map(|element| dropout.factor(element)).collect();
        let dropped = factors.iter().filter(|&&factor| factor == 0.0).count() as f64 / 200_000.0;
        assert!((dropped - 0.1).abs() < 0.003, "{dropped}");
        assert!((factors.iter().sum::<f64>() / 200_000.0 - 1.0).abs() < 0.003);
    }

    #[test]
    fn seed_step_and_site_each_change_the_mask() {
        let mask = |seed, step, site| {
            let dropout = Dropout::new(0.5, seed, step, site);
            (0..64).map(|element| dropout.factor::<f32>(element) > 0.0).collect::<Vec<_>>()
        };
        let masks = [mask(0, 0, 0), mask(1, 0, 0), mask(0, 1, 0), mask(0, 0, 1), mask(1, 1, 0)];
        for (turn, one) in masks.iter().enumerate() {
            assert!(masks[..turn].iter().all(|other| other != one), "{turn}");
        }
    }

    #[test]
    fn places_follow_tables() {
        let place = Place { start: 4, rows: &[5, 2], width: 10 };
        assert_eq!([place.first(0), place.first(1)], [90, 60]);
    }
}
