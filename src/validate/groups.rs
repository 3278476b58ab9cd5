//! Sums over runs: how large errors are, and whether predictions rank strategies as measurements do.

use std::collections::BTreeMap;

use crate::trace::published::Quality;
use crate::validate::Judged;
use crate::validate::cause::likely;
use crate::validate::document::{Errors, Figures, Group, LeftOut, Quantity, Ranking, Run, Worst};

/// The name of the group of all families.
const ALL: &str = "all";
/// Fewer runs than this rank nothing.
const FEWEST: usize = 3;
/// Worst runs that are named.
const NAMED: usize = 10;

/// Each family and all of them, over quality A and B, then each family's C.
pub(super) fn of(judged: &[Judged]) -> Vec<Group> {
    let mut groups: BTreeMap<(bool, String), Vec<&Judged>> = BTreeMap::new();
    for one in judged {
        let is_weak = one.quality == Quality::C;
        let name = if is_weak { format!("{}/{}", one.family, Quality::C.name()) } else { one.family.clone() };
        groups.entry((is_weak, name)).or_default().push(one);
        if !is_weak {
            groups.entry((false, ALL.to_owned())).or_default().push(one);
        }
    }
    groups.into_iter().map(|((_, name), judged)| group(name, &judged)).collect()
}

fn group(name: String, judged: &[&Judged]) -> Group {
    let predicted = || judged.iter().filter_map(|one| one.result.as_ref().ok());
    let runs: Vec<(&Run, &str)> = predicted().map(|(run, task)| (run, task.as_str())).collect();
    Group {
        name,
        runs: judged.len() as u64,
        simulated: runs.len() as u64,
        time: figures(runs.iter().filter_map(|(run, _)| run.error.step_time).collect()),
        memory: figures(runs.iter().filter_map(|(run, _)| run.error.memory).collect()),
        left_out: left_out(&runs),
        ranking: ranking(&runs),
        worst: [Quantity::StepTime, Quantity::Memory]
            .into_iter()
            .flat_map(|quantity| worst(&runs, quantity))
            .collect(),
    }
}

fn left_out(runs: &[(&Run, &str)]) -> Option<LeftOut> {
    let errors: Vec<Errors> = runs.iter().filter_map(|(run, _)| run.left_out).collect();
    let left_out = LeftOut {
        runs: errors.len() as u64,
        time: figures(errors.iter().filter_map(|errors| errors.step_time).collect()),
        memory: figures(errors.iter().filter_map(|errors| errors.memory).collect()),
    };
    (left_out.runs > 0).then_some(left_out)
}

/// The runs with the largest errors of `quantity`, the largest first, and of equal ones by name.
fn worst(runs: &[(&Run, &str)], quantity: Quantity) -> Vec<Worst> {
    let mut errors: Vec<(f64, &Run)> =
        runs.iter().filter_map(|(run, _)| Some((run.error.of_quantity(quantity)?, *run))).collect();
    errors.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then_with(|| a.1.id.cmp(&b.1.id)));
    errors.truncate(NAMED);
    let worst = |(error, run): (f64, &Run)| Worst {
        id: run.id.clone(),
        quantity,
        error,
        cause: likely(run, quantity),
    };
    errors.into_iter().map(worst).collect()
}

fn figures(errors: Vec<f64>) -> Figures {
    let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
    let within = |most: f64| {
        let close = sizes.iter().filter(|size| **size <= most).count();
        mean(&sizes).map(|_| close as f64 / sizes.len() as f64)
    };
    Figures {
        mape: mean(&sizes),
        bias: mean(&errors),
        within_5: within(0.05),
        within_10: within(0.1),
        within_20: within(0.2),
        median: median(sizes),
    }
}

fn ranking(runs: &[(&Run, &str)]) -> Ranking {
    let mut tasks: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (run, task) in runs {
        if let (Some(predicted), Some(measured)) = (run.predicted.step_time_s, run.measured.step_time_s) {
            tasks.entry(task).or_default().push((predicted.0, measured.0));
        }
    }
    tasks.retain(|_, pairs| pairs.len() >= FEWEST);
    let correlations: Vec<f64> = tasks.values().filter_map(|pairs| spearman(pairs)).collect();
    let regrets: Vec<f64> = tasks.values().map(|pairs| regret(pairs)).collect();
    Ranking {
        groups: tasks.len() as u64,
        spearman: mean(&correlations),
        mean_regret: mean(&regrets),
        median_regret: median(regrets),
    }
}

/// How much slower the pair with the least first is than the least second.
fn regret(pairs: &[(f64, f64)]) -> f64 {
    let chosen = pairs.iter().copied().reduce(|best, pair| if pair.0 < best.0 { pair } else { best });
    let best = pairs.iter().map(|pair| pair.1).fold(f64::INFINITY, f64::min);
    chosen.map_or(0.0, |chosen| chosen.1 / best - 1.0)
}

/// Pearson's correlation of ranks (Spearman 1904); none where all of one side are equal.
fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let ranks = |side: Vec<f64>| -> Vec<f64> {
        let below = |value: f64| side.iter().filter(|other| **other < value).count() as f64;
        let equal = |value: f64| side.iter().filter(|other| **other == value).count() as f64;
        side.iter().map(|&value| below(value) + (equal(value) - 1.0) / 2.0).collect()
    };
    let first = ranks(pairs.iter().map(|pair| pair.0).collect());
    let second = ranks(pairs.iter().map(|pair| pair.1).collect());
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum() };
    let size = (product(&first, &first) * product(&second, &second)).sqrt();
    (size > 0.0).then(|| product(&first, &second) / size)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle value, or the mean of both middle ones.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_four_errors() {
        let figures = figures(vec![0.05, -0.1, 0.3, -0.05]);
        let close = |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < 1e-12);
        close(figures.mape, 0.125);
        close(figures.median, 0.075);
        close(figures.bias, 0.05);
        close(figures.within_5, 0.5);
        close(figures.within_10, 0.75);
        close(figures.within_20, 0.75);
        assert_eq!(super::figures(Vec::new()), Figures::default());
    }

    #[test]
    fn ranks_correlate_from_minus_one_to_one() {
        assert_eq!(spearman(&[(1.0, 10.0), (2.0, 20.0), (3.0, 90.0)]), Some(1.0));
        assert_eq!(spearman(&[(1.0, 30.0), (2.0, 20.0), (3.0, 10.0)]), Some(-1.0));
        assert_eq!(spearman(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(spearman(&[(1.0, 1.0), (2.0, 1.0), (3.0, 2.0)]).map(|r| (r * 1e3).round()), Some(866.0));
    }

    #[test]
    fn regret_is_of_the_run_that_was_chosen() {
        assert!((regret(&[(1.0, 12.0), (2.0, 10.0)]) - 0.2).abs() < 1e-12);
        assert_eq!(regret(&[(1.0, 10.0), (2.0, 12.0)]), 0.0);
    }
}
