//! Against an independent oracle: autograd and numpy in 64 bits (`tests/oracle/`), 20 steps of AdamW.

use std::fs;
use std::path::Path;

use meshwright::execute::contents::Tensors;
use meshwright::execute::data::{DataFormat, TokenFile, Tokens};
use meshwright::execute::run::{Job, Settings};
use meshwright::execute::weights::Weights;
use meshwright::model::tensors::tensors;
use meshwright::model::{self, Model};
use meshwright::profile::engines::engine;
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::ElementType;
use serde_json::Value;

use crate::training::{Trained, train};

/// Largest difference that passes, relative to the tensor's norm.
const TOLERANCE: f64 = 1e-9;

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/oracle/golden/{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Trains the golden model under `strategy` on `devices` ranks.
fn run(golden: &Value, strategy: &str, devices: u64) -> (Model, Trained) {
    let text = match golden.get("config") {
        Some(config) => config.to_string(),
        None => golden["layer_graph"].to_string(),
    };
    let model = model::from_text(&text, "golden", "golden").unwrap();
    let given = &golden["workload"];
    let workload = Workload {
        global_batch: given["global_batch"].as_u64().unwrap(),
        seq_len: given["seq_len"].as_u64().unwrap(),
        precision: ElementType::Fp64,
        dropout: 0.0,
        clip: given["clip"].as_f64().unwrap(),
    };
    let engine = engine("embedded").unwrap();
    let draft = Draft::parse(strategy).unwrap();
    let strategy = resolve(&draft, &model, devices, &workload, engine).unwrap();
    let optimizer = &golden["optimizer"];
    let betas = numbers(&optimizer["betas"]);
    let settings = Settings {
        learning_rate: optimizer["lr"].as_f64().unwrap(),
        betas: (betas[0], betas[1]),
        epsilon: optimizer["eps"].as_f64().unwrap(),
        weight_decay: optimizer["weight_decay"].as_f64().unwrap(),
        poison: true,
        ..Settings::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens.bin");
    let ids = golden["tokens"].as_array().unwrap();
    let bytes: Vec<u8> = ids.iter().flat_map(|id| (id.as_u64().unwrap() as u16).to_le_bytes()).collect();
    fs::write(&path, bytes).unwrap();
    let tokens = Tokens::File(TokenFile::open(&path, Some(DataFormat::U16), 97).unwrap());
    let weights = Weights::random(&model, golden["seed"].as_u64().unwrap());
    let job = Job { model: model.clone(), strategy, workload, engine };
    let trained = train(job, settings, tokens, &weights, 20);
    (model, trained)
}

/// Whether `found` has the sum, norm and entries of each golden tensor.
fn compare(model: &Model, found: &Tensors, golden: &Value, which: &str) {
    let mut checked = 0;
    for (name, expected) in golden["tensors"].as_object().unwrap() {
        let parts: Vec<_> = tensors(model).into_iter().filter(|tensor| tensor.name == *name).collect();
        assert!(!parts.is_empty(), "{name} is not stored");
        let mut stored = vec![0.0; parts[0].elements() as usize];
        for part in &parts {
            let values = &found[&(part.layer, part.role)];
            for row in part.first_row..part.first_row + part.rows {
                for column in 0..part.columns {
                    stored[part.position(row, column) as usize] =
                        values[(row * part.columns + column) as usize];
                }
            }
        }
        let expected = &expected[which];
        let norm = stored.iter().map(|value| value * value).sum::<f64>().sqrt();
        let close = |found: f64, expected: f64, what: &str| {
            let scale = expected.abs().max(norm).max(1e-2);
            let difference = (found - expected).abs() / scale;
            assert!(difference < TOLERANCE, "{which} of {name}, {what}: {found} in place of {expected}");
        };
        close(norm, expected["norm"].as_f64().unwrap(), "norm");
        close(stored.iter().sum(), expected["sum"].as_f64().unwrap(), "sum");
        for entry in expected["entries"].as_array().unwrap() {
            let index = entry[0].as_u64().unwrap() as usize;
            close(stored[index], entry[1].as_f64().unwrap(), &format!("entry {index}"));
        }
        checked += 1;
    }
    assert!(checked > 5, "{checked} tensors compared");
}

fn check(name: &str, strategy: &str, devices: u64) {
    let golden = golden(name);
    let (model, trained) = run(&golden, strategy, devices);
    compare(&model, &trained.gradients, &golden, "gradient");
    for (step, (found, expected)) in trained.losses.iter().zip(numbers(&golden["losses"])).enumerate() {
        assert!(
            (found - expected).abs() < TOLERANCE,
            "loss {step} of {name}: {found} in place of {expected}"
        );
    }
    for (loss, name_of_loss) in [(0, "tokens"), (1, "auxiliary")] {
        let Some(expected) = golden["loss_parts"].get(name_of_loss).map(numbers) else { break };
        for (found, expected) in trained.parts.iter().zip(expected) {
            assert!((found[loss] - expected).abs() < TOLERANCE, "loss {name_of_loss} of {name}");
        }
    }
    for (found, expected) in trained.norms.iter().zip(numbers(&golden["gradient_norms"])) {
        assert!(
            (found - expected).abs() < TOLERANCE,
            "gradient norm of {name}: {found} in place of {expected}"
        );
    }
    compare(&model, &trained.parameters, &golden, "final");
}

#[test]
fn gpt2_on_one_rank() {
    check("gpt2", "tp=1,micro=4", 1);
}

#[test]
fn gpt2_on_eight_ranks() {
    check("gpt2", "tp=2,pp=2,dp=2,micro=1,zero=1", 8);
}

#[test]
fn llama_on_eight_ranks() {
    check("llama", "tp=2,cp=2,dp=2,micro=1,zero=3", 8);
}

#[test]
fn mixture_of_experts_on_four_ranks() {
    check("moe", "tp=2,dp=2,ep=2,micro=1,zero=2,capacity=full", 4);
}

#[test]
fn two_losses_on_two_ranks() {
    check("two_losses", "tp=1,pp=2,micro=2,zero=2", 2);
}

#[test]
fn llama_on_one_rank() {
    check("llama", "tp=1,micro=4", 1);
}

#[test]
fn mixture_of_experts_on_one_rank() {
    check("moe", "tp=1,micro=4,capacity=full", 1);
}

#[test]
fn two_losses_on_one_rank() {
    check("two_losses", "tp=1,micro=4", 1);
}

/// With several data ranks, a micro-batch is other sequences than on one: there the second golden file has no word.
#[test]
fn an_adaptive_weight_on_one_rank() {
    check("two_losses_adaptive", "tp=1,micro=4", 1);
    check("two_losses_adaptive_micro", "tp=1,micro=2,zero=2,ckpt=selective", 1);
}

#[test]
fn an_adaptive_weight_over_data_ranks() {
    check("two_losses_adaptive", "dp=4,micro=1,zero=3", 4);
    check("two_losses_adaptive", "dp=2,micro=2,zero=1,sync=immediate", 2);
    check("two_losses_adaptive", "dp=4,micro=1,zero=2,shard=2,ckpt=full", 4);
}

#[test]
fn an_adaptive_weight_over_tensor_ranks() {
    check("two_losses_adaptive", "tp=2,dp=2,micro=2,zero=3", 4);
    check("two_losses_adaptive_micro", "tp=4,micro=2,sp=off", 4);
    check("two_losses_adaptive_micro", "tp=4,micro=2,ckpt=full", 4);
}

#[test]
fn an_adaptive_weight_over_context_ranks() {
    check("two_losses_adaptive", "cp=2,dp=2,micro=2,zero=3,loss=chunked", 4);
    check("two_losses_adaptive_micro", "tp=2,cp=2,micro=2,cp_kind=ulysses,zero=1", 4);
    check("two_losses_adaptive_micro", "cp=2,micro=2,zero=3,sync=immediate", 2);
}
