//! Against an independent oracle: autograd and numpy in 64 bits (`tests/oracle/`), 20 steps of AdamW. On any device, in any
//! precision.

use std::fs;
use std::path::Path;

use half::bf16;
use meshwright::execute::contents::Tensors;
use meshwright::execute::data::{DataFormat, TokenFile, Tokens};
use meshwright::execute::run::{DeviceKind, Job, Run, Settings};
use meshwright::execute::weights::Weights;
use meshwright::model::tensors::tensors;
use meshwright::model::{self, Model};
use meshwright::profile::engines::engine;
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::ElementType;
use serde_json::Value;

use crate::training::{Trained, train_run};

/// What trains, and how near it must come.
#[derive(Clone, Copy)]
pub struct Oracle {
    pub device: DeviceKind,
    pub precision: ElementType,
    /// Of losses and norms, and of gradients relative to their tensors' norms.
    pub tolerance: f64,
    /// Of parameters after 20 steps of AdamW, which divides small gradients by their own size.
    pub last_tolerance: f64,
    pub steps: u64,
}

fn golden(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/oracle/golden/{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Trains the golden model under `strategy` on `devices` ranks.
fn run(golden: &Value, strategy: &str, devices: u64, oracle: Oracle) -> (Model, Trained) {
    let text = match golden.get("config") {
        Some(config) => config.to_string(),
        None => golden["layer_graph"].to_string(),
    };
    let model = model::from_text(&text, "golden", "golden").unwrap();
    let given = &golden["workload"];
    let workload = Workload {
        global_batch: given["global_batch"].as_u64().unwrap(),
        seq_len: given["seq_len"].as_u64().unwrap(),
        precision: oracle.precision,
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
        device: oracle.device,
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
    let run = Run::new(job, settings).unwrap();
    let trained = match oracle.precision {
        ElementType::Fp64 => train_run::<f64, f64>(run, tokens, &weights, oracle.steps),
        ElementType::Bf16 => train_run::<bf16, f32>(run, tokens, &weights, oracle.steps),
        _ => train_run::<f32, f32>(run, tokens, &weights, oracle.steps),
    };
    (model, trained.unwrap_or_else(|error| panic!("{error}")))
}

/// Whether `found` has the sum, norm and entries of each golden tensor.
fn compare(model: &Model, found: &Tensors, golden: &Value, which: &str, tolerance: f64) {
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
            assert!(difference < tolerance, "{which} of {name}, {what}: {found} in place of {expected}");
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

/// Trains the golden model `name` under `strategy` and compares all that the oracle tells.
pub fn check(name: &str, strategy: &str, devices: u64, oracle: Oracle) {
    let golden = golden(name);
    let (model, trained) = run(&golden, strategy, devices, oracle);
    compare(&model, &trained.gradients, &golden, "gradient", oracle.tolerance);
    let near = |found: f64, expected: f64, what: &str| {
        let is_near = (found - expected).abs() < oracle.tolerance;
        assert!(is_near, "{what} of {name}: {found} in place of {expected}");
    };
    for (step, (found, expected)) in trained.losses.iter().zip(numbers(&golden["losses"])).enumerate() {
        near(*found, expected, &format!("loss {step}"));
    }
    for (loss, name_of_loss) in [(0, "tokens"), (1, "auxiliary")] {
        let Some(expected) = golden["loss_parts"].get(name_of_loss).map(numbers) else { break };
        for (found, expected) in trained.parts.iter().zip(expected) {
            near(found[loss], expected, &format!("loss {name_of_loss}"));
        }
    }
    for (found, expected) in trained.norms.iter().zip(numbers(&golden["gradient_norms"])) {
        near(*found, expected, "gradient norm");
    }
    if oracle.steps == golden["losses"].as_array().unwrap().len() as u64 {
        compare(&model, &trained.parameters, &golden, "final", oracle.last_tolerance);
    }
}
