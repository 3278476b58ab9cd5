//! What predictions of a fit are off by: the half-widths of 80 % intervals, by device and by engine.

use std::collections::BTreeMap;

use super::edit;
use super::models::File;
use super::objective::{Objective, Quantity};
use super::report::rounded;

/// The share of runs that an interval holds.
const COVERED: f64 = 0.8;
/// Fewer runs than this say nothing.
const FEWEST: usize = 5;

/// Writes the half-widths that `residuals` show into the `uncertainty` of every device's and engine's file in `files`,
/// which has texts for those that change already; `text` gives the others.
pub fn write(objective: &Objective<'_>, residuals: &[f64], files: &mut BTreeMap<File, String>) {
    let mut errors: BTreeMap<(File, Quantity), Vec<f64>> = BTreeMap::new();
    for (row, residual) in objective.rows.iter().zip(residuals) {
        let case = &objective.cases[row.case];
        for file in [File::Device(case.device.clone()), File::Engine(case.engine.clone())] {
            errors.entry((file, row.quantity)).or_default().push(residual.exp_m1().abs());
        }
    }
    for ((file, quantity), errors) in errors {
        let count = errors.len();
        let Some(half) = half_width(errors) else { continue };
        let name = if quantity == Quantity::Time { "time" } else { "memory" };
        let source = format!("80 % of {count} published runs are predicted within it, the fit's own");
        let new = edit::sourced(&serde_json::json!(rounded(half.min(0.99), 2)), &source);
        let text = files.entry(file.clone()).or_insert_with(|| objective.models.text(&file).to_owned());
        if let Some(changed) = edit::replaced(text, &["uncertainty", name], &new) {
            *text = changed;
        }
    }
}

/// The error that 80 % of `errors` stay within.
fn half_width(mut errors: Vec<f64>) -> Option<f64> {
    if errors.len() < FEWEST {
        return None;
    }
    errors.sort_by(f64::total_cmp);
    let last = (COVERED * errors.len() as f64).ceil() as usize;
    errors.get(last.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_five_are_within() {
        assert_eq!(half_width(vec![0.5, 0.1, 0.2, 0.3, 0.4]), Some(0.4));
        assert_eq!(half_width(vec![0.1; 4]), None);
        assert_eq!(half_width((1..=10).map(f64::from).collect()), Some(8.0));
    }
}
