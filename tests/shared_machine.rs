//! Ranks that share the cores of a machine: prices and playing.

mod sampling;

use std::collections::BTreeMap;

use meshwright::cluster::{self, Cluster};
use meshwright::cost::bound::Bound;
use meshwright::cost::known_chunks::KnownChunks;
use meshwright::cost::unit_cost::UnitCosts;
use meshwright::cost::{DevicePricing, Pricing, Resource};
use meshwright::ops::KernelKind;
use meshwright::profile::device::{CoresModel, KernelRates};
use meshwright::profile::{DeviceModel, Evidence, Sourced, device_model, parse_device_model};
use meshwright::program::Layout;
use meshwright::program::build::build_on;
use meshwright::program::state::StateRules;
use meshwright::simulate::{Playback, play};
use meshwright::units::{Bytes, BytesPerSecond, Seconds};
use sampling::{Case, cases};

fn sourced<T>(value: T) -> Sourced<T> {
    Sourced { value, kind: Evidence::Estimate, source: "a test".to_owned() }
}

/// A machine of `cores` cores whose caches hold everything; handing out work is free, so that more cores never cost.
fn machine(cores: u32) -> DeviceModel {
    let mut model = device_model("cpu").expect("built in").0;
    model.host.cores = sourced(cores);
    let rates = KernelRates { fp32: sourced(BytesPerSecond(3e9)), fp64: None, bf16: None };
    model.kernels = BTreeMap::from([(KernelKind::Activation, rates)]);
    model.cores = Some(CoresModel {
        packing: sourced(BytesPerSecond(5e9)),
        attention_tile: sourced(32),
        score_time: sourced(Seconds(1e-9)),
        score_time_backward: sourced(Seconds(2e-9)),
        effective: sourced(f64::from(cores)),
        serial_share: sourced(0.05),
        dispatch: sourced(Seconds(0.0)),
        cache: sourced(Bytes(1 << 40)),
    });
    model
}

fn cluster(case: &Case, cores: u32) -> Cluster {
    Cluster::uniform("here".to_owned(), 1, case.devices as u32, machine(cores), String::new())
}

fn pricing<'a>(case: &Case, cluster: &'a Cluster) -> DevicePricing<'a> {
    DevicePricing::new(cluster, case.engine, &case.strategy, case.workload.compute_type())
}

fn played(case: &Case, cores: u32) -> Playback {
    let cluster = cluster(case, cores);
    let layout = Layout::new(&case.model, &case.strategy, &case.workload, case.engine);
    let program = build_on(&layout, &case.strategy, &case.workload, case.engine);
    play(&program, &pricing(case, &cluster))
}

#[test]
fn causes_of_every_rank_sum_to_its_step() {
    for (seed, case) in cases(810_000, 150) {
        let ranks = case.devices as u32;
        for cores in [1, ranks.div_ceil(2), ranks, 2 * ranks] {
            for rank in played(&case, cores).ranks {
                let (sum, end) = (rank.causes.total().0, rank.end.0);
                assert!((sum - end).abs() <= 1e-9 * end, "seed {seed}, {}: {sum} of {end}", case.text);
            }
        }
    }
}

#[test]
fn half_the_cores_take_longer_and_at_most_twice_as_long() {
    for (seed, case) in cases(820_000, 150) {
        let ranks = case.devices as u32;
        let (all, half) = (played(&case, 2 * ranks).step_time.0, played(&case, ranks).step_time.0);
        let context = format!("seed {seed}, {} on {ranks} ranks: {half} after {all}", case.text);
        assert!(half >= all * (1.0 - 1e-9) && half <= 2.0 * all * (1.0 + 1e-9), "{context}");
        if ranks > 1 {
            // From here on a rank has less than a core.
            let quarter = played(&case, ranks.div_ceil(2)).step_time.0;
            assert!(quarter >= half * (1.0 - 1e-9), "seed {seed}, {}: {quarter} after {half}", case.text);
        }
    }
}

/// Whatever waits for what, cores are not in two places at once.
#[test]
fn the_machine_is_never_overfull() {
    for (seed, case) in cases(830_000, 150) {
        let cluster = cluster(&case, 2);
        let pricing = pricing(&case, &cluster);
        let layout = Layout::new(&case.model, &case.strategy, &case.workload, case.engine);
        let program = build_on(&layout, &case.strategy, &case.workload, case.engine);
        let mut busy = 0.0;
        for rank in &program.ranks {
            for call in &rank.calls {
                let instructions = &rank.templates[call.template as usize].instructions;
                busy += instructions
                    .iter()
                    .map(|entry| pricing.price(&entry.op, rank.stage).busy().0)
                    .sum::<f64>();
            }
        }
        let step = play(&program, &pricing).step_time.0;
        assert!(busy <= step * (1.0 + 1e-9), "seed {seed}, {}: {busy} in {step}", case.text);
    }
}

#[test]
fn the_time_bound_holds_on_a_shared_machine() {
    for (seed, case) in cases(840_000, 300) {
        let cluster = cluster(&case, (case.devices as u32 / 2).max(1));
        let pricing = pricing(&case, &cluster);
        let (strategy, engine, workload) = (&case.strategy, case.engine, &case.workload);
        let layout = Layout::new(&case.model, strategy, workload, engine);
        let rules = StateRules::new(strategy, workload, engine);
        let costs = UnitCosts::digested(layout.shaped(), &rules, engine, &pricing);
        let (costs, layout, rules) = (&costs, &layout, &rules);
        let bound = Bound {
            layout,
            copied: layout,
            costs,
            strategy,
            workload,
            engine,
            rules,
            pricing: &pricing,
            known: &KnownChunks::default(),
        };
        let played = play(&build_on(layout, strategy, workload, engine), &pricing).step_time.0;
        let bound = bound.step_time().0;
        assert!(bound <= played * (1.0 + 1e-9), "seed {seed}, {}: {bound} > {played}", case.text);
    }
}

#[test]
fn a_price_asks_for_a_share_of_the_machine() {
    let (_, case) =
        cases(850_000, 50).find(|(_, case)| case.strategy.data == 4 && case.devices == 4).expect("some");
    let cluster = cluster(&case, 8);
    let price = pricing(&case, &cluster).price(&meshwright::ops::Op::CopyOut(Bytes(1 << 20)), 0);
    // Four like ranks, a thread each, on eight cores.
    assert_eq!(price.demand[Resource::Multiprocessors as usize], 0.5);
}

#[test]
fn a_cost_model_with_cores_reads_back() {
    let model = machine(3);
    let text = serde_json::to_string(&model).expect("numbers");
    assert_eq!(parse_device_model(&text).expect("valid").0, model);
    let unknown = text.replace("\"activation\"", "\"activations\"");
    assert!(parse_device_model(&unknown).is_err());
    assert!(!cluster::load("1x2xcpu").expect("built in").device.fields().is_empty());
}
