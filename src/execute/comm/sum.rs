//! The arithmetic of reductions: contributions rounded to the type that travels, added in the order given, the
//! result rounded again.

use half::f16;

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
    R::of(f64::from(f16::from_f32(value.to_f64() as f32).to_f32()))
}

/// What `bf16::from_f32` rounds to, to nearest even, without branches, so that it is done for several at once.
fn through_bf16<R: Real>(value: R) -> R {
    let value = value.to_f64() as f32;
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    let bits = if value.is_nan() { bits | 0x0040_0000 } else { nearest };
    R::of(f64::from(f32::from_bits(bits & 0xffff_0000)))
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    #[test]
    fn rounding_by_bits_is_that_of_the_library() {
        let awkward = [0.0f32, -0.0, 1e-45, f32::MIN_POSITIVE, f32::MAX, f32::INFINITY, f32::NEG_INFINITY];
        let spread = (0..200_000u32).map(|turn| f32::from_bits(turn.wrapping_mul(0x9E37_79B9)));
        let ties = (0..2000u32)
            .flat_map(|turn| [0x7fff, 0x8000, 0x8001].map(|low| f32::from_bits(turn << 20 | low)));
        for value in awkward.into_iter().chain(spread).chain(ties) {
            let (ours, theirs) = (through_bf16(value), bf16::from_f32(value).to_f32());
            assert!(
                ours.to_bits() == theirs.to_bits() || value.is_nan() && ours.is_nan(),
                "{value:e}: {ours:e}"
            );
        }
    }
}
