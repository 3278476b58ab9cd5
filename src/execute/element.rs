//! Element types that tensors are stored in, and the real numbers that arithmetic on them is done in.

use half::bf16;

use crate::units::ElementType;

/// What a tensor stores.
pub trait Element: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// What sums over it are taken in: f32 for bf16 and f32, f64 for f64.
    type Wide: Real;
    const TYPE: ElementType;
    fn wide(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
}

/// A type of arithmetic.
pub trait Real:
    Element<Wide = Self>
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
    fn max(self, other: Self) -> Self;
    fn abs(self) -> Self;
    /// self·factor + addend, rounded once.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
}

macro_rules! real {
    ($real:ident, $kind:ident) => {
        impl Element for $real {
            type Wide = Self;
            const TYPE: ElementType = ElementType::$kind;
            fn wide(self) -> Self {
                self
            }
            fn narrow(wide: Self) -> Self {
                wide
            }
        }

        impl Real for $real {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $real::NEG_INFINITY;
            fn of(value: f64) -> Self {
                value as Self
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn sqrt(self) -> Self {
                $real::sqrt(self)
            }
            fn exp(self) -> Self {
                $real::exp(self)
            }
            fn ln(self) -> Self {
                $real::ln(self)
            }
            fn tanh(self) -> Self {
                $real::tanh(self)
            }
            fn max(self, other: Self) -> Self {
                $real::max(self, other)
            }
            fn abs(self) -> Self {
                $real::abs(self)
            }
            fn mul_add(self, factor: Self, addend: Self) -> Self {
                $real::mul_add(self, factor, addend)
            }
        }
    };
}

real!(f32, Fp32);
real!(f64, Fp64);

impl Element for bf16 {
    type Wide = f32;
    const TYPE: ElementType = ElementType::Bf16;
    fn wide(self) -> f32 {
        self.to_f32()
    }
    fn narrow(wide: f32) -> Self {
        Self::from_f32(wide)
    }
}
