//! The table of evidence that a fit writes: its runs with their features, and what leaving sources, devices, engines and
//! features out costs.

use std::collections::{BTreeMap, BTreeSet};

use super::cases::Case;
use super::error::FitError;
use super::left_out::refitted;
use super::objective::{Objective, Quantity, Row};
use super::parameters::Parameter;
use super::report::rounded;
use super::solver::Solution;
use crate::profile::choices::Feature;
use crate::profile::coverage::{EvidenceTable, HalfWidths, MeasuredRun, pair_name};

/// The share of runs that an interval holds.
const COVERED: f64 = 0.8;
/// So many runs of a device or an engine have half-widths of their own.
const FEWEST: usize = 20;

/// What is left out of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Source,
    Device,
    Engine,
}

impl Kind {
    fn of<'o>(self, objective: &'o Objective<'_>, row: &Row) -> &'o str {
        let case = &objective.cases[row.case];
        match self {
            Self::Source => &case.family,
            Self::Device => &case.device,
            Self::Engine => &case.engine,
        }
    }
}

/// The table of all cases of `objective`, whose residuals at the optimum are `residuals`.
///
/// # Errors
/// If a number cannot be what it is set to.
pub fn table(
    objective: &Objective<'_>,
    solution: &Solution,
    residuals: &[f64],
) -> Result<EvidenceTable, FitError> {
    let without = |kind| left_out(objective, solution, kind);
    let (source, device, engine) = (without(Kind::Source)?, without(Kind::Device)?, without(Kind::Engine)?);
    let all = |errors: &[Option<f64>]| half_widths(objective, errors, &|_| true);
    Ok(EvidenceTable {
        version: 1,
        source_left_out: all(&source),
        device_left_out: all(&device),
        engine_left_out: all(&engine),
        pairs: own_widths(objective, &source, &|case| pair_name(&case.engine, &case.device)),
        engines: own_widths(objective, &source, &|case| case.engine.clone()),
        features: features(objective, solution, residuals)?,
        runs: runs(objective, residuals, [&source, &device, &engine]),
    })
}

/// The residuals of all rows, each predicted by a fit that saw nothing of its source, device or engine.
fn left_out(
    objective: &Objective<'_>,
    solution: &Solution,
    kind: Kind,
) -> Result<Vec<Option<f64>>, FitError> {
    let names: BTreeSet<&str> = objective.rows.iter().map(|row| kind.of(objective, row)).collect();
    let mut residuals = vec![None; objective.rows.len()];
    for name in names {
        let is_out = |row: &Row| kind.of(objective, row) == name;
        let anew = without(objective, solution, &is_out)?;
        let places = objective.rows.iter().enumerate().filter(|(_, row)| is_out(row));
        for ((place, _), residual) in places.zip(anew) {
            residuals[place] = Some(residual);
        }
    }
    Ok(residuals)
}

/// The residuals of the rows that are out, predicted by a fit to the others: the parameters that they touch move by the
/// derivatives at the optimum.
fn without(
    objective: &Objective<'_>,
    solution: &Solution,
    is_out: &(dyn Fn(&Row) -> bool + Sync),
) -> Result<Vec<f64>, FitError> {
    let is_free = |parameter: &Parameter| {
        let mut rows = objective.rows.iter().filter(|row| is_out(row));
        rows.any(|row| Objective::touches(parameter, &objective.cases[row.case]))
    };
    objective.residuals_of(&refitted(objective, solution, &is_free, is_out), is_out)
}

/// By how much the half-width for time grows where runs with a feature are left out, by feature.
fn features(
    objective: &Objective<'_>,
    solution: &Solution,
    residuals: &[f64],
) -> Result<BTreeMap<Feature, f64>, FitError> {
    let cases = objective.cases;
    let all: BTreeSet<Feature> = cases.iter().flat_map(|case| case.features().iter().copied()).collect();
    let mut costs = BTreeMap::new();
    for feature in all {
        let has = |row: &Row| row.quantity == Quantity::Time && cases[row.case].features().contains(&feature);
        let rows = objective.rows.iter().zip(residuals);
        let seen: Vec<f64> = rows.filter(|(row, _)| has(row)).map(|(_, residual)| *residual).collect();
        if seen.is_empty() || seen.len() == objective.rows.len() {
            continue;
        }
        let unseen = without(objective, solution, &has)?;
        let cost = half_width(&unseen) - half_width(&seen);
        costs.insert(feature, rounded(cost.max(0.0), 2));
    }
    Ok(costs)
}

