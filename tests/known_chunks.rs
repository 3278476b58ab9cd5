//! What is known of a chunk's passes is what computing them anew gives, whatever inner choices came before.

mod sampling;

use meshwright::cost::DevicePricing;
use meshwright::cost::bound::Bound;
use meshwright::cost::instants::instants;
use meshwright::cost::known_chunks::KnownChunks;
use meshwright::cost::ledger::Ledger;
use meshwright::cost::unit_cost::UnitCosts;
use meshwright::program::Layout;
use meshwright::program::state::StateRules;
use meshwright::strategy::{Checkpoint, CheckpointMode, Strategy};
use sampling::{Case, Dice, cases};

/// `strategy` with other cuts, checkpoint modes and shares on the host.
fn other_choice(dice: &mut Dice, strategy: &Strategy) -> Strategy {
    let mut other = strategy.clone();
    let (from, to) = (dice.next() as usize % other.cuts.len(), dice.next() as usize % other.cuts.len());
    if other.cuts[from] > 1 {
        other.cuts[from] -= 1;
        other.cuts[to] += 1;
    }
    let modes = |blocks: u32, dice: &mut Dice| {
        let modes: Vec<CheckpointMode> = (0..blocks).map(|_| dice.pick(CheckpointMode::ALL)).collect();
        Checkpoint::of(modes.into_iter())
    };
    other.checkpoint = other.cuts.clone().into_iter().map(|blocks| modes(blocks, dice)).collect();
    let stages = other.pipeline as usize;
    let fractions = |dice: &mut Dice| (0..stages).map(|_| dice.pick(&[0.0, 0.5, 1.0])).collect();
    other.offload.activations = fractions(dice);
    other.offload.parameters = fractions(dice);
    other
}

/// Device and host peak of each rank, and the bound of the step, by closed form.
fn closed_forms(case: &Case, strategy: &Strategy, known: &KnownChunks) -> (Vec<(u64, u64)>, f64) {
    let cluster = meshwright::cluster::load("2x8xh100-sxm").expect("built in");
    let (engine, workload) = (case.engine, &case.workload);
    let layout = &Layout::new(&case.model, strategy, workload, engine);
    let pricing = &DevicePricing::new(&cluster, engine, strategy, workload.compute_type());
    let rules = &StateRules::new(strategy, workload, engine);
    let costs = &UnitCosts::digested(layout.shaped(), rules, engine, pricing);
    let ledger = Ledger { layout, costs, strategy, engine, rules, known };
    let bound = Bound { layout, copied: layout, costs, strategy, workload, engine, rules, pricing, known };
    let named =
        instants(strategy.schedule, strategy.pipeline, strategy.accumulation, strategy.virtual_stages);
    let peaks = (0..).zip(&named).map(|(stage, instants)| {
        let (device, host) = (ledger.peak(stage, instants), ledger.host(stage, instants));
        (device.0, host.0)
    });
    (peaks.collect(), bound.step_time().0)
}

#[test]
fn what_is_known_of_chunks_is_what_they_hold_and_take() {
    let mut differ = 0;
    for (seed, case) in cases(910_000, 400) {
        let mut dice = Dice::new(seed);
        let known = KnownChunks::default();
        let first = closed_forms(&case, &case.strategy, &known);
        for turn in 0..4 {
            let other = other_choice(&mut dice, &case.strategy);
            let (again, anew) =
                (closed_forms(&case, &other, &known), closed_forms(&case, &other, &KnownChunks::default()));
            let context =
                format!("seed {seed}, turn {turn}, {} on {}, {}", case.text, case.devices, case.engine.name);
            assert_eq!(again, anew, "{context}: {other:?}");
            differ += usize::from(again != first);
        }
    }
    // Choices that change nothing would show nothing.
    assert!(differ > 500, "{differ}");
}
