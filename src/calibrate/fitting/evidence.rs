//! The table of evidence that a fit writes: its runs with their features, and what leaving sources, devices, engines and
//! features out costs.

use std::collections::{BTreeMap, BTreeSet};

use super::error::FitError;
use super::left_out::{Each, Way, of_quantity, without};
use super::objective::{Objective, Quantity, Row};
use super::report::rounded;
use super::solver::Solution;
use super::unseen::Intervals;
use crate::profile::choices::Feature;
use crate::profile::coverage::{EvidenceTable, HalfWidths, MeasuredRun, Question, pair_name};

/// The share of runs that an interval holds.
const COVERED: f64 = 0.8;
/// So many runs of a device or an engine, of two sources or more, have half-widths of their own.
const FEWEST: usize = 20;

/// Places in what a run keeps of fits that saw nothing of its like.
const SOURCE: usize = 0;
const DEVICE: usize = 1;
const ENGINE: usize = 2;

/// The table of all cases of `objective`, whose residuals at the optimum are `fitted`, and those by numbers that saw
/// nothing of their source, device and engine `left_out`.
///
/// # Errors
/// If a number cannot be what it is set to.
pub fn table(
    objective: &Objective<'_>,
    optimum: &Solution,
    fitted: &[f64],
    left_out: [&Each; 3],
) -> Result<EvidenceTable, FitError> {
    let runs = runs(objective, fitted, left_out.map(|each| &each.residuals[..]));
    Ok(of_runs(runs, features(objective, optimum, fitted)?))
}

/// By how much the half-width for time grows where runs with a feature are left out, by feature.
fn features(
    objective: &Objective<'_>,
    optimum: &Solution,
    fitted: &[f64],
) -> Result<BTreeMap<Feature, f64>, FitError> {
    let cases = objective.cases;
    let all: BTreeSet<Feature> = cases.iter().flat_map(|case| case.features().iter().copied()).collect();
    let mut costs = BTreeMap::new();
    for (done, &feature) in all.iter().enumerate() {
        objective.tell("features left out", done as f64 / all.len() as f64);
        let has = |row: &Row| row.quantity == Quantity::Time && cases[row.case].features().contains(&feature);
        let seen = of_quantity(objective, fitted, Quantity::Time, has);
        if seen.is_empty() || seen.len() == objective.rows.len() {
            continue;
        }
        let unseen = without(objective, optimum, Way::Linear, &has)?.residuals;
        let width = |residuals: &[f64]| half_width(residuals.iter().map(|residual| residual.exp_m1()));
        costs.insert(feature, rounded((width(&unseen) - width(&seen)).max(0.0), 2));
    }
    Ok(costs)
}

/// The table of `runs`.
fn of_runs(runs: Vec<MeasuredRun>, features: BTreeMap<Feature, f64>) -> EvidenceTable {
    let all: Vec<&MeasuredRun> = runs.iter().collect();
    EvidenceTable {
        version: 1,
        source_left_out: half_widths(&all, &all, SOURCE),
        device_left_out: half_widths(&all, &all, DEVICE),
        engine_left_out: half_widths(&all, &all, ENGINE),
        pairs: own_widths(&all, &|run| pair_name(&run.engine, &run.device)),
        engines: own_widths(&all, &|run| run.engine.clone()),
        features,
        runs,
    }
}

/// The half-widths of the kinds of runs, as `name` tells them apart, that are enough: one source says nothing of
/// another.
fn own_widths(all: &[&MeasuredRun], name: &dyn Fn(&MeasuredRun) -> String) -> BTreeMap<String, HalfWidths> {
    let mut kinds: BTreeMap<String, Vec<&MeasuredRun>> = BTreeMap::new();
    for run in all.iter().filter(|run| run.left_out.is_some()) {
        kinds.entry(name(run)).or_default().push(run);
    }
    let is_enough = |runs: &[&MeasuredRun]| {
        let sources: BTreeSet<&str> = runs.iter().map(|run| run.family.as_str()).collect();
        runs.len() >= FEWEST && sources.len() > 1
    };
    let enough = kinds.into_iter().filter(|(_, runs)| is_enough(runs));
    enough.map(|(name, runs)| (name, half_widths(&runs, all, SOURCE))).collect()
}

/// Half-widths of `runs`; where few of them say what memory they took, all speak for each.
fn half_widths(runs: &[&MeasuredRun], all: &[&MeasuredRun], kind: usize) -> HalfWidths {
    let memory = |runs: &[&MeasuredRun]| -> Vec<f64> {
        runs.iter().filter_map(|run| run.memory_left_out.map(|errors| errors[kind])).collect()
    };
    let own = memory(runs);
    let own = if own.len() < FEWEST { memory(all) } else { own };
    HalfWidths {
        time: rounded(half_width(runs.iter().filter_map(|run| run.left_out.map(|errors| errors[kind]))), 2),
        memory: rounded(half_width(own.into_iter()), 2),
    }
}

/// How far what was measured lies from a prediction that is off by `error`, as a share of the prediction.
fn distance(error: f64) -> f64 {
    (1.0 / (1.0 + error) - 1.0).abs()
}

