//! The CUDA device trains as the CPU does. Needs a GPU, NVRTC and cublasLt, or the stand-in of `tests/gpu` for them, so it
//! is not among the tests that `cargo test` runs by itself: `cargo test --test cuda`.

mod arena;
mod binary;
mod calibrate;
mod child;
#[path = "../sampling/dice.rs"]
mod dice;
mod faults;
#[path = "../execution/golden.rs"]
mod golden;
mod joined;
mod launched;
#[path = "../execution/models.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod models;
mod oracles;
#[path = "../cli/place.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod place;
mod plants;
mod processes;
mod products;
mod random;
#[path = "../cli/small.rs"]
mod small;
#[path = "../execution/strategies.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod strategies;
#[path = "../sampling/texts.rs"]
mod texts;
mod threads;
#[path = "../execution/training.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod training;
mod uneven;
mod whole;

use half::bf16;
use meshwright::execute::data::{Synthetic, Tokens};
use meshwright::execute::element::Element;
use meshwright::execute::error::ExecuteError;
use meshwright::execute::run::{DeviceKind, Job, Run, Settings};
use meshwright::model::Model;
use meshwright::profile::engines::engine;
use meshwright::strategy::{Strategy, Workload};
use meshwright::units::ElementType;
use strategies::{check_memory, compare, difference, strategy};
use training::{Manner, Trained, train_in};
use uneven::uneven;

const STEPS: u64 = 2;
/// What f32 may differ by in sums of other orders, relative to the layer's largest norm.
const TOLERANCE: f64 = 2e-4;
const BF16_TOLERANCE: f64 = 2e-2;

fn workload(dropout: f64) -> Workload {
    Workload { global_batch: 8, seq_len: 16, precision: ElementType::Fp32, dropout, clip: 1.0 }
}

/// Trains `model` in `T` with gradients in `G`.
fn trained<T: Element, G: Element<Wide = T::Wide>>(
    model: &Model,
    strategy: Strategy,
    workload: Workload,
    device: DeviceKind,
    steps: u64,
) -> Result<Trained, ExecuteError> {
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
    trained_in::<T, G>(Manner::default(), job, Settings { device, ..settings() }, steps)
}

fn settings() -> Settings {
    Settings { learning_rate: 1e-2, poison: true, cores: 1, ..Settings::default() }
}

/// Trains `job` in this manner.
fn trained_in<T: Element, G: Element<Wide = T::Wide>>(
    manner: Manner<'_>,
    job: Job,
    settings: Settings,
    steps: u64,
) -> Result<Trained, ExecuteError> {
    let model = job.model.clone();
    let vocabulary = if model.name == "golden" { 97 } else { 61 };
    let tokens = Tokens::Synthetic(Synthetic::new(7, vocabulary).unwrap());
    let trained = train_in::<T, G>(manner, Run::new(job, settings)?, tokens, &uneven(&model), steps)?;
    trained.fleet.check()?;
    Ok(trained)
}

/// Trains `model` under `text` on cores and on one GPU.
fn check(model: &Model, text: &str, devices: u64, dropout: f64) {
    check_on(DeviceKind::SharedCuda, model, text, devices, dropout);
}

/// Trains `model` under `text` on cores and on `device`.
fn check_on(device: DeviceKind, model: &Model, text: &str, devices: u64, dropout: f64) {
    check_workload_on(device, model, text, devices, workload(dropout));
}

fn check_workload_on(device: DeviceKind, model: &Model, text: &str, devices: u64, workload: Workload) {
    let strategy = strategy(model, text, devices, &workload).unwrap_or_else(|| panic!("{text} is legal"));
    let [expected, found] = [DeviceKind::Cpu, device].map(|device| {
        trained::<f32, f32>(model, strategy.clone(), workload, device, STEPS)
            .unwrap_or_else(|error| panic!("{text} on {device:?}: {error}"))
    });
    assert!(found.fleet.gpu().is_some() && expected.fleet.gpu().is_none(), "{text}: each on its device");
    compare(&found, &expected, TOLERANCE, text);
    check_memory(&found, text);
}

/// The same in bf16, whose gradients differ by the roundings of another order of sums.
fn check_bf16(model: &Model, text: &str, devices: u64) {
    check_bf16_on(DeviceKind::SharedCuda, model, text, devices);
}

fn check_bf16_on(device: DeviceKind, model: &Model, text: &str, devices: u64) {
    let workload = Workload { precision: ElementType::Bf16, ..workload(0.0) };
    let strategy = strategy(model, text, devices, &workload).unwrap_or_else(|| panic!("{text} is legal"));
    let [expected, found] = [DeviceKind::Cpu, device].map(|device| {
        trained::<bf16, f32>(model, strategy.clone(), workload, device, STEPS)
            .unwrap_or_else(|error| panic!("{text} on {device:?}: {error}"))
    });
    let (error, place) = difference(&found.gradients, &expected.gradients);
    assert!(error <= BF16_TOLERANCE, "{text}: gradient {place} ({error:e})");
    for (found, expected) in found.losses.iter().zip(&expected.losses) {
        assert!((found - expected).abs() <= BF16_TOLERANCE * expected, "{text}: {found}, not {expected}");
    }
    check_memory(&found, text);
}

#[test]
fn bf16_on_one_rank_and_on_several() {
    check_bf16(&models::gpt2(), "tp=1,micro=4", 1);
    check_bf16(&models::llama(), "tp=2,micro=2,zero=1", 4);
    check_bf16(&models::llama(), "tp=1,pp=2,micro=2,zero=3,offload=optimizer:1", 4);
}

/// Then the host's update comes in the stream of the kernels, and cores do it all the same.
#[test]
fn offload_without_overlap() {
    check(&models::gpt2(), "tp=1,micro=8,offload=optimizer:1,overlap=off", 1, 0.0);
    check(&models::llama(), "tp=1,micro=2,zero=2,offload=optimizer:0.5,overlap=off", 2, 0.0);
    check_bf16(&models::gpt2(), "tp=1,micro=4,zero=3,offload=optimizer:1+params:0.5,overlap=off", 2);
}

#[test]
fn gpt2_on_one_rank() {
    check(&models::gpt2(), "tp=1,micro=8", 1, 0.0);
}

#[test]
fn llama_on_one_rank() {
    check(&models::llama(), "tp=1,micro=4", 1, 0.0);
}

#[test]
fn mixtral_on_one_rank() {
    check(&models::mixtral(), "tp=1,micro=8,capacity=full", 1, 0.0);
}

#[test]
fn two_losses_on_one_rank() {
    check(&models::two_losses(), "tp=1,micro=8", 1, 0.0);
}

#[test]
fn dropout_drops_the_same() {
    check(&models::gpt2(), "tp=1,micro=4", 1, 0.2);
}

/// Scores and probabilities are tensors: with dropout, heads that share keys, a soft cap, a window, linear biases.
#[test]
fn attention_that_keeps_its_probabilities() {
    check(&models::gpt2(), "tp=1,micro=4,attention=materialised", 1, 0.2);
    check(&models::llama(), "tp=2,cp=2,cp_kind=ulysses,micro=4,attention=materialised", 4, 0.0);
    check(&models::capped(), "tp=1,micro=4,attention=materialised", 1, 0.0);
    check(&models::bloom(), "tp=2,micro=2,attention=materialised", 2, 0.0);
    check_bf16(&models::llama(), "tp=1,micro=4,attention=materialised", 1);
}

#[test]
fn fused_attention_with_features() {
    check(&models::capped(), "tp=1,micro=4", 1, 0.0);
    check(&models::bloom(), "tp=2,micro=2", 2, 0.2);
}
