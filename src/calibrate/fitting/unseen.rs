//! The document of `calibrate --fit --left-out`: how predictions do on sources that the numbers have not seen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::left_out::{Each, of_quantity};
use super::objective::{Objective, Quantity, Row};
use super::report::{mean_error, rounded};
use super::solver::Solution;
use crate::profile::coverage::HalfWidths;

/// Each source predicted by numbers that were fitted without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    pub version: u32,
    /// The sources by name.
    pub sources: Vec<SourceErrors>,
    /// Over all runs.
    pub all: SourceErrors,
    /// The share of runs that the intervals of plans hold; none where not all runs were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// Errors run by run.
    pub runs: Vec<UnseenRun>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<(String, String)>,
    pub seconds: f64,
}

/// Errors of one source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceErrors {
    pub family: String,
    pub time: Option<Beside>,
    pub memory: Option<Beside>,
    /// The numbers that went furthest when the source was left out, furthest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<Moved>,
}

/// Sizes of errors, as fractions: by numbers that were fitted with the source, and without it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    pub runs: u64,
    pub fitted: Sizes,
    pub left_out: Sizes,
}

/// Mean and median of the errors' sizes, and the mean of the signed errors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    pub mean: f64,
    pub median: f64,
    pub bias: f64,
}

/// A number that stands elsewhere without a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    pub files: Vec<String>,
    pub path: String,
    pub with: f64,
    pub without: f64,
}

/// The share of runs whose measured value lies within the interval of their prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    /// Each source predicted without it, by the half-widths of the table.
    pub of_table: HalfWidths,
    /// The half-widths, too, of a table without the source.
    pub unseen: HalfWidths,
}

/// One run: predicted over measured, less 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnseenRun {
    pub id: String,
    pub family: String,
    /// `time` or `memory`.
    pub quantity: String,
    pub fitted: f64,
    pub left_out: f64,
}

/// Numbers that are named for each source.
const NAMED: usize = 3;
/// A number that moves by less than this share of what was known of it beforehand is not.
const FAR: f64 = 0.1;

impl LeftOut {
    /// Of `each` source left out, and the residuals of numbers that were fitted with all.
    pub(super) fn new(
        objective: &Objective<'_>,
        optimum: &Solution,
        fitted: &[f64],
        each: &Each,
        skipped: &[(String, String)],
    ) -> Self {
        let unseen = |family: &str, is_wanted: &dyn Fn(&Row) -> bool, moved| SourceErrors {
            family: family.to_owned(),
            time: beside(objective, (fitted, &each.residuals), Quantity::Time, is_wanted),
            memory: beside(objective, (fitted, &each.residuals), Quantity::Memory, is_wanted),
            moved,
        };
        let sources = each.positions.iter().map(|(family, position)| {
            let is_of = |row: &Row| objective.family(row) == family;
            unseen(family, &is_of, moved(objective, &optimum.position, position))
        });
        let error = |residual: f64| rounded(residual.exp_m1(), 3);
        let rows = objective.rows.iter().zip(fitted).zip(&each.residuals);
        let runs = rows.map(|((row, &fitted), &left_out)| UnseenRun {
            id: objective.cases[row.case].id.clone(),
            family: objective.family(row).to_owned(),
            quantity: row.quantity.name().to_owned(),
            fitted: error(fitted),
            left_out: error(left_out),
        });
        Self {
            version: 1,
            sources: sources.collect(),
            all: unseen("all", &|_| true, Vec::new()),
            intervals: None,
            runs: runs.collect(),
            skipped: skipped.to_vec(),
            seconds: 0.0,
        }
    }
}

fn beside(
    objective: &Objective<'_>,
    (fitted, left_out): (&[f64], &[f64]),
    quantity: Quantity,
    is_wanted: &dyn Fn(&Row) -> bool,
) -> Option<Beside> {
    let of = |residuals: &[f64]| of_quantity(objective, residuals, quantity, is_wanted);
    let (fitted, left_out) = (of(fitted), of(left_out));
    let beside =
        Beside { runs: fitted.len() as u64, fitted: Sizes::of(&fitted), left_out: Sizes::of(&left_out) };
    (beside.runs > 0).then_some(beside)
}

impl Sizes {
    /// Of errors whose logarithms are `residuals`; 0 where there are none.
    fn of(residuals: &[f64]) -> Self {
        let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.exp_m1().abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let at = |place: usize| sizes.get(place).copied().unwrap_or(0.0);
        let count = sizes.len();
        Self {
            mean: mean_error(residuals),
            median: f64::midpoint(at(count.saturating_sub(1) / 2), at(count / 2)),
            bias: residuals.iter().map(|residual| residual.exp_m1()).sum::<f64>() / count.max(1) as f64,
        }
    }
}

fn moved(objective: &Objective<'_>, with: &[f64], without: &[f64]) -> Vec<Moved> {
    let mut far: Vec<(f64, usize)> =
        with.iter().zip(without).map(|(a, b)| (a - b).abs()).zip(0..).filter(|(by, _)| *by > FAR).collect();
    far.sort_by(|one, other| other.0.total_cmp(&one.0));
    far.truncate(NAMED);
    let named = |(_, index): (f64, usize)| {
        let parameter = &objective.parameters[index];
        Moved {
            files: parameter.files().map(|file| file.name().to_owned()).collect(),
            path: parameter.path.clone(),
            with: rounded(parameter.value(with[index]), 4),
            without: rounded(parameter.value(without[index]), 4),
        }
    };
    far.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_four_errors() {
        let sizes = Sizes::of(&[0.1_f64, -0.2, 0.3, 0.4].map(f64::ln_1p));
        assert!((sizes.mean - 0.25).abs() < 1e-12);
        assert!((sizes.median - 0.25).abs() < 1e-12);
        assert!((sizes.bias - 0.15).abs() < 1e-12);
        assert_eq!(Sizes::of(&[]), Sizes { mean: 0.0, median: 0.0, bias: 0.0 });
    }
}
