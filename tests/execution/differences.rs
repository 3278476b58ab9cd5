//! Gradients are slopes: a small step along the gradient changes the loss by the square of its norm.

use std::fs;

use meshwright::execute::data::{DataFormat, TokenFile, Tokens};
use meshwright::execute::run::{Job, Settings};
use meshwright::execute::weights::Weights;
use meshwright::model::Model;
use meshwright::model::layer::LayerKind;
use meshwright::profile::engines::engine;
use serde_json::json;

use crate::models;
use crate::strategies::{Dice, strategy, workload};
use crate::training::{Trained, train};

/// How far a step goes, over the gradient.
const STEP: f64 = 1e-5;
/// So large that AdamW's first step is plain gradient descent: lr · g / (|g| + ε).
const EPSILON: f64 = 1e9;

/// Two steps on the same batch, of which the first goes `step` times the gradient.
fn descend(model: &Model, text: &str, devices: u64, step: f64) -> Trained {
    let workload = workload(0.0, 0.0);
    let mut dice = Dice::new(5);
    let count = workload.global_batch * workload.seq_len;
    let batch: Vec<u16> = (0..count).map(|_| (dice.next() % 61) as u16).collect();
    let ids = batch.iter().chain(&batch).chain(&batch[..1]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.bin");
    fs::write(&path, ids.flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    let tokens = Tokens::File(TokenFile::open(&path, Some(DataFormat::U16), 61).unwrap());
    let strategy = strategy(model, text, devices, &workload).unwrap();
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
    let settings = Settings {
        learning_rate: step * EPSILON,
        epsilon: EPSILON,
        weight_decay: 0.0,
        cores: 1,
        ..Settings::default()
    };
    train(job, settings, tokens, &Weights::random(model, 3), 2)
}

fn check(model: &Model, text: &str, devices: u64) {
    let [down, up] = [STEP, -STEP].map(|step| descend(model, text, devices, step));
    assert_eq!(down.losses[0], up.losses[0], "{text}: the same weights and tokens");
    let slope = (up.losses[1] - down.losses[1]) / (2.0 * STEP);
    let squares: f64 = down.gradients.values().flatten().map(|value| value * value).sum();
    let error = (slope - squares).abs() / squares;
    assert!(squares > 0.0 && error < 1e-6, "{text}: {slope} in place of {squares} ({error:e})");
}

#[test]
fn gradients_are_slopes() {
    check(&models::gpt2(), "micro=2", 1);
    check(&models::llama(), "micro=4", 1);
    let mut mixtral = models::mixtral();
    check(&mixtral, "micro=4,capacity=full", 1);
    // Experts as wide inside as the model.
    for layer in mixtral.graph.node_weights_mut() {
        if let LayerKind::Moe(experts) = &mut layer.kind {
            experts.intermediate = experts.hidden;
        }
    }
    check(&mixtral, "micro=4,capacity=full", 1);
}

/// Each kind of loss by itself, and together.
#[test]
fn gradients_of_each_loss_are_slopes() {
    for weights in [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.7, 0.5, 0.3]] {
        let names = ["tokens", "auxiliary", "features"];
        let losses: Vec<_> = names.into_iter().zip(weights.map(|weight| json!(weight))).collect();
        for (text, devices) in [("micro=4", 1), ("tp=2,micro=2", 2), ("dp=2,micro=2,zero=2", 2)] {
            check(&models::adaptive(&losses, false), text, devices);
        }
    }
}
