//! The legal numbers closest to one that is not.

/// The greatest below `value` and the least above it.
pub(super) fn neighbours(value: u64, candidates: Vec<u64>) -> Vec<u64> {
    let below = candidates.iter().copied().filter(|&candidate| candidate < value).max();
    let above = candidates.iter().copied().filter(|&candidate| candidate > value).min();
    below.into_iter().chain(above).collect()
}

/// Divisors of `whole` that are at most 2^20, and their counterparts.
pub(super) fn divisors(whole: u64) -> Vec<u64> {
    (1..=1 << 20)
        .take_while(|divisor| divisor * divisor <= whole)
        .filter(|&divisor| whole.is_multiple_of(divisor))
        .flat_map(|divisor| [divisor, whole / divisor])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_the_closest_on_both_sides() {
        assert_eq!(neighbours(6, divisors(32)), [4, 8]);
        assert_eq!(neighbours(100, divisors(64)), [64]);
        assert_eq!(neighbours(1, vec![1]), [0; 0]);
    }

    #[test]
    fn divisors_come_with_their_counterparts() {
        let mut all = divisors(36);
        all.sort_unstable();
        all.dedup();
        assert_eq!(all, [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert!(divisors(u64::MAX).contains(&(u64::MAX / 3)));
    }
}
