//! Every strategy trains as one rank does, and holds what was predicted, to the byte.

use std::collections::HashMap;

use meshwright::execute::contents::Tensors;
use meshwright::execute::data::{Synthetic, Tokens};
use meshwright::execute::pool::Pool;
use meshwright::execute::run::{Job, Settings};
use meshwright::execute::weights::Weights;
use meshwright::lower::{Category, Stream};
use meshwright::model::Model;
use meshwright::model::layer::LayerKind;
use meshwright::model::parameters::parameters;
use meshwright::profile::engines::engine;
use meshwright::program::build;
use meshwright::program::instruction::Task;
use meshwright::program::placing::{Extent, Space, place};
use meshwright::simulate::memory;
use meshwright::strategy::{Draft, Strategy, Workload, resolve};
use meshwright::units::ElementType;

use crate::models;
use crate::training::{Trained, train};

/// What sums in another order may differ by, relative to the layer's largest norm.
pub const TOLERANCE: f64 = 1e-11;
pub const STEPS: u64 = 2;

/// A small deterministic generator (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
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
    let vocabulary = if model.name == "golden" { 97 } else { 61 };
    let tokens = Tokens::Synthetic(Synthetic::new(7, vocabulary).unwrap());
    run_with(model, strategy, workload, cores, tokens)
}

/// Trains `model` under `strategy` on `tokens`.
pub fn run_with(
    model: &Model,
    strategy: Strategy,
    workload: Workload,
    cores: usize,
    tokens: Tokens,
) -> Trained {
    let settings = Settings { learning_rate: 1e-2, poison: true, cores, ..Settings::default() };
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
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

pub fn compare(found: &Trained, expected: &Trained, tolerance: f64, case: &str) {
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
        let (counted, on_host) = rank.counted();
        assert_eq!(counted.peak(), predicted.total, "{case}: rank {}", rank.index);
        for (category, bytes) in Category::ALL.into_iter().zip(predicted.categories) {
            assert_eq!(
                counted.at_peak[category as usize], bytes,
                "{case}: rank {}, {category:?}",
                rank.index
            );
        }
        assert_eq!(on_host.peak(), predicted.host, "{case}: rank {}, host", rank.index);
        let state: u64 =
            rank.placement.placing.host.kept.iter().map(|kept| kept.bytes.next_multiple_of(64) as u64).sum();
        assert_eq!(on_host.live.iter().map(|bytes| bytes.0).sum::<u64>(), state, "{case}: host memory leaks");
        let placing = &rank.placement.placing;
        assert_eq!((placing.device.live, placing.host.live), (predicted.total, predicted.host), "{case}");
    }
}

/// What a random strategy is drawn for.
#[derive(Clone, Copy)]
pub struct Draw {
    pub is_moe: bool,
    pub blocks: u64,
    pub most_stages: u64,
}

impl Draw {
    pub fn of(model: &Model) -> Self {
        let blocks = model.layers().filter_map(|layer| layer.block).max().map_or(0, |last| last + 1);
        let is_moe = model.layers().any(|layer| matches!(layer.kind, LayerKind::Moe(_)));
        Self { is_moe, blocks: u64::from(blocks), most_stages: 4 }
    }
}

