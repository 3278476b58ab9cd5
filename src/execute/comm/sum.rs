//! The arithmetic of reductions: contributions rounded to the type that travels, added in the order given, the
//! result rounded again.

use half::{bf16, f16};

use super::{CommError, Reduction};
use crate::execute::element::{Element, Real};
use crate::units::ElementType;

/// Elements that are summed at a time, on the stack.
pub(super) const BLOCK: usize = 1024;

/// What travelling does to a number.
#[derive(Clone, Copy)]
enum Rounding {
    Exact,
    Fp32,
    Fp16,
    Bf16,
}

/// A [`Reduction`] of slices of `T`.
pub(super) struct Summation {
    rounding: Rounding,
    scale: Option<f64>,
}

impl Summation {
    pub(super) fn of<T: Element>(reduction: Reduction) -> Result<Self, CommError> {
        let rounding = match reduction.wire {
            ElementType::Fp8 => return Err(CommError::Wire { wire: reduction.wire }),
            wire if wire.size() >= T::TYPE.size() => Rounding::Exact,
            ElementType::Bf16 => Rounding::Bf16,
            ElementType::Fp16 => Rounding::Fp16,
            ElementType::Fp32 | ElementType::Fp64 => Rounding::Fp32,
        };
        Ok(Self { rounding, scale: reduction.scale })
    }

    /// Adds a member's `contribution` to `total`, or sets it if it is the first.
    pub(super) fn add<T: Element>(&self, total: &mut [T::Wide], contribution: &[T], first: bool) {
        match self.rounding {
            Rounding::Exact => add(total, contribution, first, |value| value),
            Rounding::Fp32 => add(total, contribution, first, through_fp32),
            Rounding::Fp16 => add(total, contribution, first, through_fp16),
            Rounding::Bf16 => add(total, contribution, first, through_bf16),
        }
    }

    /// Writes the finished `total` to `result`.
    pub(super) fn store<T: Element>(&self, total: &mut [T::Wide], result: &mut [T]) {
        if let Some(scale) = self.scale {
            let scale = T::Wide::of(scale);
            total.iter_mut().for_each(|value| *value *= scale);
        }
        match self.rounding {
            Rounding::Exact => store(total, result, |value| value),
            Rounding::Fp32 => store(total, result, through_fp32),
            Rounding::Fp16 => store(total, result, through_fp16),
            Rounding::Bf16 => store(total, result, through_bf16),
        }
    }
}

fn add<T: Element>(
    total: &mut [T::Wide],
    contribution: &[T],
    first: bool,
    round: impl Fn(T::Wide) -> T::Wide,
) {
    let pairs = total.iter_mut().zip(contribution);
    if first {
        pairs.for_each(|(total, value)| *total = round(value.wide()));
    } else {
        pairs.for_each(|(total, value)| *total += round(value.wide()));
    }
}

fn store<T: Element>(total: &[T::Wide], result: &mut [T], round: impl Fn(T::Wide) -> T::Wide) {
    result.iter_mut().zip(total).for_each(|(result, &total)| *result = T::narrow(round(total)));
}

// For f32 the way over f64 is exact and compiles to nothing; f64 goes to 16 bits by way of f32.

fn through_fp32<R: Real>(value: R) -> R {
    R::of(f64::from(value.to_f64() as f32))
}

fn through_fp16<R: Real>(value: R) -> R {
    R::of(f16::from_f32(value.to_f64() as f32).to_f64())
}

fn through_bf16<R: Real>(value: R) -> R {
    R::of(bf16::from_f32(value.to_f64() as f32).to_f64())
}
