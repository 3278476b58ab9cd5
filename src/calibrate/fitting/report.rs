//! What a fit found: values with their uncertainty and what fixes them, errors before and after, new files.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::edit;
use super::error::FitError;
use super::models::{File, as_it_was};
use super::objective::{Objective, Quantity};
use super::solver::{Residuals, Solution};
use super::unseen::LeftOut;
pub use super::values::{Bound, Fitted, KinMean, Share};
use super::values::{fitted, kin};
use crate::profile::coverage::EvidenceTable;

/// A fit: its report and the texts of the files that it changes.
#[derive(Clone, Debug)]
pub struct Fit {
    pub report: FitReport,
    pub files: BTreeMap<File, String>,
    /// Of a whole fit: its runs and what leaving some out costs.
    pub evidence: Option<EvidenceTable>,
}

/// The document that `calibrate --fit --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FitReport {
    pub version: u32,
    pub parameters: Vec<Fitted>,
    /// What the means of kin came to.
    #[serde(default)]
    pub kin: Vec<KinMean>,
    pub families: Vec<FamilyErrors>,
    /// Each source left out in turn; none of a quick fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// Runs fitted to.
    pub runs: u64,
    pub skipped: Vec<(String, String)>,
    /// What was made small, before and after.
    pub loss_before: f64,
    pub loss: f64,
    /// By how much at most the predictions that were fitted, which play a few micro-batches of a step, differ from whole
    /// ones, as a share.
    pub shortcut: f64,
    /// How much less it could still become as far as derivatives tell, as a share.
    pub loss_left: f64,
    /// The share of the loss by which it changes where all parameters move by a thousandth; none of a quick fit.
    pub slope: Option<f64>,
    pub evaluations: u32,
    pub jacobians: u32,
    pub seconds: f64,
}

/// Errors of one family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FamilyErrors {
    pub family: String,
    /// `time` or `memory`.
    pub quantity: String,
    pub runs: u64,
    /// Mean absolute errors and biases, as fractions.
    pub before: f64,
    pub after: f64,
    pub bias_before: f64,
    pub bias: f64,
}

fn shortcut(few: &[f64], whole: &[f64]) -> f64 {
    few.iter().zip(whole).map(|(few, whole)| (few - whole).exp_m1().abs()).fold(0.0, f64::max)
}

/// Mean absolute error of predictions whose logarithms are off by `residuals`.
pub fn mean_error(residuals: &[f64]) -> f64 {
    mean(residuals.iter().map(|residual| residual.exp_m1().abs()))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

impl Fit {
    pub(super) fn new(
        objective: &Objective<'_>,
        (before, after): (&[f64], &[f64]),
        solution: &Solution,
        skipped: &[(String, String)],
    ) -> Result<Self, FitError> {
        let parameters = fitted(objective, solution);
        let mut files = BTreeMap::new();
        for (parameter, fitted) in objective.parameters.iter().zip(&parameters) {
            for file in parameter.files() {
                let text =
                    files.entry(file.clone()).or_insert_with(|| objective.models.text(&file).to_owned());
                let path: Vec<&str> = parameter.path.split('.').collect();
                let number = serde_json::Number::from_f64(fitted.value).map(serde_json::Value::Number);
                let number = number.ok_or(FitError::NotANumber)?;
                let is_whole = fitted.value.fract() == 0.0 && fitted.value > 1e6;
                let whole = serde_json::json!(1_u64);
                let number = if is_whole { as_it_was(&whole, fitted.value) } else { number };
                let new = edit::sourced(&number, &fitted.source());
                *text = edit::replaced(text, &path, &new).ok_or_else(|| FitError::File {
                    file: file.path(),
                    reason: format!("has no number `{}`", parameter.path),
                })?;
            }
        }
        let start = objective.start()?;
        let report = FitReport {
            version: 2,
            parameters,
            kin: kin(objective, solution),
            families: families(objective, before, after),
            left_out: None,
            runs: objective.cases.len() as u64,
            skipped: skipped.to_vec(),
            loss_before: objective.loss().value(before, &start),
            loss: objective.loss().value(after, &solution.position),
            shortcut: shortcut(&solution.residuals, after),
            loss_left: solution.left,
            evaluations: solution.evaluations,
            jacobians: solution.jacobians,
            slope: None,
            seconds: 0.0,
        };
        Ok(Self { report, files, evidence: None })
    }
}

/// `value` with `digits` significant digits.
pub fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

fn families(objective: &Objective<'_>, before: &[f64], after: &[f64]) -> Vec<FamilyErrors> {
    type Lists<'a> = BTreeMap<(Quantity, &'a str), (Vec<f64>, Vec<f64>)>;
    let mut lists: Lists<'_> = BTreeMap::new();
    for ((row, &before), &after) in objective.rows.iter().zip(before).zip(after) {
        let list = lists.entry((row.quantity, objective.family(row))).or_default();
        list.0.push(before);
        list.1.push(after);
    }
    let bias = |residuals: &[f64]| mean(residuals.iter().map(|residual| residual.exp_m1()));
    lists
        .into_iter()
        .map(|((quantity, family), (before, after))| FamilyErrors {
            family: family.to_owned(),
            quantity: quantity.name().to_owned(),
            runs: after.len() as u64,
            before: mean_error(&before),
            after: mean_error(&after),
            bias_before: bias(&before),
            bias: bias(&after),
        })
        .collect()
}
