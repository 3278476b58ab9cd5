//! What is left out of a fit in turn, and predicted by numbers that were fitted without it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::error::FitError;
use super::linear::{Jacobian, Loss, add};
use super::objective::{Objective, Quantity, Row};
use super::solver::{Effort, Residuals, Solution, minimise};

/// What is left out: all runs of one source, on one device, or by one engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Source,
    Device,
    Engine,
}

impl Kind {
    /// The name that runs left out together have in common.
    pub fn of<'o>(self, objective: &'o Objective<'_>, row: &Row) -> &'o str {
        let case = &objective.cases[row.case];
        match self {
            Self::Source => &case.family,
            Self::Device => &case.device,
            Self::Engine => &case.engine,
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Source => "sources left out",
            Self::Device => "devices left out",
            Self::Engine => "engines left out",
        }
    }
}

/// How numbers are found that some runs say nothing of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By steps whose residuals are true, from the optimum of all runs and its derivatives, which learn from each step.
    Stepping,
    /// By one step of these derivatives.
    Linear,
}

/// So many steps find them; what is left to gain by then is less than the runs' own scatter.
const STEPS: Effort = Effort { enough: 2e-5, steps: 6, jacobians: 1, radius: 2.0 };
/// A residual that the derivatives say to change by less than this is taken as they say.
const TOUCHED: f64 = 1e-3;

/// Numbers that some runs said nothing of, and what they predict of these.
pub struct Without {
    pub position: Vec<f64>,
    /// Of the rows that were left out, in their order.
    pub residuals: Vec<f64>,
}

/// The runs that stay, near the optimum of all.
struct Rest<'o> {
    objective: &'o Objective<'o>,
    optimum: &'o Solution,
    weights: Vec<f64>,
}

impl Residuals for Rest<'_> {
    fn loss(&self) -> Loss<'_> {
        Loss { weights: &self.weights, ..self.objective.loss() }
    }

    fn at(&self, position: &[f64]) -> Result<Vec<f64>, FitError> {
        let change: Vec<f64> = position.iter().zip(&self.optimum.position).map(|(a, b)| a - b).collect();
        let guessed = self.optimum.jacobian.after(&self.optimum.residuals, &change);
        let moved = guessed.iter().zip(&self.optimum.residuals).map(|(a, b)| (a - b).abs() > TOUCHED);
        let wanted: Vec<bool> =
            moved.zip(&self.weights).map(|(moved, weight)| moved && *weight > 0.0).collect();
        if wanted.contains(&true) {
            return self.objective.residuals_near(position, guessed, &wanted);
        }
        Ok(guessed)
    }

    fn jacobian(&self, _: &[f64]) -> Result<Jacobian, FitError> {
        Ok(self.optimum.jacobian.clone())
    }
}

/// Numbers fitted to all rows but those that are out, from `optimum` of all on, and what they predict of those: that is
/// simulated.
///
/// # Errors
/// If a number cannot be what it is set to.
pub fn without(
    objective: &Objective<'_>,
    optimum: &Solution,
    way: Way,
    is_out: &(dyn Fn(&Row) -> bool + Sync),
) -> Result<Without, FitError> {
    let loss = objective.loss();
    let rows = objective.rows.iter().zip(loss.weights);
    let weights: Vec<f64> = rows.map(|(row, &weight)| if is_out(row) { 0.0 } else { weight }).collect();
    let rest = Rest { objective, optimum, weights };
    let position = match way {
        Way::Stepping => minimise(&rest, optimum.position.clone(), STEPS)?.position,
        Way::Linear => {
            let Solution { residuals, jacobian, position, .. } = optimum;
            add(position, &rest.loss().step(residuals, jacobian, position, STEPS.radius))
        }
    };
    let residuals = objective.predicted(&position, is_out)?;
    Ok(Without { position, residuals })
}

/// What one kind of runs left out in turn showed.
pub struct Each {
    /// Of every row, as predicted by numbers that saw nothing of its like.
    pub residuals: Vec<f64>,
    /// By name, in order: where the numbers went.
    pub positions: Vec<(String, Vec<f64>)>,
}

/// Leaves out each source, device or engine in turn.
///
/// # Errors
/// If a number cannot be what it is set to.
pub fn each(objective: &Objective<'_>, optimum: &Solution, kind: Kind, way: Way) -> Result<Each, FitError> {
    let names: BTreeSet<&str> = objective.rows.iter().map(|row| kind.of(objective, row)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let done = AtomicUsize::new(0);
    let one = |name: &&str| {
        objective.tell(kind.title(), done.fetch_add(1, Ordering::Relaxed) as f64 / names.len() as f64);
        without(objective, optimum, way, &|row| kind.of(objective, row) == *name)
    };
    let all = names.par_iter().map(one).collect::<Result<Vec<Without>, FitError>>()?;
    let mut each = Each { residuals: vec![f64::NAN; objective.rows.len()], positions: Vec::new() };
    for (name, anew) in names.into_iter().zip(all) {
        let rows = objective.rows.iter().enumerate().filter(|(_, row)| kind.of(objective, row) == name);
        for ((place, _), residual) in rows.zip(anew.residuals) {
            each.residuals[place] = residual;
        }
        each.positions.push((name.to_owned(), anew.position));
    }
    Ok(each)
}

/// The residuals of `quantity` among those of all rows that are of `is_wanted` rows.
pub fn of_quantity(
    objective: &Objective<'_>,
    residuals: &[f64],
    quantity: Quantity,
    is_wanted: impl Fn(&Row) -> bool,
) -> Vec<f64> {
    let rows = objective.rows.iter().zip(residuals);
    rows.filter(|(row, _)| row.quantity == quantity && is_wanted(row))
        .map(|(_, residual)| *residual)
        .collect()
}
