//! Bounded robust least squares for residuals that cost much to compute: steps of the linear model within a trust
//! region, whose derivatives learn from every step.

use super::error::FitError;
use super::linear::{Jacobian, Loss, add};

/// Residuals of parameters, whose positions lie within 0 and 1.
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
    fn jacobian(&self, position: &[f64], residuals: &[f64]) -> Result<Jacobian, FitError>;
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

/// What may be left to gain, as a share of the loss.
const ENOUGH: f64 = 2e-5;
/// Steps at most.
const STEPS: u32 = 60;
/// Times that all derivatives are taken at most.
const JACOBIANS: u32 = 12;

/// Makes the loss of `problem` smallest, from `start` on.
///
/// # Errors
/// If residuals at the start are no numbers.
pub fn minimise(problem: &impl Residuals, start: Vec<f64>) -> Result<Solution, FitError> {
    let loss = problem.loss();
    let mut position = start;
    let mut residuals = problem.at(&position)?;
    let mut value = loss.value(&residuals, &position);
    if !value.is_finite() {
        return Err(FitError::NotANumber);
    }
    let mut jacobian = problem.jacobian(&position, &residuals)?;
    let (mut evaluations, mut jacobians) = (1, 1);
    let mut is_fresh = true;
    let mut radius = 0.25;
    let left = loop {
        let change = loss.step(&residuals, &jacobian, &position, radius);
        let next = add(&position, &change);
        let gain = value - loss.value(&jacobian.after(&residuals, &change), &next);
        let is_done = gain <= ENOUGH * value;
        if (is_done || evaluations >= STEPS) && is_fresh {
            break (gain / value).max(0.0);
        }
        if is_done || evaluations >= STEPS {
            if jacobians >= JACOBIANS {
                break (gain / value).max(0.0);
            }
            jacobian = problem.jacobian(&position, &residuals)?;
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
            radius = (2.0_f64 * radius).min(1.0);
        } else if share.is_nan() || share < 0.2 {
            let longest = change.iter().fold(0.0_f64, |longest, part| longest.max(part.abs()));
            radius = longest / 3.0;
            if !was_fresh && jacobians < JACOBIANS {
                jacobian = problem.jacobian(&position, &residuals)?;
                jacobians += 1;
                is_fresh = true;
            }
        }
    };
    Ok(Solution { position, residuals, jacobian, loss: value, left, evaluations, jacobians })
}
