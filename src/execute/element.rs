//! Element types that tensors are stored in, and the real numbers that arithmetic on them is done in.

use half::bf16;

use super::storage::Plain;
use super::vector::{self, Lane};
use crate::units::ElementType;

/// What a tensor stores.
pub trait Element: Plain + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// What sums over it are taken in: f32 for bf16 and f32, f64 for f64.
    type Wide: Real;
    const TYPE: ElementType;
    fn wide(self) -> Self::Wide;
    /// Rounded to nearest, ties to even.
    fn narrow(wide: Self::Wide) -> Self;
    /// The values as they are, where sums over them are of their own type.
    fn as_wide(_: &[Self]) -> Option<&[Self::Wide]> {
        None
    }
    /// As [`Element::as_wide`], to write to.
    fn as_wide_mut(_: &mut [Self]) -> Option<&mut [Self::Wide]> {
        None
    }
}

/// A type of arithmetic. Its transcendental functions are correct to a few units in the last place: those of f32 are
/// polynomials that compilers vectorise ([`vector`]), those of f64 the exact ones of the standard library.
pub trait Real:
    Element<Wide = Self>
    + Lane
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::SubAssign
    + std::ops::MulAssign
    + std::iter::Sum
{
    const ZERO: Self;
    const ONE: Self;
    const NEG_INFINITY: Self;
    fn of(value: f64) -> Self;
    fn to_f64(self) -> f64;
    fn sqrt(self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn tanh(self) -> Self;
    /// The error function, 2/√π ∫₀ˣ e^(−t²) dt.
    fn erf(self) -> Self;
    fn max(self, other: Self) -> Self;
    fn abs(self) -> Self;
    /// `self · factor + addend`, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// To the nearest integer, ties to even; for magnitudes below 2²².
    fn round(self) -> Self;
}

macro_rules! real {
    ($real:ident, $kind:ident, $exp:path, $tanh:path, $erf:path, $half_unit:literal) => {
        impl Element for $real {
            type Wide = Self;
            const TYPE: ElementType = ElementType::$kind;
            #[inline(always)]
            fn wide(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(wide: Self) -> Self {
                wide
            }
            #[inline(always)]
            fn as_wide(values: &[Self]) -> Option<&[Self]> {
                Some(values)
            }
            #[inline(always)]
            fn as_wide_mut(values: &mut [Self]) -> Option<&mut [Self]> {
                Some(values)
            }
        }

        impl Real for $real {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $real::NEG_INFINITY;
            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $real::sqrt(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                $real::ln(self)
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                $tanh(self)
            }
            #[inline(always)]
            fn erf(self) -> Self {
                $erf(self)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $real::max(self, other)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $real::abs(self)
            }
            #[inline(always)]
            fn mul_add(self, factor: Self, addend: Self) -> Self {
                $real::mul_add(self, factor, addend)
            }
            #[inline(always)]
            fn round(self) -> Self {
                // Adding 1.5 units of the first power of two whose neighbours are integers drops the fraction.
                (self + $half_unit) - $half_unit
            }
        }
    };
}

real!(f32, Fp32, vector::exp, vector::tanh, vector::erf, 12_582_912.0);
real!(f64, Fp64, f64::exp, f64::tanh, libm::erf, 6_755_399_441_055_744.0);

impl Element for bf16 {
    type Wide = f32;
    const TYPE: ElementType = ElementType::Bf16;
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    /// Without branches, so that loops of it vectorise.
    #[inline(always)]
    fn narrow(wide: f32) -> Self {
        let bits = wide.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        let quiet = (bits >> 16) | 0x40;
        Self::from_bits(if wide.is_nan() { quiet as u16 } else { rounded as u16 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_to_bf16_rounds_as_the_half_crate_does() {
        for turn in 0..u32::MAX / 9973 {
            let value = f32::from_bits(turn * 9973);
            let (own, theirs) = (bf16::narrow(value), bf16::from_f32(value));
            assert!(own.to_bits() == theirs.to_bits() || (own.is_nan() && theirs.is_nan()), "{value}");
            assert!(own.wide().to_bits() == own.to_f32().to_bits() || own.is_nan());
        }
    }

    #[test]
    fn rounding_goes_to_the_nearest_even() {
        for (value, rounded) in [(0.5, 0.0), (1.5, 2.0), (-2.5, -2.0), (3.49, 3.0), (-0.51, -1.0)] {
            assert_eq!(Real::round(value), rounded);
            assert_eq!(Real::round(value as f32), rounded as f32);
        }
    }
}
