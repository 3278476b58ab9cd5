//! Strategies to try, drawn at random, and comparisons of what two runs gave.

use std::collections::HashMap;

use meshwright::execute::contents::Tensors;
use meshwright::lower::Category;
use meshwright::model::Model;
use meshwright::profile::engines::engine;
use meshwright::simulate::memory;
use meshwright::strategy::{Draft, Strategy, Workload, resolve};
use meshwright::units::ElementType;

pub use crate::dice::Dice;
pub use crate::texts::{Draw, random_text};
use crate::training::Trained;

pub fn workload(clip: f64, dropout: f64) -> Workload {
    Workload { global_batch: 8, seq_len: 16, precision: ElementType::Fp64, dropout, clip }
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
    for (step, (found, expected)) in found.norms.iter().zip(&expected.norms).enumerate() {
        assert!(
            (found - expected).abs() <= tolerance * expected,
            "{case}: norm {step}: {found}, not {expected}"
        );
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
