//! What a fit makes of each parameter: its value with its uncertainty, what fixes it, and how far from what was known
//! beforehand it had to go.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::linear::SMALL;
use super::objective::Objective;
use super::parameters::Parameter;
use super::prior::{STRENGTH, means};
use super::report::rounded;
use super::solver::{Residuals, Solution};

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

impl Fitted {
    /// Where its value comes from, for the file.
    pub(super) fn source(&self) -> String {
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

/// A number that is further from what is expected than so many spreads stands in for something else.
const STRAINED: f64 = 2.0;

/// The means of kin.
pub(super) fn kin(objective: &Objective<'_>, solution: &Solution) -> Vec<KinMean> {
    let means = means(&objective.parameters, &objective.held, &solution.position);
    let mean = |(name, offset): (String, f64)| {
        let is_of = |one: &&Parameter| one.kin.as_ref().is_some_and(|kin| kin.name == name);
        let members = objective.parameters.iter().filter(is_of);
        let first = members.clone().next()?;
        let expected = first.kin.as_ref()?.expected;
        let mean = Parameter { expected, ..first.clone() }.at_offset(offset);
        Some(KinMean {
            path: first.path.clone(),
            members: members.count() as u64,
            expected,
            mean: rounded(mean, 4),
            name,
        })
    };
    means.into_iter().filter_map(mean).collect()
}

/// The parameters where the fit left them.
pub(super) fn fitted(objective: &Objective<'_>, solution: &Solution) -> Vec<Fitted> {
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
                // A run of weight 1 is taken to be known to 5 %.
                standard_error: variances[index]
                    .map(|variance| parameter.unit(position) * (variance * STRENGTH).max(0.0).sqrt()),
                at_bound: at_bound(index),
                runs: runs.len() as u64,
                fixed_by,
            }
        })
        .collect()
}
