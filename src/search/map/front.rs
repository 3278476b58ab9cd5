//! The Pareto front in any number of dimensions.

/// The places of those `points` that no other dominates: is no worse in every dimension and better in one. Less is
/// better in each. Of equal points the first stays. A dimension that is no number is the worst.
pub fn front<const N: usize>(points: &[[f64; N]]) -> Vec<usize> {
    let known = |value: f64| if value.is_nan() { f64::INFINITY } else { value };
    let beats = |one: usize, other: usize| {
        let pairs = points[one].iter().zip(&points[other]).map(|(one, other)| (known(*one), known(*other)));
        let (mut is_better, mut is_worse) = (false, false);
        for (one, other) in pairs {
            is_better |= one < other;
            is_worse |= one > other;
        }
        !is_worse && (is_better || one < other)
    };
    (0..points.len()).filter(|&place| !(0..points.len()).any(|other| beats(other, place))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::front;

    #[test]
    fn what_is_worse_in_every_way_goes() {
        assert_eq!(front(&[[1.0, 9.0], [2.0, 8.0], [2.0, 9.0], [3.0, 1.0]]), [0, 1, 3]);
        // In a third dimension it may be the best.
        assert_eq!(front(&[[1.0, 9.0, 8.0], [2.0, 9.0, 1.0]]), [0, 1]);
        assert_eq!(front(&[[1.0], [1.0], [f64::NAN]]), [0]);
        assert_eq!(front::<2>(&[]), [0; 0]);
    }

    proptest! {
        #[test]
        fn all_that_is_left_out_is_dominated_by_the_front(
            points in proptest::collection::vec(proptest::array::uniform3(0u8..6), 1..30)
        ) {
            let points: Vec<[f64; 3]> = points.into_iter().map(|point| point.map(f64::from)).collect();
            let kept = front(&points);
            let covers = |one: &[f64; 3], other: &[f64; 3]| one.iter().zip(other).all(|(one, other)| one <= other);
            for (place, point) in points.iter().enumerate() {
                let covered = kept.iter().any(|&other| other != place && covers(&points[other], point));
                prop_assert_eq!(kept.contains(&place), !covered);
            }
        }
    }
}
