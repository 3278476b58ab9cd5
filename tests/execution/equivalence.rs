//! Every strategy trains as one rank does, and holds what was predicted, to the byte.

use std::collections::HashMap;

use meshwright::execute::contents::Tensors;
use meshwright::execute::data::{Synthetic, Tokens};
use meshwright::execute::run::{Job, Settings};
use meshwright::execute::weights::Weights;
use meshwright::lower::Category;
use meshwright::model::Model;
use meshwright::profile::engine::engine;
use meshwright::simulate::memory;
use meshwright::strategy::{Draft, Strategy, Workload, resolve};
use meshwright::units::ElementType;

use crate::models;
use crate::training::{Trained, train};

/// What sums in another order may differ by, relative to the layer's largest norm.
const TOLERANCE: f64 = 1e-11;
const STEPS: u64 = 2;

/// A small deterministic generator (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize]
    }
}

pub fn workload(clip: f64, dropout: f64) -> Workload {
    Workload { global_batch: 8, seq_len: 16, precision: ElementType::Fp64, dropout, clip }
}

/// Trains `model` under `strategy`, each rank on a thread for its kernels.
fn run(model: &Model, strategy: Strategy, workload: Workload) -> Trained {
    run_on(model, strategy, workload, 1)
}

fn run_on(model: &Model, strategy: Strategy, workload: Workload, cores: usize) -> Trained {
    let settings = Settings { learning_rate: 1e-2, poison: true, cores, ..Settings::default() };
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
    let vocabulary = if model.name == "golden" { 97 } else { 61 };
    let tokens = Tokens::Synthetic(Synthetic::new(7, vocabulary).unwrap());
    train(job, settings, tokens, &Weights::random(model, 3), STEPS)
}

pub fn strategy(model: &Model, text: &str, devices: u64, workload: &Workload) -> Option<Strategy> {
    let draft = Draft::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    resolve(&draft, model, devices, workload, engine("embedded").unwrap()).ok()
}

/// Largest difference of `found` from `expected`, relative to the largest norm of a layer's tensors.
pub fn difference(found: &Tensors, expected: &Tensors) -> (f64, String) {
    assert_eq!(found.len(), expected.len(), "tensors");
    let mut norms: HashMap<usize, f64> = HashMap::new();
    for ((layer, _), values) in expected {
        let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
        let largest = norms.entry(*layer).or_default();
        *largest = largest.max(norm);
    }
    let mut worst = (0.0, String::new());
    for (parameter, values) in expected {
        let other = &found[parameter];
        for (index, (a, b)) in values.iter().zip(other).enumerate() {
            let error = (a - b).abs() / norms[&parameter.0].max(1e-300);
            // What is not a number is no better.
            if error.is_nan() || error > worst.0 {
                worst = (error, format!("{parameter:?}[{index}]: {b} in place of {a}"));
            }
        }
    }
    worst
}

fn compare(found: &Trained, expected: &Trained, tolerance: f64, case: &str) {
    for (found, expected, what) in [
        (&found.gradients, &expected.gradients, "gradient"),
        (&found.parameters, &expected.parameters, "parameter"),
    ] {
        let (error, place) = difference(found, expected);
        assert!(error <= tolerance, "{case}: {what} {place} ({error:e})");
    }
    for (step, (found, expected)) in found.losses.iter().zip(&expected.losses).enumerate() {
        assert!((found - expected).abs() <= tolerance, "{case}: loss {step}: {found} in place of {expected}");
    }
}

/// Whether every rank held what its program says, by category, device and host.
pub fn check_memory(trained: &Trained, case: &str) {
    for rank in &trained.fleet.ranks {
        let predicted = memory::peak(&trained.fleet.run.program.ranks[rank.stage as usize]);
        let counted = &rank.placement.device;
        assert_eq!(counted.peak(), predicted.total.0, "{case}: rank {}", rank.index);
        for (category, bytes) in Category::ALL.into_iter().zip(predicted.categories) {
            assert_eq!(counted.at_peak(category), bytes.0, "{case}: rank {}, {category:?}", rank.index);
        }
        assert_eq!(rank.placement.host.peak(), predicted.host.0, "{case}: rank {}, host", rank.index);
        assert_eq!(rank.placement.host.live(), rank.placement.host_state(), "{case}: host memory leaks");
    }
}

