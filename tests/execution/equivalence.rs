//! Every strategy trains as one rank does, and holds what was predicted, to the byte.

use std::collections::HashMap;

use meshwright::execute::data::{Synthetic, Tokens};
use meshwright::execute::pool::Pool;
use meshwright::execute::run::{Job, Settings};
use meshwright::execute::weights::Weights;
use meshwright::lower::Stream;
use meshwright::model::Model;
use meshwright::model::parameters::parameters;
use meshwright::profile::engines::engine;
use meshwright::program::build;
use meshwright::program::instruction::Task;
use meshwright::program::placing::{Extent, Space, place};
use meshwright::strategy::{Strategy, Workload};

use crate::models;
use crate::strategies::{Dice, Draw, check_memory, compare, difference, random_text, strategy, workload};
use crate::training::{Trained, train};

/// What sums in another order may differ by, relative to the layer's largest norm.
pub const TOLERANCE: f64 = 1e-11;
pub const STEPS: u64 = 2;

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

/// Random legal strategies of `model` on up to eight ranks, against one rank.
fn check_random(model: &Model, dropout: f64, seed: u64, count: usize) {
    let workload = workload(1.0, dropout);
    let draw = Draw::of(model);
    let single = if draw.is_moe { "tp=1,micro=8,capacity=full" } else { "tp=1,micro=8" };
    let reference = run(model, strategy(model, single, 1, &workload).unwrap(), workload);
    let mut dice = Dice::new(seed);
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
        let mut dice = Dice::new(seed);
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

/// Soft caps, windows and linear biases, in both kinds of attention.
#[test]
fn features_of_attention_under_random_strategies() {
    check_random(&models::capped(), 0.0, 7, 12);
    check_random(&models::bloom(), 0.2, 8, 12);
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
    let mut dice = Dice::new(8);
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
