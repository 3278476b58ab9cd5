//! Robust least squares within limits for residuals that cost much to compute: steps of the linear model within a trust
//! region, whose derivatives learn from every step.

use super::error::FitError;
use super::linear::{Jacobian, Loss, add};

/// Residuals of parameters.
pub trait Residuals {
    /// What makes their sum.
    fn loss(&self) -> Loss<'_>;

    /// Their values at `position`.
    ///
    /// # Errors
    /// If there are none.
    fn at(&self, position: &[f64]) -> Result<Vec<f64>, FitError>;

    /// Their derivatives at `position`, where they are `residuals`.
    ///
    /// # Errors
    /// If there are none.
    fn jacobian(&self, position: &[f64]) -> Result<Jacobian, FitError>;
}

/// Where a fit ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    pub position: Vec<f64>,
    pub residuals: Vec<f64>,
    /// Taken at `position`.
    pub jacobian: Jacobian,
    pub loss: f64,
    /// How much less the loss could still become as far as derivatives tell, as a share of it.
    pub left: f64,
    pub evaluations: u32,
    pub jacobians: u32,
}

/// How much a search may cost, and where it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// What may be left to gain, as a share of the loss.
    pub enough: f64,
    /// Steps at most.
    pub steps: u32,
    /// Times that all derivatives are taken at most.
    pub jacobians: u32,
    /// How far the first step may go in each parameter.
    pub radius: f64,
}

impl Effort {
    /// Down to the optimum.
    pub const FULL: Self = Self { enough: 2e-5, steps: 60, jacobians: 12, radius: 0.5 };
}

/// No step goes further in any parameter.
const FURTHEST: f64 = 4.0;

/// Makes the loss of `problem` smallest, from `start` on.
///
/// # Errors
/// If residuals at the start are no numbers.
pub fn minimise(
    problem: &impl Residuals,
    start: Vec<f64>,
    Effort { enough, steps, jacobians: most, mut radius }: Effort,
) -> Result<Solution, FitError> {
    let loss = problem.loss();
    let mut position = start;
    let mut residuals = problem.at(&position)?;
    let mut value = loss.value(&residuals, &position);
    if !value.is_finite() {
        return Err(FitError::NotANumber);
    }
    let mut jacobian = problem.jacobian(&position)?;
    let (mut evaluations, mut jacobians) = (1, 1);
    let mut is_fresh = true;
    let left = loop {
        let change = loss.step(&residuals, &jacobian, &position, radius);
        let next = add(&position, &change);
        let gain = value - loss.value(&jacobian.after(&residuals, &change), &next);
        let is_done = gain <= enough * value || evaluations > steps;
        if is_done && (is_fresh || jacobians >= most) {
            break (gain / value).max(0.0);
        }
        if is_done {
            jacobian = problem.jacobian(&position)?;
            jacobians += 1;
            is_fresh = true;
            continue;
        }
        let seen = problem.at(&next)?;
        evaluations += 1;
        let reached = loss.value(&seen, &next);
        jacobian.learn(&change, &residuals, &seen);
        let was_fresh = is_fresh;
        is_fresh = false;
        let share = (value - reached) / gain;
        if share > 0.0 {
            (position, residuals, value) = (next, seen, reached);
        }
        if share > 0.7 {
            radius = (2.0_f64 * radius).min(FURTHEST);
        } else if share.is_nan() || share < 0.2 {
            let longest = change.iter().fold(0.0_f64, |longest, part| longest.max(part.abs()));
            radius = longest / 3.0;
            if !was_fresh && jacobians < most {
                jacobian = problem.jacobian(&position)?;
                jacobians += 1;
                is_fresh = true;
            }
        }
    };
    Ok(Solution { position, residuals, jacobian, loss: value, left, evaluations, jacobians })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::fitting::linear::SMALL;
    use crate::calibrate::fitting::prior::Prior;

    /// Logarithms of a·xᵇ over what was measured, a = e^u₀ within a factor of √e, b = u₁ within 0 and 1.
    struct Power {
        measured: Vec<(f64, f64)>,
        weights: Vec<f64>,
        prior: Prior,
    }

    impl Power {
        fn new(scale: f64, exponent: f64, noise: impl Fn(usize) -> f64) -> Self {
            let point = |x: usize| {
                let made = scale * (x as f64).powf(exponent);
                (x as f64, made * (1.0 + noise(x)))
            };
            let measured: Vec<_> = (1..=40).map(point).collect();
            Self { weights: vec![1.0; measured.len()], measured, prior: Prior::plain(2) }
        }
    }

    impl Residuals for Power {
        fn loss(&self) -> Loss<'_> {
            Loss { weights: &self.weights, prior: &self.prior, limits: &[(-0.5, 0.5), (0.0, 1.0)] }
        }

        fn at(&self, u: &[f64]) -> Result<Vec<f64>, FitError> {
            let residual = |&(x, y): &(f64, f64)| u[0] + u[1] * x.ln() - y.ln();
            Ok(self.measured.iter().map(residual).collect())
        }

        fn jacobian(&self, _: &[f64]) -> Result<Jacobian, FitError> {
            Ok(Jacobian { rows: self.measured.iter().map(|&(x, _)| vec![(0, 1.0), (1, x.ln())]).collect() })
        }
    }

    fn minimised(problem: &Power) -> Result<Solution, FitError> {
        minimise(problem, vec![-0.3, 0.2], Effort::FULL)
    }

    #[test]
    fn what_made_the_data_is_found_again_beside_outliers() {
        // Every ninth point is five times too large; the others are off by a per mille.
        let noise = |x: usize| if x.is_multiple_of(9) { 4.0 } else { 1e-3 * ((x % 3) as f64 - 1.0) };
        let solution = minimised(&Power::new(1.2, 0.7, noise)).unwrap();
        assert!((solution.position[0] - 1.2_f64.ln()).abs() < 0.01, "{:?}", solution.position);
        assert!((solution.position[1] - 0.7).abs() < 0.01, "{:?}", solution.position);
        assert!(solution.left < 1e-4);
    }

    #[test]
    fn limits_hold_and_the_rest_fits_as_well_as_they_allow() {
        let solution = minimised(&Power::new(1.0, 1.1, |_| 0.0)).unwrap();
        assert!((solution.position[1] - 1.0).abs() < 1e-9);
        assert!((-0.5..=0.5).contains(&solution.position[0]));
        // The constant is free: what pulls it up is as strong as what pulls it down.
        let pull = |residual: &f64| residual / residual.hypot(SMALL);
        let pulls: f64 = solution.residuals.iter().map(pull).sum();
        assert!(pulls.abs() < 0.05, "{pulls}");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(minimised(&Power::new(f64::NAN, 0.5, |_| 0.0)), Err(FitError::NotANumber));
    }
}