/// A random strategy text for `devices` ranks; many are illegal.
fn random_text(dice: &mut Dice, devices: u64, is_moe: bool) -> String {
    let mut left = devices;
    let mut part = |dice: &mut Dice, sizes: &[u64]| {
        let size = dice.pick(sizes);
        if left.is_multiple_of(size) {
            left /= size;
            size
        } else {
            1
        }
    };
    let (tp, pp, cp) = (part(dice, &[1, 1, 2, 4]), part(dice, &[1, 1, 2, 4]), part(dice, &[1, 1, 1, 2]));
    let mut keys = vec![format!("tp={tp},pp={pp},cp={cp},micro={}", dice.pick(&[1, 1, 2, 4]))];
    let mut maybe = |odds: u64, dice: &mut Dice, choices: &[&str]| {
        if dice.next().is_multiple_of(odds) {
            keys.push(dice.pick(choices).to_owned());
        }
    };
    if tp > 1 {
        maybe(2, dice, &["sp=off"]);
    }
    if cp > 1 {
        maybe(2, dice, &["cp_kind=ulysses"]);
    }
    if pp > 1 {
        maybe(
            2,
            dice,
            &[
                "sched=gpipe",
                "sched=zb-h1",
                "sched=zb-h2",
                "sched=zb-v,virtual=2",
                "sched=interleaved,virtual=2",
            ],
        );
    }
    if is_moe {
        maybe(2, dice, &["ep=2", "ep=4", "ep=2,etp=1", "ep=1,etp=1"]);
        maybe(1, dice, &["capacity=full"]);
    }
    maybe(1, dice, &["zero=0", "zero=1", "zero=2", "zero=3", "zero=3,reshard=off"]);
    maybe(3, dice, &["shard=2", "shard=1", "shard=4"]);
    maybe(2, dice, &["sync=immediate", "sync=scatter", "sync=deferred"]);
    maybe(2, dice, &["ckpt=full", "ckpt=selective", "ckpt=full:1"]);
    maybe(
        3,
        dice,
        &[
            "offload=optimizer:1",
            "offload=optimizer:0.5",
            "offload=params:1",
            "offload=activations:1",
            "offload=optimizer:0.3+params:0.5+activations:0.5",
        ],
    );
    maybe(4, dice, &["overlap=off"]);
    maybe(3, dice, &["loss=chunked"]);
    maybe(3, dice, &["attention=materialised"]);
    maybe(6, dice, &["order=dp-tp-cp-pp", "order=pp-tp-cp-dp"]);
    keys.join(",")
}

/// Random legal strategies of `model` on up to eight ranks, against one rank.
fn check_random(model: &Model, is_moe: bool, dropout: f64, seed: u64, count: usize) {
    let workload = workload(1.0, dropout);
    let single = if is_moe { "tp=1,micro=8,capacity=full" } else { "tp=1,micro=8" };
    let reference = run(model, strategy(model, single, 1, &workload).unwrap(), workload);
    let mut dice = Dice(seed);
    let (mut checked, mut tried) = (0, 0);
    while checked < count {
        tried += 1;
        assert!(tried < 100 * count, "only {checked} legal strategies in {tried}");
        let devices = dice.pick(&[1, 2, 2, 4, 4, 8]);
        let text = random_text(&mut dice, devices, is_moe);
        let Some(strategy) = strategy(model, &text, devices, &workload) else { continue };
        let case = format!("{text} on {devices}");
        if std::env::var_os("MESHWRIGHT_SHOW").is_some() {
            eprintln!("{case}");
        }
        let trained = run(model, strategy, workload);
        compare(&trained, &reference, TOLERANCE, &case);
        check_memory(&trained, &case);
        checked += 1;
    }
}

#[test]
fn gpt2_under_random_strategies() {
    check_random(&models::gpt2(), false, 0.0, 1, 60);
}

#[test]
fn llama_under_random_strategies() {
    check_random(&models::llama(), false, 0.0, 2, 60);
}

