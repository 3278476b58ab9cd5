//! What a fit found: values with their uncertainty and what fixes them, errors before and after, new files.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::edit;
use super::error::FitError;
use super::linear::SMALL;
use super::models::{File, as_it_was};
use super::objective::{Objective, Quantity};
use super::parameters::Parameter;
use super::prior::{STRENGTH, means};
use super::solver::{Residuals, Solution};
use super::unseen::LeftOut;
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

/// One parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    pub files: Vec<String>,
    pub path: String,
    pub meaning: String,
    pub before: f64,
    pub value: f64,
    pub lower: f64,
    pub upper: f64,
    pub expected: f64,
    /// Standard deviation of what was known of it beforehand: of its logarithm, or in its unit where it may be 0. Of
    /// kin, that of their mean and of a member about it together.
    pub spread: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kin: Option<String>,
    /// How many spreads it lies above what is expected.
    pub strain: f64,
    /// Whether that is more than two: a cause is missing.
    pub is_strained: bool,
    /// Standard error in the parameter's unit; none at a limit.
    pub standard_error: Option<f64>,
    /// The limit that it stands at.
    pub at_bound: Option<Bound>,
    /// Runs whose prediction depends on it.
    pub runs: u64,
    /// The families that fix it, by their share of the information on it, largest first.
    pub fixed_by: Vec<Share>,
}

/// The mean of numbers that are kin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KinMean {
    pub name: String,
    pub path: String,
    pub members: u64,
    /// What was expected of it, and what it came to.
    pub expected: f64,
    pub mean: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    Lower,
    Upper,
}

/// A family's share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    pub family: String,
    pub share: f64,
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

impl Fitted {
    /// Where its value comes from, for the file.
    fn source(&self) -> String {
        let families: Vec<String> = self
            .fixed_by
            .iter()
            .filter(|share| share.share >= 0.05)
            .map(|share| format!("{} ({:.0} %)", share.family, 100.0 * share.share))
            .collect();
        if families.is_empty() {
            return "what is expected: no run tells (fit)".to_owned();
        }
        let error = match (self.standard_error, self.at_bound) {
            (_, Some(Bound::Lower)) => "at its lower limit".to_owned(),
            (_, Some(Bound::Upper)) => "at its upper limit".to_owned(),
            (Some(error), None) => format!("standard error {}", rounded(error, 2)),
            (None, None) => "standard error unknown".to_owned(),
        };
        format!("fit to {} runs, fixed by {}; {error}", self.runs, families.join(", "))
    }
}

/// `value` with `digits` significant digits.
pub fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

/// A number that is further from what is expected than so many spreads stands in for something else.
const STRAINED: f64 = 2.0;

fn kin(objective: &Objective<'_>, solution: &Solution) -> Vec<KinMean> {
    let means = means(&objective.parameters, &objective.held, &solution.position);
    let mean = |(name, offset): (String, f64)| {
        let is_of = |one: &&Parameter| one.kin.as_ref().is_some_and(|kin| kin.name == name);
        let members = objective.parameters.iter().filter(is_of);
        let first = members.clone().next()?;
        Some(KinMean {
            path: first.path.clone(),
            members: members.count() as u64,
            expected: first.expected,
            mean: rounded(first.at_offset(offset), 4),
            name,
        })
    };
    means.into_iter().filter_map(mean).collect()
}

fn fitted(objective: &Objective<'_>, solution: &Solution) -> Vec<Fitted> {
    let loss = objective.loss();
    let normal = loss.normal(&solution.residuals, &solution.jacobian, &solution.position);
    let at_bound = |index: usize| {
        let ((least, most), position) = (loss.limits[index], solution.position[index]);
        match position {
            _ if position <= least + 1e-6 => Some(Bound::Lower),
            _ if position >= most - 1e-6 => Some(Bound::Upper),
            _ => None,
        }
    };
    let free: Vec<bool> = (0..solution.position.len()).map(|index| at_bound(index).is_none()).collect();
    let variances = normal.variances(&free);
    let parameters = objective.parameters.iter().enumerate();
    parameters
        .map(|(index, parameter)| {
            let mut information: BTreeMap<&str, f64> = BTreeMap::new();
            let mut runs = BTreeSet::new();
            let mut total = 0.0;
            for (at, (row, entries)) in objective.rows.iter().zip(&solution.jacobian.rows).enumerate() {
                let Some(&(_, slope)) = entries.iter().find(|(other, _)| *other == index) else { continue };
                let residual = solution.residuals[at];
                let size = (residual * residual + SMALL * SMALL).sqrt();
                let part = loss.weights[at] / size * slope * slope;
                if part > 0.0 {
                    runs.insert(row.case);
                    *information.entry(objective.family(row)).or_default() += part;
                    total += part;
                }
            }
            let mut fixed_by: Vec<Share> = information
                .into_iter()
                .map(|(family, part)| Share { family: family.to_owned(), share: part / total })
                .collect();
            fixed_by.sort_by(|a, b| b.share.total_cmp(&a.share));
            let position = solution.position[index];
            let value = parameter.value(position);
            let first = parameter.files().next();
            let before = first.and_then(|file| objective.models.number(&file, &parameter.path));
            Fitted {
                files: parameter.files().map(|file| file.name().to_owned()).collect(),
                path: parameter.path.clone(),
                meaning: parameter.meaning.clone(),
                before: before.unwrap_or(value),
                // Whole bytes; else five digits, which is more than any run tells.
                value: if parameter.lower > 1e4 { value.round() } else { rounded(value, 5) },
                lower: parameter.lower,
                upper: parameter.upper,
                expected: parameter.expected,
                spread: rounded(parameter.deviation(), 4),
                kin: parameter.kin.as_ref().map(|kin| kin.name.clone()),
                strain: rounded(position, 3),
                is_strained: position.abs() > STRAINED,
                // A run of weight 1 is taken to be known to 5 %, as what was known beforehand is by its spread.
                standard_error: variances[index]
                    .map(|variance| parameter.unit(position) * (variance * STRENGTH).max(0.0).sqrt()),
                at_bound: at_bound(index),
                runs: runs.len() as u64,
                fixed_by,
            }
        })
        .collect()
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
