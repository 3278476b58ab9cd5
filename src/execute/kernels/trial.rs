//! What tests of kernels share: random values, comparisons, and gradients by finite differences.

use std::sync::OnceLock;

use crate::execute::element::{Element, Real};

/// Two threads, made once.
pub fn threads() -> &'static rayon::ThreadPool {
    static POOL: OnceLock<rayon::ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("two threads"))
}

/// `count` values in −1 … 1, the same for the same `seed`.
pub fn random<T: Element>(count: usize, seed: u64) -> Vec<T> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        T::narrow(T::Wide::of((state >> 33) as f64 / f64::from(1u32 << 30) - 1.0))
    };
    (0..count + 4).map(|_| next()).skip(4).collect()
}

/// Fails unless all `found` are within `tolerance` of `expected`, relative to values above 1.
#[track_caller]
pub fn close<A: Element, B: Element>(found: &[A], expected: &[B], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let (found, expected) = (found.wide().to_f64(), expected.wide().to_f64());
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error <= tolerance, "element {at}: {found} in place of {expected}");
    }
}

/// The gradient of `loss` at `x`, by central differences.
pub fn gradient(x: &[f64], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let at = |index: usize, step: f64| {
        let mut moved = x.to_vec();
        moved[index] += step;
        loss(&moved)
    };
    (0..x.len()).map(|index| (at(index, STEP) - at(index, -STEP)) / (2.0 * STEP)).collect()
}

/// Σ aᵢ bᵢ, a loss whose gradient with respect to a is b.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