#[test]
fn mixtral_under_random_strategies() {
    check_random(&models::mixtral(), true, 0.0, 3, 60);
}

#[test]
fn two_losses_under_random_strategies() {
    check_random(&models::two_losses(), false, 0.0, 4, 40);
}

/// Masks are drawn for global elements: every strategy drops the same.
#[test]
fn dropout_is_the_same_under_random_strategies() {
    check_random(&models::gpt2(), false, 0.2, 5, 20);
    check_random(&models::mixtral(), true, 0.2, 6, 10);
}

/// The same sums in the same order: not a bit differs.
#[test]
fn what_only_moves_data_is_bitwise() {
    let cases = [
        ("micro=2", 1, ["micro=2", "micro=2,ckpt=full", "micro=2,ckpt=selective", "micro=2,ckpt=full:2"]),
        (
            "micro=2",
            1,
            [
                "micro=2,offload=optimizer:1",
                "micro=2,offload=optimizer:0.5,overlap=off",
                "micro=2,offload=activations:1",
                "micro=2,offload=params:1+optimizer:0.3",
            ],
        ),
        (
            "dp=2,micro=2,zero=0,sync=deferred",
            2,
            [
                "dp=2,micro=2,zero=1,sync=deferred",
                "dp=2,micro=2,zero=2,sync=deferred",
                "dp=2,micro=2,zero=3,sync=deferred",
                "dp=2,micro=2,zero=3,reshard=off,sync=deferred",
            ],
        ),
        (
            "micro=2",
            1,
            [
                "pp=2,dp=1,micro=2",
                "pp=4,dp=1,micro=2,sched=gpipe",
                "pp=2,dp=1,micro=2,sched=zb-h1",
                "micro=2",
            ],
        ),
    ];
    let model = models::llama();
    for clip in [0.0, 1.0] {
        let workload = workload(clip, 0.1);
        for (reference, devices, texts) in &cases {
            let expected = run(&model, strategy(&model, reference, *devices, &workload).unwrap(), workload);
            for text in texts {
                let devices = if text.contains("pp=4") {
                    4
                } else if text.contains("pp=2") {
                    2
                } else {
                    *devices
                };
                let found = run(&model, strategy(&model, text, devices, &workload).unwrap(), workload);
                compare(&found, &expected, 0.0, &format!("{text}, clip {clip}"));
                assert_eq!(found.norms, expected.norms, "{text}, clip {clip}");
            }
        }
    }
}

/// Kernels that share their work over several threads give the same bits, and streams that wait for one another do
/// not hold up those threads.
#[test]
fn threads_change_no_bit() {
    let (model, workload) = (models::llama(), workload(1.0, 0.1));
    for (text, devices) in [
        ("micro=2", 1),
        ("micro=2,offload=optimizer:1,overlap=off", 1),
        ("micro=2,offload=optimizer:0.5+activations:1+params:0.5", 1),
        ("dp=2,micro=1,zero=3,offload=optimizer:1", 2),
        ("tp=2,micro=2,zero=1", 2),
    ] {
        let strategy = strategy(&model, text, devices, &workload).unwrap();
        let expected = run(&model, strategy.clone(), workload);
        let found = run_on(&model, strategy, workload, 3 * devices as usize);
        compare(&found, &expected, 0.0, text);
    }
}

/// Saved activations as integers: what is kept shrinks, the gradient changes a little, memory is as planned.
#[test]
fn compressed_activations_train_too() {
    let workload = workload(1.0, 0.0);
    let model = models::llama();
    let exact = run(&model, strategy(&model, "micro=2", 1, &workload).unwrap(), workload);
    for (text, least, most) in [("micro=2,compress=8bit", 1e-6, 0.05), ("micro=2,compress=4bit", 1e-4, 0.8)] {
        let found = run(&model, strategy(&model, text, 1, &workload).unwrap(), workload);
        check_memory(&found, text);
        let (error, place) = difference(&found.gradients, &exact.gradients);
        assert!((least..most).contains(&error), "{text}: {place} ({error:e})");
        assert_eq!(found.losses[0], exact.losses[0], "the first forward has nothing compressed before it");
    }
}
