//! The objective as the solver sees it: residuals and their derivatives, which differences give.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::cases::Prediction;
use super::error::FitError;
use super::linear::{Jacobian, Loss};
use super::models::Numbers;
use super::objective::{Objective, Quantity, Row};
use super::solver::Residuals;

impl Residuals for Objective<'_> {
    fn loss(&self) -> Loss<'_> {
        Loss { weights: &self.weights, prior: &self.prior, limits: &self.limits }
    }

    fn at(&self, position: &[f64]) -> Result<Vec<f64>, FitError> {
        self.tell("stepping", 0.0);
        let residuals = self.residuals(position, self.slopes)?;
        Ok(residuals.iter().zip(&self.offsets).map(|(residual, offset)| residual + offset).collect())
    }

    fn jacobian(&self, position: &[f64]) -> Result<Jacobian, FitError> {
        let shifted: Vec<(f64, Numbers)> = (0..position.len())
            .map(|index| {
                let step = self.parameters[index].small_step();
                // Inwards at the upper limit.
                let step = if position[index] + step > self.limits[index].1 { -step } else { step };
                let mut there = position.to_vec();
                there[index] += step;
                Ok((step, self.numbers(&there)?))
            })
            .collect::<Result<_, FitError>>()?;
        let tasks: Vec<(usize, usize)> = (0..self.cases.len())
            .flat_map(|case| (0..position.len()).map(move |parameter| (case, parameter)))
            .filter(|&(case, parameter)| Self::touches(&self.parameters[parameter], &self.cases[case]))
            .collect();
        let here = self.residuals(position, self.slopes)?;
        let done = AtomicU64::new(0);
        let predictions: Vec<Prediction> = tasks
            .par_iter()
            .map(|&(case, parameter)| {
                // What the device keeps to itself takes no time.
                let asks_time = !self.parameters[parameter].path.starts_with("reserve.");
                let depth = asks_time.then_some(self.slopes);
                let count = done.fetch_add(1, Ordering::Relaxed);
                if count.is_multiple_of(64) {
                    self.tell("derivatives", count as f64 / tasks.len() as f64);
                }
                self.cases[case].predict(&shifted[parameter].1, depth)
            })
            .collect();
        let mut by_case: Vec<Vec<(usize, Prediction)>> = vec![Vec::new(); self.cases.len()];
        for (&(case, parameter), prediction) in tasks.iter().zip(predictions) {
            by_case[case].push((parameter, prediction));
        }
        let row = |(row, &residual): (&Row, &f64)| {
            let entries = by_case[row.case].iter().filter_map(|&(parameter, prediction)| {
                let is_memory = row.quantity == Quantity::Memory;
                if !is_memory && self.parameters[parameter].path.starts_with("reserve.") {
                    return None;
                }
                let slope = (Self::residual(row, prediction) - residual) / shifted[parameter].0;
                Some((parameter, if slope.is_finite() { slope } else { 0.0 }))
            });
            entries.collect()
        };
        Ok(Jacobian { rows: self.rows.iter().zip(&here).map(row).collect() })
    }
}
