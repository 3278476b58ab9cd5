//! Bars of characters: a letter for each part, as many as its share.

/// Shares `cells` among `parts` by their amounts: largest remainder, and one at least to whatever is more than 0,
/// as long as there are enough. The shares sum to `cells`, or are all 0 where the parts are.
pub fn apportion(parts: &[f64], cells: usize) -> Vec<usize> {
    let whole: f64 = parts.iter().sum();
    if whole <= 0.0 || !whole.is_finite() {
        return vec![0; parts.len()];
    }
    let exact: Vec<f64> = parts.iter().map(|part| part / whole * cells as f64).collect();
    let mut shares: Vec<usize> =
        exact.iter().map(|&cells| if cells > 0.0 { (cells as usize).max(1) } else { 0 }).collect();
    // Whoever is furthest below its exact share gets the next cell; whoever is furthest above gives one.
    let lack = |shares: &[usize], place: usize| exact[place] - shares[place] as f64;
    while shares.iter().sum::<usize>() < cells {
        let places = (0..parts.len()).filter(|&place| exact[place] > 0.0);
        let Some(place) = places.max_by(|&a, &b| lack(&shares, a).total_cmp(&lack(&shares, b))) else {
            break;
        };
        shares[place] += 1;
    }
    while shares.iter().sum::<usize>() > cells {
        let places = (0..parts.len()).filter(|&place| shares[place] > 0);
        // The large give first; only when all are down to one does any go without.
        let large = |place: usize| shares[place] > 1;
        let Some(place) = places
            .max_by(|&a, &b| large(a).cmp(&large(b)).then(lack(&shares, b).total_cmp(&lack(&shares, a))))
        else {
            break;
        };
        shares[place] -= 1;
    }
    shares
}

/// The cells of a bar: for each the place of its part, or none where it is empty.
///
/// `limit` is what fits in it: where the parts sum to less, the rest is empty, and where they sum to more, the bar
/// is of their sum.
pub fn cells(parts: &[f64], limit: f64, width: usize) -> Vec<Option<usize>> {
    let whole: f64 = parts.iter().sum();
    let filled = if whole >= limit { width } else { (whole / limit * width as f64).round() as usize };
    let shares = apportion(parts, filled.min(width));
    let mut cells: Vec<_> =
        shares.iter().enumerate().flat_map(|(place, &share)| vec![Some(place); share]).collect();
    cells.resize(width, None);
    cells
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_are_nearest() {
        assert_eq!(apportion(&[1.0, 1.0, 1.0], 10).iter().sum::<usize>(), 10);
        assert_eq!(apportion(&[50.0, 30.0, 20.0], 10), [5, 3, 2]);
        assert_eq!(apportion(&[1000.0, 0.0, 1.0], 10), [9, 0, 1]);
        assert_eq!(apportion(&[0.0, 0.0], 10), [0, 0]);
        assert_eq!(apportion(&[3.0, 2.0, 1.0], 2), [1, 1, 0]);
    }

    #[test]
    fn a_bar_is_empty_where_nothing_is_used() {
        assert_eq!(cells(&[20.0, 20.0], 80.0, 4), [Some(0), Some(1), None, None]);
        assert_eq!(cells(&[120.0, 40.0], 80.0, 4), [Some(0), Some(0), Some(0), Some(1)]);
        assert_eq!(cells(&[0.0], 0.0, 2), [None, None]);
    }

    proptest! {
        #[test]
        fn shares_sum_to_the_cells(parts in proptest::collection::vec(0.0..1e15f64, 1..9), width in 0usize..120) {
            let shares = apportion(&parts, width);
            let whole: f64 = parts.iter().sum();
            prop_assert_eq!(shares.iter().sum::<usize>(), if whole > 0.0 { width } else { 0 });
            prop_assert_eq!(cells(&parts, 0.0, width).len(), width);
        }
    }
}
