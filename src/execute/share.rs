//! What each rank gives to the result of a step, and what comes of it: the same sums, in the order of ranks, wherever ranks
//! are.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::execute::device::Readiness;
use crate::execute::kernels::gradient_norm::SquareSum;
use crate::execute::run::{Run, Weighing};
use crate::program::scalars::Scalar;

/// What one rank has after a step. Numbers are bits: they may be none that text has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Share {
    /// Of the gradients of all ranks.
    pub squares: [u64; 4],
    /// By loss and micro-batch, the sum over this rank's targets and the weight.
    pub losses: Vec<[u64; 2]>,
    pub seconds: f64,
    pub is_asked_to_end: bool,
    /// So that all ranks know alike whether their devices do the next step as one.
    pub ready: Readiness,
}

impl Share {
    /// Of a rank of `run` whose step began at `begin` and that holds what `of` says; whether it is asked to end, and how ready
    /// its process is.
    pub fn new(
        run: &Run,
        begin: Instant,
        (is_asked_to_end, ready): (bool, Readiness),
        of: impl Fn(Scalar) -> Vec<f64>,
    ) -> Self {
        let losses = 0..run.weighings.len() as u8;
        let micros = 0..run.strategy.accumulation as u32;
        let places = losses.flat_map(|loss| micros.clone().map(move |micro| (loss, micro)));
        let weight = |loss: u8, micro| match run.weighings[usize::from(loss)] {
            Weighing::Fixed(_) => 0.0,
            Weighing::Adaptive { .. } => of(Scalar::Weight { loss, micro })[0],
        };
        let pairs = places.map(|(loss, micro)| [of(Scalar::Loss { loss, micro })[0], weight(loss, micro)]);
        let losses = pairs.map(|pair| pair.map(f64::to_bits)).collect();
        let squares = SquareSum::of(&of(Scalar::Squares)).0.map(f64::to_bits);
        Self { squares, losses, seconds: begin.elapsed().as_secs_f64(), is_asked_to_end, ready }
    }
}

/// What a step gave.
pub(super) struct Sums {
    pub loss: f64,
    pub parts: Vec<f64>,
    pub gradient_norm: f64,
    pub seconds: f64,
    pub is_asked_to_end: bool,
    /// Of the least ready rank.
    pub ready: Readiness,
}

impl Sums {
    /// Of `shares`, those of all ranks of `run` that are looked at.
    pub fn of(run: &Run, shares: &[Share]) -> Self {
        let mut parts = vec![0.0; run.weighings.len()];
        let (mut squares, mut adaptive) = (0.0, 0.0);
        let micros = run.strategy.accumulation as usize;
        for share in shares {
            squares = SquareSum(share.squares.map(f64::from_bits)).total();
            let by_loss = share.losses.chunks(micros.max(1));
            for ((losses, sum), weighing) in by_loss.zip(&mut parts).zip(&run.weighings) {
                for [part, weight] in losses.iter().map(|pair| pair.map(f64::from_bits)) {
                    *sum += part;
                    if let Weighing::Adaptive { .. } = weighing {
                        adaptive += part * weight;
                    }
                }
            }
        }
        let tokens = run.workload.tokens() as f64;
        parts.iter_mut().for_each(|part| *part /= tokens);
        let fixed = run.weighings.iter().zip(&parts).map(|(weighing, part)| match weighing {
            Weighing::Fixed(weight) => weight * part,
            Weighing::Adaptive { .. } => 0.0,
        });
        Self {
            loss: fixed.sum::<f64>() + adaptive / tokens,
            parts,
            gradient_norm: squares.sqrt(),
            seconds: shares.iter().map(|share| share.seconds).fold(0.0, f64::max),
            is_asked_to_end: shares.iter().any(|share| share.is_asked_to_end),
            ready: shares.iter().map(|share| share.ready).min().unwrap_or(Readiness::Never),
        }
    }
}
