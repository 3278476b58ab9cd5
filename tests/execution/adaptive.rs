//! Adaptive loss weights under every strategy: the weight of a micro-batch is one number for all ranks.

use std::collections::HashMap;
use std::fs;

use meshwright::execute::data::{DataFormat, TokenFile, Tokens};
use meshwright::execute::error::ExecuteError;
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::model::Model;
use meshwright::profile::engines::engine;
use meshwright::strategy::Workload;
use serde_json::{Value, json};

use crate::equivalence::{STEPS, TOLERANCE, run_with};
use crate::models;
use crate::strategies::{Dice, Draw, check_memory, compare, random_text, strategy, workload};

fn adaptive(of: &str, at: &str) -> Value {
    json!({"adaptive": {"of": of, "at": at}})
}

/// Tokens whose windows may change places: each starts with the same id, which the window before it predicts last.
/// Sequences of a step stand so that one rank's micro-batches, of `micro` sequences for each of `ranks` data ranks,
/// have the sequences that those of `ranks` ranks have together.
fn tokens(workload: &Workload, ranks: u64, micro: u64) -> Tokens {
    let (batch, length) = (workload.global_batch, workload.seq_len);
    let window = |index: u64| {
        let mut dice = Dice::new(1000 + index);
        let rest = (1..length).map(move |_| (dice.next() % 97) as u16);
        std::iter::once(5).chain(rest)
    };
    let mut ids: Vec<u16> = Vec::new();
    for step in 0..STEPS {
        for first in (0..batch / ranks).step_by(micro as usize) {
            for rank in 0..ranks {
                for sequence in 0..micro {
                    ids.extend(window(step * batch + rank * batch / ranks + first + sequence));
                }
            }
        }
    }
    ids.push(5);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.bin");
    fs::write(&path, ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    Tokens::File(TokenFile::open(&path, Some(DataFormat::U16), 97).unwrap())
}

fn check(model: &Model, seed: u64, count: usize) {
    let workload = workload(1.0, 0.0);
    let draw = Draw { most_stages: 1, ..Draw::of(model) };
    let capacity = if draw.is_moe { ",capacity=full" } else { "" };
    let mut references = HashMap::new();
    let mut dice = Dice::new(seed);
    let (mut checked, mut tried) = (0, 0);
    while checked < count {
        tried += 1;
        assert!(tried < 100 * count, "only {checked} legal strategies in {tried}");
        let devices = dice.pick(&[1, 2, 2, 4, 4, 8]);
        let text = random_text(&mut dice, devices, draw);
        let Some(legal) = strategy(model, &text, devices, &workload) else { continue };
        let (data, micro) = (legal.data, legal.micro_batch);
        let reference = references.entry((data, micro)).or_insert_with(|| {
            let single = format!("tp=1,micro={}{capacity}", data * micro);
            let single = strategy(model, &single, 1, &workload).unwrap();
            run_with(model, single, workload, 1, tokens(&workload, data, micro))
        });
        let case = format!("{text} on {devices}");
        if std::env::var_os("MESHWRIGHT_SHOW").is_some() {
            eprintln!("{case}");
        }
        let trained = run_with(model, legal, workload, 1, tokens(&workload, 1, 1));
        compare(&trained, reference, TOLERANCE, &case);
        check_memory(&trained, &case);
        checked += 1;
    }
}

#[test]
fn an_adaptive_weight_under_random_strategies() {
    let losses = [("tokens", json!(0.7)), ("auxiliary", adaptive("tokens", "block 1 mlp"))];
    check(&models::adaptive(&losses, false), 20, 40);
}

/// Deep in the trunk, of a loss that counts nothing itself, of one that is adaptive too; a tied head whose table
/// waits for its weight; and an order that is not the listed one.
#[test]
fn adaptive_weights_that_need_one_another() {
    let losses = [
        ("tokens", adaptive("auxiliary", "block 0 attention")),
        ("auxiliary", json!(0.0)),
        ("features", adaptive("tokens", "block 1 attention")),
    ];
    let mut model = models::adaptive(&losses, false);
    check(&model, 21, 40);
    // A frozen table has no gradient, whoever uses it.
    model.graph.node_weights_mut().take(2).for_each(|layer| layer.frozen = layer.block.is_none());
    check(&model, 23, 15);
}

/// Experts are summed and counted over groups of their own.
#[test]
fn an_adaptive_weight_at_experts() {
    let losses = [("tokens", json!(1.0)), ("auxiliary", adaptive("tokens", "block 1 mlp"))];
    check(&models::adaptive(&losses, true), 22, 30);
}

/// A loss may look at its own gradient; one at a layer that the loss does not read, at a shared table or in a circle
/// is refused.
#[test]
fn what_an_adaptive_weight_may_look_at() {
    let workload = workload(1.0, 0.0);
    let run = |losses: &[(&str, Value)]| {
        let model = models::adaptive(losses, false);
        let strategy = strategy(&model, "tp=1,micro=8", 1, &workload).unwrap();
        let job = Job { model, strategy, workload, engine: engine("embedded").unwrap() };
        match Run::new(job, Settings::default()) {
            Ok(_) => None,
            Err(ExecuteError::Unsupported(what)) => Some(what),
            Err(error) => panic!("{error}"),
        }
    };
    let of_tokens = |at: &str| run(&[("tokens", json!(1)), ("auxiliary", adaptive("tokens", at))]);
    assert_eq!(of_tokens("block 0 mlp"), None);
    let other = "an adaptive weight at `auxiliary head`, which the loss `tokens` does not read";
    assert_eq!(of_tokens("auxiliary head").as_deref(), Some(other));
    let shared = "an adaptive weight at `embedding`, whose table a head shares";
    assert_eq!(of_tokens("embedding").as_deref(), Some(shared));
    let own = [("tokens", adaptive("tokens", "block 0 mlp")), ("auxiliary", json!(1))];
    assert_eq!(run(&own), None);
    let circle =
        [("tokens", adaptive("auxiliary", "block 0 mlp")), ("auxiliary", adaptive("tokens", "block 0 mlp"))];
    let reason = "adaptive weights that look at one another's losses in a circle";
    assert_eq!(run(&circle).as_deref(), Some(reason));
}