/// The share of its prediction that 80 % of runs with these errors lie within.
fn half_width(errors: impl Iterator<Item = f64>) -> f64 {
    let mut distances: Vec<f64> = errors.map(distance).collect();
    distances.sort_by(f64::total_cmp);
    let last = (COVERED * distances.len() as f64).ceil() as usize;
    distances.get(last.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The share of runs of `table` that its intervals hold, each source predicted without it; and by the intervals of a
/// table without the source, which is what a plan of somebody new gets.
pub fn intervals(table: &EvidenceTable) -> Intervals {
    let sources: BTreeSet<&str> = table.runs.iter().map(|run| run.family.as_str()).collect();
    let mut unseen = Held::default();
    for source in sources {
        let others = table.runs.iter().filter(|run| run.family != source).cloned().collect();
        let others = of_runs(others, table.features.clone());
        unseen.judge(&others, table.runs.iter().filter(|run| run.family == source));
    }
    let mut of_table = Held::default();
    of_table.judge(table, table.runs.iter());
    Intervals { of_table: of_table.shares(), unseen: unseen.shares() }
}

/// Runs, and those of them that lie within their interval, of time and of memory.
#[derive(Default)]
struct Held([(u64, u64); 2]);

impl Held {
    fn judge<'r>(&mut self, table: &EvidenceTable, runs: impl Iterator<Item = &'r MeasuredRun>) {
        for run in runs {
            let question = Question { device: &run.device, engine: &run.engine, features: &run.features };
            let (_, half) = table.doubts(question);
            let errors = [(run.left_out, half.time), (run.memory_left_out, half.memory)];
            for (count, (error, half)) in self.0.iter_mut().zip(errors) {
                let Some(error) = error else { continue };
                count.0 += 1;
                // Half-widths have two digits.
                count.1 += u64::from(distance(error[SOURCE]) <= 1.005 * half);
            }
        }
    }

    fn shares(&self) -> HalfWidths {
        let [time, memory] = self.0.map(|(all, held)| held as f64 / all.max(1) as f64);
        HalfWidths { time, memory }
    }
}

fn runs(objective: &Objective<'_>, fitted: &[f64], left_out: [&[f64]; 3]) -> Vec<MeasuredRun> {
    let blank = |place: usize| {
        let case = &objective.cases[place];
        MeasuredRun {
            id: case.id.clone(),
            family: case.family.clone(),
            device: case.device.clone(),
            engine: case.engine.clone(),
            features: case.features().to_vec(),
            time_error: None,
            memory_error: None,
            left_out: None,
            memory_left_out: None,
            mfu: case.mfu().map(|mfu| rounded(mfu, 3)),
        }
    };
    let mut runs: BTreeMap<usize, MeasuredRun> = BTreeMap::new();
    for (place, row) in objective.rows.iter().enumerate() {
        let run = runs.entry(row.case).or_insert_with(|| blank(row.case));
        let error = rounded(fitted[place].exp_m1(), 2);
        let without = left_out.map(|residuals| rounded(residuals[place].exp_m1(), 3));
        let without = without.iter().all(|error| error.is_finite()).then_some(without);
        match row.quantity {
            Quantity::Time => (run.time_error, run.left_out) = (Some(error), without),
            Quantity::Memory => (run.memory_error, run.memory_left_out) = (Some(error), without),
        }
    }
    runs.into_values().collect()
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
        let error = |share: f64| 1.0 / (1.0 + share) - 1.0;
        let half = half_width([0.5, 0.1, 0.2, 0.3, 0.4].map(error).into_iter());
        assert!((half - 0.4).abs() < 1e-12);
        assert_eq!(half_width([].into_iter()), 0.0);
    }

    fn run(family: &str, engine: &str, error: f64) -> MeasuredRun {
        MeasuredRun {
            id: "a".to_owned(),
            family: family.to_owned(),
            device: "c".to_owned(),
            engine: engine.to_owned(),
            features: vec![Feature::Expert],
            time_error: Some(0.1),
            memory_error: None,
            left_out: Some([error; 3]),
            memory_left_out: Some([error, 0.2, 0.3]),
            mfu: Some(0.5),
        }
    }

    #[test]
    fn one_source_has_no_width_of_its_own_and_what_it_says_is_not_of_itself() {
        let near = (0..40).map(|place| run(["b", "c"][place % 2], "nemo", 0.01 * (place + 1) as f64));
        let far = (0..40).map(|_| run("d", "deepspeed", -0.4));
        let table = of_runs(near.chain(far).collect(), BTreeMap::new());
        assert_eq!(table.engines.keys().collect::<Vec<_>>(), ["nemo"]);
        assert!(table.engines["nemo"].time < 0.3 && table.source_left_out.time > 0.6);
        let Intervals { of_table, unseen } = intervals(&table);
        assert!((0.87..=0.92).contains(&of_table.time), "{of_table:?}");
        // A source that is unlike all others is in no interval that the others make.
        assert!(unseen.time <= 0.5, "{unseen:?}");
    }

    #[test]
    fn a_table_reads_as_it_is_written() {
        let run = run("b", "d", 0.1);
        for runs in [Vec::new(), vec![run.clone()], vec![run.clone(), run]] {
            let table = EvidenceTable { version: 1, runs, ..EvidenceTable::default() };
            assert_eq!(serde_json::from_str::<EvidenceTable>(&text(&table)).unwrap(), table);
        }
    }
}
