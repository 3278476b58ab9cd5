//! Export, import: the same strategy, workload, time and memory.

use meshwright::cluster::Cluster;
use meshwright::export::exported::{narrowed, read_back};
use meshwright::export::{Case, Target, targets};
use meshwright::model::Model;
use meshwright::search::Problem;
use meshwright::strategy::{Schedule, Strategy};

use crate::random::{clusters, draw, models};

/// Legal plans of each target that are written and read back.
const PLANS: usize = 1000;

/// How many of them are played on both sides.
const PLAYED: usize = 20;

/// What comes back of `strategy`, in words, where it is not the same.
fn difference(target: Target, problem: &Problem<'_>, strategy: &Strategy, plays: bool) -> Option<String> {
    let defaults = problem.facts.defaults;
    let text = strategy.text(defaults);
    let read = match read_back(target, problem, strategy) {
        Ok(read) => read,
        Err(error) => return Some(format!("{text}: {error}")),
    };
    if let Some(left) = read.left.first() {
        let (path, line) = (&left.path, &left.place);
        return Some(format!("{text}: line {line}, `{path}` is written and not read"));
    }
    let back = match read.meaning.draft.resolve(&problem.facts) {
        Ok(back) => back,
        Err(error) => return Some(format!("{text}: {error}")),
    };
    if back != *strategy {
        return Some(format!("{text} came back as {}", back.text(defaults)));
    }
    let (meaning, workload) = (&read.meaning, &problem.workload);
    let said = [
        (meaning.global_batch, workload.global_batch, "global batch"),
        (meaning.seq_len, workload.seq_len, "sequence"),
    ];
    for (read, written, what) in said {
        if read.is_some_and(|read| read != written) {
            return Some(format!("{text}: the {what} {written} came back as {read:?}"));
        }
    }
    if meaning.precision.is_some_and(|precision| precision != workload.precision) {
        return Some(format!("{text}: {} came back as {:?}", workload.precision, meaning.precision));
    }
    if meaning.clip.is_some_and(|clip| clip != workload.clip) {
        return Some(format!("{text}: clip {} came back as {:?}", workload.clip, meaning.clip));
    }
    if plays {
        let [before, after] = [strategy.clone(), back].map(|strategy| problem.play(strategy));
        assert_eq!(before.playback.step_time, after.playback.step_time);
        assert_eq!(before.memory, after.memory);
    }
    None
}

/// Up to two micro-batches, zb-h2 is the order of zb-h1, and a file of passes cannot say which of the two it is.
fn is_another_name(strategy: &Strategy) -> bool {
    strategy.schedule == Schedule::ZeroBubbleH2 && strategy.accumulation <= 2
}

/// The strategy, if it keeps the engine's own rules; else the nearest that its settings say, if that keeps them and
/// the profile's. Some of an engine's rules are about several keys, and no profile has a word for them.
fn runnable(target: Target, problem: &Problem<'_>, strategy: Strategy) -> Option<Strategy> {
    let keeps = |strategy: &Strategy| {
        !is_another_name(strategy)
            && target.dialect.checks(&Case { problem, strategy }).iter().all(|check| check.holds)
    };
    if keeps(&strategy) {
        return Some(strategy);
    }
    let read = read_back(target, problem, &strategy).ok()?;
    read.meaning.draft.resolve(&problem.facts).ok().filter(keeps)
}

fn check(target: Target, (models, clusters): (&[Model], &[Cluster])) -> Result<(), String> {
    let profile = narrowed(target).expect("its profile is there");
    let (mut legal, mut seed) = (0, 0);
    let mut wrong = Vec::new();
    while legal < PLANS {
        seed += 1;
        if seed > 400_000 {
            return Err(format!("{}: {legal} legal plans in {seed} draws", target.text()));
        }
        let draw = draw(seed, (models, clusters), &profile);
        let problem =
            Problem::new(&models[draw.model], &clusters[draw.cluster], draw.workload, &profile, None);
        let Some(strategy) = draw.strategy(&problem) else { continue };
        let Some(strategy) = runnable(target, &problem, strategy) else { continue };
        legal += 1;
        wrong.extend(difference(target, &problem, &strategy, legal <= PLAYED));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let first: Vec<String> = wrong.iter().take(12).cloned().collect();
    Err(format!("{}: {} of {PLANS} plans differ:\n{}", target.text(), wrong.len(), first.join("\n")))
}

#[test]
fn a_thousand_legal_plans_of_each_target_come_back_as_they_were() {
    let (models, clusters) = (models(), clusters());
    let list: Vec<Target> = targets().collect();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let subject = (models.as_slice(), clusters.as_slice());
        let runs: Vec<_> = list.iter().map(|target| scope.spawn(move || check(*target, subject))).collect();
        runs.into_iter().filter_map(|run| run.join().expect("no panic").err()).collect()
    });
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
