//! A step to which work is added never ends earlier: the one property of the player on which proofs rest
//! (`search::proof`), looked for a counterexample on random strategies.

mod sampling;

use meshwright::cluster::Cluster;
use meshwright::cost::{DevicePricing, NeverLate};
use meshwright::profile::choices::{CheckpointMode, Compression, OffloadCategory};
use meshwright::program::build;
use meshwright::simulate::play;
use meshwright::strategy::{Checkpoint, Facts, Strategy, rules};
use sampling::{Case, Dice, cases};

/// The share by which proofs let such a step end earlier all the same.
const SPARE: f64 = 1e-4;

/// Seconds of a step, as proofs play what choices have in common, and as it is played.
fn seconds(case: &Case, strategy: &Strategy, cluster: &Cluster) -> (f64, f64) {
    let pricing = || DevicePricing::new(cluster, case.engine, strategy, case.workload.compute_type());
    let program = build(&case.model, strategy, &case.workload, case.engine);
    let (least, whole) = (play(&program, &NeverLate(&pricing())), play(&program, &pricing()));
    (least.step_time.0, whole.step_time.0)
}

/// `strategy` with one block of a random chunk recomputed more.
fn recomputing(strategy: &Strategy, dice: &mut Dice) -> Strategy {
    let mut more = strategy.clone();
    let chunk = (dice.next() % more.cuts.len() as u64) as usize;
    let mut modes: Vec<CheckpointMode> = more.checkpoint[chunk].modes().collect();
    if !modes.is_empty() {
        let block = (dice.next() % modes.len() as u64) as usize;
        if let Some(next) = CheckpointMode::ALL.get(modes[block] as usize + 1) {
            modes[block] = *next;
        }
        more.checkpoint[chunk] = Checkpoint::of(modes.into_iter());
    }
    more
}

/// `strategy` with more activations of one stage on the host.
fn copying(strategy: &Strategy, dice: &mut Dice) -> Strategy {
    let mut more = strategy.clone();
    let stages = more.pipeline as usize;
    let fractions = more.offload.fractions_mut(OffloadCategory::Activations);
    fractions.resize(stages, 0.0);
    let stage = (dice.next() % stages as u64) as usize;
    fractions[stage] = (fractions[stage] + 0.5).min(1.0);
    more
}

#[test]
fn a_step_to_which_work_is_added_never_ends_earlier() {
    let clusters = ["2x8xh100-sxm", "2x8xrtx-4090", "2x8xa100-sxm-80gb"];
    let clusters = clusters.map(|name| meshwright::cluster::load(name).expect("built in"));
    let (mut compared, mut longer) = (0, 0);
    for (seed, case) in cases(510_000, 1_500) {
        let mut dice = Dice::new(seed);
        let cluster = &clusters[(seed % 3) as usize];
        let facts = Facts::new(&case.model, case.devices, &case.workload, case.engine);
        let mut less = case.strategy.clone();
        // Compressing what is kept takes kernels, which recomputation saves: there modes are not in order.
        less.compression = Compression::None;
        let recomputes = dice.next().is_multiple_of(2);
        if recomputes {
            // Copies shrink as blocks recompute.
            less.offload.activations.clear();
        }
        let mut more = if recomputes { recomputing(&less, &mut dice) } else { copying(&less, &mut dice) };
        less.normalise(&facts);
        more.normalise(&facts);
        if less == more || !rules::legal(&less, &facts) || !rules::legal(&more, &facts) {
            continue;
        }
        let (before, _) = seconds(&case, &less, cluster);
        let (_, behind) = seconds(&case, &more, cluster);
        assert!(
            behind >= before * (1.0 - SPARE),
            "seed {seed}, {}, {}: {before} s, and {behind} s with more to do: {less:?} {more:?}",
            case.engine.name,
            case.text
        );
        compared += 1;
        longer += u32::from(behind > before);
    }
    assert!(compared > 600 && longer > 400, "{compared} {longer}");
}