/// The half-widths of the kinds of runs, as `name` tells them apart, that are enough.
fn own_widths(
    objective: &Objective<'_>,
    errors: &[Option<f64>],
    name: &dyn Fn(&Case) -> String,
) -> BTreeMap<String, HalfWidths> {
    let named = |row: &Row| name(&objective.cases[row.case]);
    let names: BTreeSet<String> = objective.rows.iter().map(named).collect();
    let enough = |name: &String| {
        let of = |row: &&Row| row.quantity == Quantity::Time && named(row) == *name;
        objective.rows.iter().filter(of).count() >= FEWEST
    };
    let names: Vec<String> = names.into_iter().filter(enough).collect();
    let own = |name: String| {
        let half = half_widths(objective, errors, &|row: &Row| named(row) == name);
        (name, half)
    };
    names.into_iter().map(own).collect()
}

fn half_widths(
    objective: &Objective<'_>,
    errors: &[Option<f64>],
    is_wanted: &dyn Fn(&Row) -> bool,
) -> HalfWidths {
    let of = |quantity: Quantity, is_wanted: &dyn Fn(&Row) -> bool| -> Vec<f64> {
        let rows = objective.rows.iter().zip(errors);
        let rows = rows.filter(|(row, _)| row.quantity == quantity && is_wanted(row));
        rows.filter_map(|(_, error)| *error).collect()
    };
    let memory = of(Quantity::Memory, is_wanted);
    // Few runs say what they hold: all speak for each.
    let memory = if memory.len() < FEWEST { of(Quantity::Memory, &|_| true) } else { memory };
    HalfWidths {
        time: rounded(half_width(&of(Quantity::Time, is_wanted)), 2),
        memory: rounded(half_width(&memory), 2),
    }
}

/// The share of its prediction that 80 % of runs with these residuals, logarithms of predicted over measured, lie
/// within.
fn half_width(residuals: &[f64]) -> f64 {
    let mut errors: Vec<f64> = residuals.iter().map(|residual| (-residual).exp_m1().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let last = (COVERED * errors.len() as f64).ceil() as usize;
    errors.get(last.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn runs(objective: &Objective<'_>, residuals: &[f64], left_out: [&[Option<f64>]; 3]) -> Vec<MeasuredRun> {
    let mut without: BTreeMap<usize, [f64; 3]> = BTreeMap::new();
    for (place, row) in objective.rows.iter().enumerate().filter(|(_, row)| row.quantity == Quantity::Time) {
        let errors = left_out.map(|errors| errors[place]);
        if let [Some(source), Some(device), Some(engine)] = errors {
            without.insert(row.case, [source, device, engine].map(|error| rounded(error.exp_m1(), 3)));
        }
    }
    let mut errors: BTreeMap<usize, [Option<f64>; 2]> = BTreeMap::new();
    for (row, residual) in objective.rows.iter().zip(residuals) {
        let place = usize::from(row.quantity == Quantity::Memory);
        errors.entry(row.case).or_default()[place] = Some(rounded(residual.exp_m1(), 2));
    }
    let run = |(place, [time_error, memory_error]): (usize, [Option<f64>; 2])| {
        let case = &objective.cases[place];
        MeasuredRun {
            id: case.id.clone(),
            family: case.family.clone(),
            device: case.device.clone(),
            engine: case.engine.clone(),
            features: case.features().to_vec(),
            time_error,
            memory_error,
            left_out: without.get(&place).copied(),
            mfu: case.mfu().map(|mfu| rounded(mfu, 3)),
        }
    };
    errors.into_iter().map(run).collect()
}

/// The table as it is written: a run a line.
pub fn text(table: &EvidenceTable) -> String {
    let head = EvidenceTable { runs: Vec::new(), ..table.clone() };
    let head = serde_json::to_string_pretty(&head).unwrap_or_default();
    let lines: Vec<String> = table
        .runs
        .iter()
        .filter_map(|run| serde_json::to_string(run).ok())
        .map(|run| format!("    {run}"))
        .collect();
    head.replace("\"runs\": []", &format!("\"runs\": [\n{}\n  ]", lines.join(",\n"))) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_five_are_within() {
        let residual = |share: f64| -(1.0 + share).ln();
        let half = half_width(&[0.5, 0.1, 0.2, 0.3, 0.4].map(residual));
        assert!((half - 0.4).abs() < 1e-12);
        assert_eq!(half_width(&[]), 0.0);
    }

    #[test]
    fn a_table_reads_as_it_is_written() {
        let run = MeasuredRun {
            id: "a".to_owned(),
            family: "b".to_owned(),
            device: "c".to_owned(),
            engine: "d".to_owned(),
            features: vec![Feature::Expert],
            time_error: Some(0.1),
            memory_error: None,
            left_out: Some([0.1, 0.2, 0.3]),
            mfu: Some(0.5),
        };
        for runs in [Vec::new(), vec![run.clone()], vec![run.clone(), run]] {
            let table = EvidenceTable { version: 1, runs, ..EvidenceTable::default() };
            assert_eq!(serde_json::from_str::<EvidenceTable>(&text(&table)).unwrap(), table);
        }
    }
}
