//! Other types than f64: f32 and bf16 train alike, and hold what was predicted.

use half::bf16;
use meshwright::execute::data::{Synthetic, Tokens};
use meshwright::execute::element::Element;
use meshwright::execute::run::{Job, Run, Settings};
use meshwright::execute::weights::Weights;
use meshwright::profile::engines::engine;
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

use crate::models;
use crate::strategies::{check_memory, strategy, workload};
use crate::training::{Trained, train_run};

fn run<T: Element, G: Element<Wide = T::Wide>>(text: &str, devices: u64, precision: ElementType) -> Trained {
    let model = models::llama();
    let workload = Workload { precision, ..workload(1.0, 0.0) };
    let strategy = strategy(&model, text, devices, &workload).expect("a legal strategy");
    let job = Job { model: model.clone(), strategy, workload, engine: engine("embedded").unwrap() };
    let settings = Settings { learning_rate: 1e-3, poison: true, cores: 1, ..Settings::default() };
    let tokens = Tokens::Synthetic(Synthetic::new(7, 61).unwrap());
    let run = Run::new(job, settings).unwrap();
    let trained = train_run::<T, G>(run, tokens, &Weights::random(&model, 3), 8).unwrap();
    check_memory(&trained, text);
    trained
}

/// Relative distance of all gradients.
fn distance(found: &Trained, expected: &Trained) -> f64 {
    let (mut difference, mut norm) = (0.0, 0.0);
    for (parameter, values) in &expected.gradients {
        for (a, b) in values.iter().zip(&found.gradients[parameter]) {
            difference += (a - b) * (a - b);
            norm += a * a;
        }
    }
    (difference / norm).sqrt()
}

#[test]
fn single_precision_is_close_to_double() {
    let exact = run::<f64, f64>("micro=2", 1, ElementType::Fp64);
    for (text, devices) in [("micro=2", 1), ("tp=2,pp=2,dp=2,micro=1,zero=2", 8)] {
        let found = run::<f32, f32>(text, devices, ElementType::Fp32);
        assert!(distance(&found, &exact) < 1e-5, "{text}: {}", distance(&found, &exact));
        for (found, exact) in found.losses.iter().zip(&exact.losses) {
            assert!((found - exact).abs() < 1e-4, "{text}: {found} in place of {exact}");
        }
    }
}

#[test]
fn half_precision_is_near_single() {
    let single = run::<f32, f32>("micro=2", 1, ElementType::Fp32);
    let check = |found: &Trained, text: &str| {
        assert!(distance(found, &single) < 3e-2, "{text}: {}", distance(found, &single));
        for (found, single) in found.losses.iter().zip(&single.losses) {
            assert!((found - single).abs() < 0.05, "{text}: {found} in place of {single}");
        }
    };
    for (text, devices) in [("micro=2", 1), ("tp=2,dp=2,micro=1,zero=3,ckpt=full", 4)] {
        check(&run::<bf16, f32>(text, devices, ElementType::Bf16), text);
        let text = format!("{text},grad=bf16");
        check(&run::<bf16, bf16>(&text, devices, ElementType::Bf16), &text);
    }
}