/// A random strategy text for `devices` ranks; many are illegal.
pub fn random_text(dice: &mut Dice, devices: u64, draw: Draw) -> String {
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
    let (tp, pp, cp) = (
        part(dice, &[1, 1, 2, 4]),
        part(dice, &[1, 1, 2, 4].map(|stages: u64| stages.min(draw.most_stages))),
        part(dice, &[1, 1, 1, 2]),
    );
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
    if draw.is_moe {
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
    if pp > 1 && dice.next().is_multiple_of(2) {
        let chunks = if keys.iter().any(|key| key.ends_with("virtual=2")) { 2 * pp } else { pp };
        keys.push(format!("cuts={}", random_cuts(dice, draw.blocks, chunks)));
    }
    keys.join(",")
}

/// `blocks` blocks over `chunks` chunks, some of which may have none.
fn random_cuts(dice: &mut Dice, blocks: u64, chunks: u64) -> String {
    let mut cuts = vec![0; chunks as usize];
    for _ in 0..blocks {
        cuts[(dice.next() % chunks) as usize] += 1;
    }
    cuts.iter().map(u64::to_string).collect::<Vec<_>>().join("/")
}

/// Random legal strategies of `model` on up to eight ranks, against one rank.
fn check_random(model: &Model, dropout: f64, seed: u64, count: usize) {
    let workload = workload(1.0, dropout);
    let draw = Draw::of(model);
    let single = if draw.is_moe { "tp=1,micro=8,capacity=full" } else { "tp=1,micro=8" };
    let reference = run(model, strategy(model, single, 1, &workload).unwrap(), workload);
    let mut dice = Dice(seed);
    let (mut checked, mut tried) = (0, 0);
    while checked < count {
        tried += 1;
        assert!(tried < 100 * count, "only {checked} legal strategies in {tried}");
        let devices = dice.pick(&[1, 2, 2, 4, 4, 8]);
        let text = random_text(&mut dice, devices, draw);
        let Some(strategy) = strategy(model, &text, devices, &workload) else { continue };
        let case = format!("{text} on {devices}");
        if std::env::var_os("MESHWRIGHT_SHOW").is_some() {
            eprintln!("{case}");
        }
        let trained = run(model, strategy, workload);
        compare(&trained, &reference, TOLERANCE, &case);
        check_memory(&trained, &case);
        check_order(&trained, &case);
        checked += 1;
    }
}

/// Whether, in the last step, no instruction began before all that its program makes it wait for had ended, and no
/// message was received before it was sent.
fn check_order(trained: &Trained, case: &str) {
    let mut sent = HashMap::new();
    let mut received = Vec::new();
    for rank in &trained.fleet.ranks {
        let placement = &rank.placement;
        let spans = Stream::ALL.map(|stream| trained.fleet.spans(rank.index, stream));
        for (stream, (issues, own)) in placement.streams.iter().zip(&spans).enumerate() {
            for (position, (&issue, span)) in issues.iter().zip(own).enumerate() {
                let issue = &placement.issues[issue as usize];
                let told = || format!("{case}: rank {}, {:?} of call {}", rank.index, issue.task, issue.call);
                assert!(span.start <= span.end && span.end > 0.0, "{}", told());
                assert!(position == 0 || own[position - 1].end <= span.start, "{}", told());
                for (&count, others) in issue.waits.iter().zip(&spans).filter(|(count, _)| **count > 0) {
                    assert!(others[count as usize - 1].end <= span.start, "{} on {stream}", told());
                }
                let Some(message) = issue.message else { continue };
                if issue.task == Task::Send {
                    let to = trained.fleet.run.stage_of_chunk(message.to);
                    let peer = trained.fleet.run.rank_at_stage(rank.index, to);
                    sent.insert((peer, message, issue.micro), span.start);
                } else {
                    received.push((rank.index, message, issue.micro, span.end));
                }
            }
        }
    }
    for (rank, message, micro, end) in received {
        let start = sent[&(rank, message, micro)];
        assert!(start <= end, "{case}: rank {rank} has {message:?} of {micro} at {end}, sent at {start}");
    }
}

/// Arenas of the strategies above are hardly larger than what they hold.
#[test]
fn extents_are_near_what_is_held() {
    let models = [models::gpt2(), models::llama(), models::mixtral(), models::two_losses()];
    let mut ratios = Vec::new();
    for (seed, model) in (1..).zip(&models) {
        let (workload, draw) = (workload(1.0, 0.0), Draw::of(model));
        let mut dice = Dice(seed);
        let mut checked = 0;
        while checked < 60 {
            let devices = dice.pick(&[1, 2, 2, 4, 4, 8]);
            let text = random_text(&mut dice, devices, draw);
            let Some(strategy) = strategy(model, &text, devices, &workload) else { continue };
            let program = build(model, &strategy, &workload, engine("embedded").unwrap());
            for rank in &program.ranks {
                let Space { live, extent, .. } = place(rank, Extent::default()).device;
                assert!(live <= extent, "{text}");
                let case = format!("{text} on {devices}, stage {}: {extent} for {live}", rank.stage);
                ratios.push((extent.0 as f64 / live.0 as f64, case));
            }
            checked += 1;
        }
    }
    ratios.sort_by(|one, other| one.0.total_cmp(&other.0));
    let at = |share: usize| ratios[(ratios.len() - 1) * share / 100].0;
    let over: Vec<_> = ratios.iter().filter(|(ratio, _)| *ratio > 1.01).collect();
    eprintln!("{} arenas: median {}, 99 % {}, over {over:#?}", ratios.len(), at(50), at(99));
    assert!(at(50) <= 1.002 && at(99) <= 1.01, "median {}, 99 % {}: {over:#?}", at(50), at(99));
}

#[test]
fn gpt2_under_random_strategies() {
    check_random(&models::gpt2(), 0.0, 1, 60);
}

#[test]
fn llama_under_random_strategies() {
    check_random(&models::llama(), 0.0, 2, 60);
}

#[test]
fn mixtral_under_random_strategies() {
    check_random(&models::mixtral(), 0.0, 3, 60);
}

#[test]
fn two_losses_under_random_strategies() {
    check_random(&models::two_losses(), 0.0, 4, 40);
}

/// Masks are drawn for global elements: every strategy drops the same.
#[test]
fn dropout_is_the_same_under_random_strategies() {
    check_random(&models::gpt2(), 0.2, 5, 20);
    check_random(&models::mixtral(), 0.2, 6, 10);
}

/// Frozen layers keep their weights, trained ones have the gradients that they have when all are trained, and every
/// strategy agrees.
#[test]
fn frozen_layers_under_random_strategies() {
    let mut dice = Dice(8);
    for model in [models::gpt2(), models::llama(), models::mixtral(), models::two_losses()] {
        let workload = workload(1.0, 0.0);
        let text = if Draw::of(&model).is_moe { "tp=1,micro=8,capacity=full" } else { "tp=1,micro=8" };
        let train = |model: &Model| run(model, strategy(model, text, 1, &workload).unwrap(), workload);
        let whole = train(&model);
        let last = model.graph.node_count() - 1;
        for turn in 0..4 {
            let mut model = model.clone();
            for (index, layer) in model.graph.node_weights_mut().enumerate() {
                layer.frozen = match turn {
                    0 => index < 4,
                    1 => (2..last).contains(&index),
                    _ => dice.next().is_multiple_of(2),
                };
            }
            let frozen = train(&model);
            let layers: Vec<_> = model.layers().collect();
            for ((layer, role), gradient) in &frozen.gradients {
                assert!(!layers[*layer].frozen, "{layer} {role} is frozen");
                let both = gradient.iter().zip(&whole.gradients[&(*layer, *role)]);
                let worst = both.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(worst < TOLERANCE, "turn {turn}: {layer} {role} ({worst:e})");
            }
            let start = Weights::random(&model, 3);
            for (layer, kind) in layers.iter().enumerate().filter(|(_, layer)| layer.frozen) {
                for tensor in parameters(&kind.kind) {
                    let mut first = vec![0.0; tensor.elements() as usize];
                    let (rows, columns) = (0..tensor.rows, 0..tensor.columns);
                    start.read(layer, tensor.role, rows, columns, &mut first, Pool::Serial);
                    assert_eq!(frozen.parameters[&(layer, tensor.role)], first, "{} {}", layer, tensor.role);
                }
            }
            check_random(&model, 0.0, 9 + turn, 10);
        }
    }
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
