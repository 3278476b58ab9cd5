//! What a rank finds where its peers are absent: its own data once more, so that numbers stay ordinary.

use crate::execute::element::{Element, Real};

/// Whether the ranks that a rank communicates with are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Peers {
    /// All ranks of the run.
    #[default]
    Present,
    /// None: the rank waits for nobody, and every other member of its groups is taken to hold what it holds itself.
    Absent,
}

/// Small numbers of both signs.
pub fn small_numbers() -> impl Iterator<Item = f64> {
    (0..7_i32).map(|place| f64::from(place - 3) / 64.0).cycle()
}

/// `shard` becomes what an absent member would have put there: `own` again and again, small numbers where the own shard
/// is empty.
pub(super) fn stand_in<T: Element>(own: &[T], shard: &mut [T]) {
    if own.is_empty() {
        let numbers = small_numbers().map(|number| T::narrow(T::Wide::of(number)));
        shard.iter_mut().zip(numbers).for_each(|(value, number)| *value = number);
        return;
    }
    for piece in shard.chunks_mut(own.len()) {
        piece.copy_from_slice(&own[..piece.len()]);
    }
}

/// `values` become the sum of as many like them as there are `members`.
pub(super) fn sum_of_alike<T: Element>(values: &mut [T], members: usize) {
    let members = T::Wide::of(members as f64);
    values.iter_mut().for_each(|value| *value = T::narrow(value.wide() * members));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_is_own_data_or_small() {
        let mut shard = [9.0; 5];
        stand_in(&[1.0, 2.0], &mut shard);
        assert_eq!(shard, [1.0, 2.0, 1.0, 2.0, 1.0]);
        stand_in(&[], &mut shard);
        assert!(shard.iter().all(|value: &f64| value.abs() < 0.05), "{shard:?}");
        sum_of_alike(&mut shard[..1], 4);
        assert_eq!(shard[0], -0.1875);
    }
}
