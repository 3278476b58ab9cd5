//! Each source left out in turn: what its error would be had its device or engine been fitted without it.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::FitError;
use super::linear::{Jacobian, Loss, add};
use super::models::File;
use super::objective::{Objective, Quantity, Row};
use super::parameters::Parameter;
use super::report::mean_error;
use super::solver::{Residuals, Solution};

/// A family predicted by numbers that were fitted without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// The device or engine whose parameters were fitted anew.
    pub file: String,
    pub family: String,
    /// Runs of the family with this device or engine.
    pub runs: u64,
    /// Mean absolute error of their step times, fitted with the family and without it.
    pub fitted: f64,
    pub left_out: f64,
    /// The latter over the former.
    pub ratio: f64,
}

/// Leaves out each family of each device and engine that has several. The new fits go by the derivatives at the
/// optimum; what they predict is simulated.
///
/// # Errors
/// If a number cannot be what it is set to.
pub fn each(objective: &Objective<'_>, solution: &Solution) -> Result<Vec<LeftOut>, FitError> {
    let files: BTreeSet<File> =
        objective.parameters.iter().flat_map(|parameter| parameter.files().collect::<Vec<_>>()).collect();
    let mut results = Vec::new();
    for file in &files {
        let is_of = |row: &Row| {
            let case = &objective.cases[row.case];
            row.quantity == Quantity::Time
                && match file {
                    File::Device(name) => case.device == *name,
                    File::Engine(name) => case.engine == *name,
                }
        };
        let rows = objective.rows.iter().filter(|row| is_of(row));
        let families: BTreeSet<&str> = rows.map(|row| objective.family(row)).collect();
        if families.len() > 1 {
            for family in families {
                results.push(without(objective, solution, file, family, &is_of)?);
            }
        }
    }
    Ok(results)
}

fn without(
    objective: &Objective<'_>,
    solution: &Solution,
    file: &File,
    family: &str,
    is_of: &(dyn Fn(&Row) -> bool + Sync),
) -> Result<LeftOut, FitError> {
    let is_free = |parameter: &Parameter| parameter.files().any(|other| other == *file);
    let position = refitted(objective, solution, &is_free, &|row| objective.family(row) == family);
    let is_wanted = |row: &Row| is_of(row) && objective.family(row) == family;
    let anew = objective.residuals_of(&position, is_wanted)?;
    let rows = objective.rows.iter().zip(&solution.residuals);
    let fitted: Vec<f64> = rows.filter(|(row, _)| is_wanted(row)).map(|(_, &residual)| residual).collect();
    let (fitted, left_out) = (mean_error(&fitted), mean_error(&anew));
    Ok(LeftOut {
        file: file.name().to_owned(),
        family: family.to_owned(),
        runs: anew.len() as u64,
        fitted,
        left_out,
        ratio: left_out / fitted.max(1e-9),
    })
}

/// Where the parameters that are free stand if the rows that are out say nothing, by the derivatives at the optimum.
pub fn refitted(
    objective: &Objective<'_>,
    solution: &Solution,
    is_free: &dyn Fn(&Parameter) -> bool,
    is_out: &dyn Fn(&Row) -> bool,
) -> Vec<f64> {
    let is_free: Vec<bool> = objective.parameters.iter().map(is_free).collect();
    let rows = solution.jacobian.rows.iter();
    let jacobian = Jacobian {
        rows: rows.map(|row| row.iter().copied().filter(|(i, _)| is_free[*i]).collect()).collect(),
    };
    let all = objective.loss();
    let rows = objective.rows.iter().zip(all.weights);
    let weights: Vec<f64> = rows.map(|(row, &weight)| if is_out(row) { 0.0 } else { weight }).collect();
    // What stays is held by its pull alone, which has its smallest value where it stands.
    let expected: Vec<f64> =
        (0..is_free.len()).map(|i| if is_free[i] { all.expected[i] } else { solution.position[i] }).collect();
    let loss = Loss { weights: &weights, expected: &expected };
    let change = loss.step(&solution.residuals, &jacobian, &solution.position, 1.0);
    add(&solution.position, &change)
}
