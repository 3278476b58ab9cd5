//! Loops for the widest vectors of this machine, sums in a fixed order, and functions of f32 that vectorise.

use pulp::Simd;

/// Partial sums that a sum over a slice is kept in: element `i` goes to partial sum `i mod LANES`.
pub const LANES: usize = 16;

/// The partial sums added up, halves upon halves.
#[inline(always)]
pub fn total<W: Copy + std::ops::AddAssign>(mut lanes: [W; LANES]) -> W {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
    }
    lanes[0]
}

/// The real numbers as lanes of vectors, for products of matrices.
pub trait Lane: Copy {
    type Vector<S: Simd>: Copy;
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    fn multiply<S: Simd>(simd: S, factor: Self::Vector<S>, other: Self::Vector<S>) -> Self::Vector<S>;
    /// `factor · other + addend` in every lane, rounded once.
    fn multiply_add<S: Simd>(
        simd: S,
        factor: Self::Vector<S>,
        other: Self::Vector<S>,
        addend: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// `values` as whole vectors; what does not fill one is left off.
    fn vectors<S: Simd>(simd: S, values: &[Self]) -> &[Self::Vector<S>];
    fn vectors_mut<S: Simd>(simd: S, values: &mut [Self]) -> &mut [Self::Vector<S>];
}

macro_rules! lane {
    ($real:ident, $vector:ident, $splat:ident, $multiply:ident, $multiply_add:ident, $vectors:ident, $vectors_mut:ident) => {
        impl Lane for $real {
            type Vector<S: Simd> = S::$vector;
            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S> {
                simd.$splat(value)
            }
            #[inline(always)]
            fn multiply<S: Simd>(
                simd: S,
                factor: Self::Vector<S>,
                other: Self::Vector<S>,
            ) -> Self::Vector<S> {
                simd.$multiply(factor, other)
            }
            #[inline(always)]
            fn multiply_add<S: Simd>(
                simd: S,
                factor: Self::Vector<S>,
                other: Self::Vector<S>,
                addend: Self::Vector<S>,
            ) -> Self::Vector<S> {
                simd.$multiply_add(factor, other, addend)
            }
            #[inline(always)]
            fn vectors<S: Simd>(_: S, values: &[Self]) -> &[Self::Vector<S>] {
                S::$vectors(values).0
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(_: S, values: &mut [Self]) -> &mut [Self::Vector<S>] {
                S::$vectors_mut(values).0
            }
        }
    };
}

lane!(f32, f32s, splat_f32s, mul_f32s, mul_add_f32s, as_simd_f32s, as_mut_simd_f32s);
lane!(f64, f64s, splat_f64s, mul_f64s, mul_add_f64s, as_simd_f64s, as_mut_simd_f64s);

/// A polynomial by Horner's rule, highest coefficient first.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients.into_iter().fold(0.0, |sum, coefficient| sum.mul_add(x, coefficient))
}

/// eˣ: 2ⁿ times a polynomial on |r| ≤ ln 2 / 2, fitted at Chebyshev nodes.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    /// ln 2 in two parts, so that n·ln 2 is taken off x without loss.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    const SHIFT: f32 = 12_582_912.0;
    // Beyond these e^x is 0 or infinite; a NaN passes.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-LN_2.1, n.mul_add(-LN_2.0, x));
    let tail = polynomial(r, [0.001_392_620_3, 0.008_363_195, 0.041_666_556, 0.166_665_76, 0.5]);
    let mantissa = (r * r).mul_add(tail, r) + 1.0;
    // 2ⁿ in two factors, since n goes beyond the exponents of normal numbers.
    let n = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i32;
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    mantissa * power(half) * power(n.wrapping_sub(half))
}

/// tanh: an odd polynomial near 0, elsewhere by the exponential.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let magnitude = x.abs();
    let square = x * x;
    let near = [0.002_269_501_6, -0.008_323_187, 0.021_762_503, -0.053_958_46, 0.133_333, -0.333_333_34];
    let near = (x * square).mul_add(polynomial(square, near), x);
    let far = (1.0 - 2.0 / (exp(2.0 * magnitude) + 1.0)).copysign(x);
    if magnitude < 0.6 { near } else { far }
}

/// The error function: an odd polynomial near 0, elsewhere 1 − e^p(|x|), p fitted to ln erfc.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let magnitude = x.abs();
    let near = [
        -9.667_044e-6,
        1.126_595_7e-4,
        -8.484_08e-4,
        0.005_221_031_6,
        -0.026_865_43,
        0.112_837_83,
        -0.376_126_4,
        std::f32::consts::FRAC_2_SQRT_PI,
    ];
    let near = x * polynomial(x * x, near);
    let far = [
        1.642_679e-6,
        -4.616_478_6e-5,
        5.976_773e-4,
        -0.004_763_509_7,
        0.026_431_643,
        -0.110_097_244,
        -0.631_809_53,
        -1.130_241_9,
        3.218_662_6e-4,
    ];
    let bounded = if magnitude > 4.0 { 4.0 } else { magnitude };
    let far = (1.0 - exp(polynomial(bounded, far))).copysign(x);
    if magnitude < 0.98 { near } else { far }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The greatest error of `own` against `exact` over `count` arguments from `low` up, in units in the last place
    /// of the result, but not of one smaller than `floor`.
    fn worst(own: fn(f32) -> f32, exact: fn(f64) -> f64, low: f32, high: f32, floor: f64) -> f64 {
        let count = 400_000;
        let at = |turn: i32| low + (high - low) * turn as f32 / count as f32;
        let error = |x: f32| {
            let expected = exact(f64::from(x));
            let unit = 2f64.powf(expected.abs().max(floor).log2().floor() - 23.0);
            (f64::from(own(x)) - expected).abs() / unit
        };
        (0..=count).map(|turn| error(at(turn))).fold(0.0, f64::max)
    }

    #[test]
    fn functions_keep_their_error_bounds() {
        let smallest = f64::from(f32::MIN_POSITIVE);
        let found = [
            ("exp", worst(exp, f64::exp, -104.0, 88.7, smallest), 1.5),
            ("exp near 0", worst(exp, f64::exp, -1.0, 1.0, smallest), 1.5),
            ("tanh", worst(tanh, f64::tanh, -10.0, 10.0, 1e-30), 2.5),
            ("erf", worst(erf, libm::erf, -5.0, 5.0, 1e-30), 2.5),
        ];
        for (name, error, bound) in found {
            assert!(error < bound, "{name}: {error} units in the last place");
        }
    }

    #[test]
    fn functions_hold_at_the_ends() {
        assert_eq!([exp(0.0), exp(-200.0), exp(f32::NEG_INFINITY)], [1.0, 0.0, 0.0]);
        assert_eq!([exp(100.0), exp(f32::INFINITY)], [f32::INFINITY; 2]);
        assert_eq!([tanh(100.0), tanh(-100.0), tanh(0.0)], [1.0, -1.0, 0.0]);
        assert_eq!([erf(f32::INFINITY), erf(-5.0), erf(0.0)], [1.0, -1.0, 0.0]);
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan() && erf(f32::NAN).is_nan());
    }

    #[test]
    fn partial_sums_add_up() {
        assert_eq!(total(std::array::from_fn(|lane| lane as f64)), 120.0);
    }
}
