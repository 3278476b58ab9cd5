//! Least squares with no negative coefficient.

/// Coefficients x ≥ 0 that make Σ ((Σⱼ aᵢⱼ xⱼ − bᵢ) / sᵢ)² smallest, over rows (aᵢ, bᵢ, sᵢ): errors count as shares of
/// sᵢ > 0. By coordinate descent (Franc, Hlaváč and Navara 2005).
pub fn non_negative<const N: usize>(rows: &[([f64; N], f64, f64)]) -> [f64; N] {
    // Normal equations, each unknown scaled so that its own entry is 1.
    let mut products = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (features, value, size) in rows.iter().filter(|(_, _, size)| *size > 0.0) {
        for i in 0..N {
            right[i] += features[i] / size * (value / size);
            for j in 0..N {
                products[i][j] += features[i] / size * (features[j] / size);
            }
        }
    }
    let scale: [f64; N] = std::array::from_fn(|i| products[i][i].sqrt());
    let mut solution = [0.0; N];
    for _ in 0..ROUNDS {
        for i in 0..N {
            if scale[i] <= 0.0 {
                continue;
            }
            let others: f64 = (0..N)
                .filter(|&j| j != i && scale[j] > 0.0)
                .map(|j| products[i][j] / (scale[i] * scale[j]) * solution[j])
                .sum();
            solution[i] = (right[i] / scale[i] - others).max(0.0);
        }
    }
    std::array::from_fn(|i| if scale[i] > 0.0 { solution[i] / scale[i] } else { 0.0 })
}

const ROUNDS: usize = 20_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_made_the_data_is_found_again() {
        let rows: Vec<_> = (1..40)
            .map(|turn| {
                let (x, y) = (f64::from(turn * turn), f64::from(turn * 31 % 17 + 1));
                let made = 3.0 + 0.5 * x + 2.0 * y;
                ([1.0, x, y], made, made)
            })
            .collect();
        let found = non_negative(&rows);
        for (found, made) in found.into_iter().zip([3.0, 0.5, 2.0]) {
            assert!((found / made - 1.0).abs() < 1e-6, "{found} is not {made}");
        }
    }

    #[test]
    fn nothing_becomes_negative() {
        let rows: Vec<_> =
            (1..20).map(|x| ([1.0, f64::from(x)], f64::from(x) - 0.5, f64::from(x) - 0.5)).collect();
        let [constant, slope] = non_negative(&rows);
        assert_eq!(constant, 0.0);
        assert!((slope - 0.9).abs() < 0.1, "{slope}");
    }

    #[test]
    fn a_feature_that_never_occurs_is_nought() {
        assert_eq!(non_negative(&[([2.0, 0.0], 4.0, 4.0)]), [2.0, 0.0]);
    }
}
