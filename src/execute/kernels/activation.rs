//! Activation functions, plain and as gates, with their gradients.

use super::each::each_element;
use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;
use crate::model::layer::Activation;

/// √(2/π) and the factor of x³ in GELU by tanh.
const TANH_SLOPE: f64 = 0.797_884_560_802_865_4;
const TANH_CUBE: f64 = 0.044_715;

/// A function of reals with its derivative.
trait Function: Sync {
    fn value<W: Real>(x: W) -> W;
    fn derivative<W: Real>(x: W) -> W;
}

/// x Φ(x) = x/2 · (1 + erf(x/√2)).
struct Gelu;
/// GELU by tanh, Hugging Face's `gelu_new` and `gelu_pytorch_tanh`: x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).
struct GeluTanh;
/// x σ(x).
struct Silu;
struct Relu;
/// max(x, 0)².
struct Relu2;

impl Function for Gelu {
    #[inline(always)]
    fn value<W: Real>(x: W) -> W {
        x * normal(x)
    }
    /// Φ(x) + x φ(x)
    #[inline(always)]
    fn derivative<W: Real>(x: W) -> W {
        let density = (x * x * W::of(-0.5)).exp()
            * W::of(0.5 * std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2);
        x.mul_add(density, normal(x))
    }
}

/// Φ(x), the normal distribution.
#[inline(always)]
fn normal<W: Real>(x: W) -> W {
    let half = W::of(0.5);
    (x * W::of(std::f64::consts::FRAC_1_SQRT_2)).erf().mul_add(half, half)
}

impl Function for GeluTanh {
    #[inline(always)]
    fn value<W: Real>(x: W) -> W {
        let half = W::of(0.5) * x;
        half.mul_add(inner(x).tanh(), half)
    }
    #[inline(always)]
    fn derivative<W: Real>(x: W) -> W {
        let (one, half) = (W::ONE, W::of(0.5));
        let tanh = inner(x).tanh();
        let slope = W::of(TANH_SLOPE) * (x * x).mul_add(W::of(3.0 * TANH_CUBE), one);
        half * (one + tanh) + half * x * (one - tanh * tanh) * slope
    }
}

#[inline(always)]
fn inner<W: Real>(x: W) -> W {
    W::of(TANH_SLOPE) * x * (x * x).mul_add(W::of(TANH_CUBE), W::ONE)
}

impl Function for Silu {
    #[inline(always)]
    fn value<W: Real>(x: W) -> W {
        x / (W::ONE + (-x).exp())
    }
    /// σ(x) (1 + x (1 − σ(x)))
    #[inline(always)]
    fn derivative<W: Real>(x: W) -> W {
        let sigmoid = W::ONE / (W::ONE + (-x).exp());
        sigmoid * x.mul_add(W::ONE - sigmoid, W::ONE)
    }
}

impl Function for Relu {
    #[inline(always)]
    fn value<W: Real>(x: W) -> W {
        if x > W::ZERO { x } else { W::ZERO }
    }
    #[inline(always)]
    fn derivative<W: Real>(x: W) -> W {
        if x > W::ZERO { W::ONE } else { W::ZERO }
    }
}

impl Function for Relu2 {
    #[inline(always)]
    fn value<W: Real>(x: W) -> W {
        if x > W::ZERO { x * x } else { W::ZERO }
    }
    #[inline(always)]
    fn derivative<W: Real>(x: W) -> W {
        if x > W::ZERO { x + x } else { W::ZERO }
    }
}

/// Does `$work`, in which `$function` is the function that `$activation` names.
macro_rules! of_function {
    ($activation:expr, $function:ident => $work:expr) => {
        of_function!($activation, $function => $work, Gelu GeluTanh Silu Relu Relu2)
    };
    ($activation:expr, $function:ident => $work:expr, $($name:ident)*) => {
        match $activation {
            $(Activation::$name => {
                type $function = $name;
                $work
            })*
        }
    };
}

/// y = f(x).
pub fn forward<T: Element>(pool: Pool<'_>, activation: Activation, x: &[T], y: &mut [T]) {
    assert_eq!(x.len(), y.len(), "input and output");
    of_function!(activation, F => each_element!(pool, |y, x| *y = T::narrow(F::value(x.wide()))));
}

/// The gradient in place: `gradient` holds dy and becomes dx = dy · f′(x).
pub fn backward<T: Element>(pool: Pool<'_>, activation: Activation, x: &[T], gradient: &mut [T]) {
    assert_eq!(x.len(), gradient.len(), "input and gradient");
    of_function!(activation, F => each_element!(pool, |gradient, x| {
        *gradient = T::narrow(gradient.wide() * F::derivative(x.wide()));
    }));
}

/// y = f(gate) · up.
pub fn gated_forward<T: Element>(
    pool: Pool<'_>,
    activation: Activation,
    (gate, up): (&[T], &[T]),
    y: &mut [T],
) {
    assert_eq!((gate.len(), up.len()), (y.len(), y.len()), "gate, up and output");
    of_function!(activation, F => each_element!(pool, |y, gate, up| {
        *y = T::narrow(F::value(gate.wide()) * up.wide());
    }));
}

/// The gradients of gate, dy · up · f′(gate), and up, dy · f(gate). `dup` holds dy at first.
pub fn gated_backward<T: Element>(
    pool: Pool<'_>,
    activation: Activation,
    (gate, up): (&[T], &[T]),
    (dgate, dup): (&mut [T], &mut [T]),
) {
    assert_eq!((gate.len(), up.len()), (dup.len(), dup.len()), "gate, up and gradient");
    assert_eq!(dgate.len(), dup.len(), "both gradients");
    of_function!(activation, F => each_element!(pool, |dgate, dup, gate, up| {
        let (gate, dy) = (gate.wide(), dup.wide());
        *dgate = T::narrow(dy * up.wide() * F::derivative(gate));
        *dup = T::narrow(dy * F::value(gate));
    }));
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{close, dot, gradient, random, threads};

    const ALL: [Activation; 5] =
        [Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Relu, Activation::Relu2];

    fn spread(count: usize, seed: u64) -> Vec<f64> {
        random::<f64>(count, seed).iter().map(|x| x * 6.0).collect()
    }

    #[test]
    fn values_are_those_of_the_definitions() {
        // At 1 and at −0.5, computed apart.
        let expected = [
            (Activation::Gelu, 0.841_344_746_068_542_9, -0.154_268_769_362_993_45),
            (Activation::GeluTanh, 0.841_191_990_607_477_8, -0.154_285_990_174_856_06),
            (Activation::Silu, 0.731_058_578_630_004_9, -0.188_770_334_399_072_77),
            (Activation::Relu, 1.0, 0.0),
            (Activation::Relu2, 1.0, 0.0),
        ];
        for (activation, at_one, below) in expected {
            let mut y = [0.0; 2];
            forward(Pool::Serial, activation, &[1.0, -0.5], &mut y);
            close(&y, &[at_one, below], 1e-12);
        }
    }

    #[test]
    fn gradients_are_finite_differences() {
        let pool = Pool::Threads(threads());
        for activation in ALL {
            let (x, up, dy) = (spread(300, 1), random::<f64>(300, 2), random::<f64>(300, 3));
            let value = |x: &[f64], up: Option<&[f64]>| {
                let mut y = vec![0.0; x.len()];
                match up {
                    None => forward(pool, activation, x, &mut y),
                    Some(up) => gated_forward(pool, activation, (x, up), &mut y),
                }
                y
            };
            let mut dx = dy.clone();
            backward(pool, activation, &x, &mut dx);
            close(&dx, &gradient(&x, |x| dot(&value(x, None), &dy)), 1e-8);
            let (mut dgate, mut dup) = (vec![0.0; 300], dy.clone());
            gated_backward(pool, activation, (&x, &up), (&mut dgate, &mut dup));
            close(&dgate, &gradient(&x, |x| dot(&value(x, Some(&up)), &dy)), 1e-8);
            close(&dup, &gradient(&up, |up| dot(&value(&x, Some(up)), &dy)), 1e-8);
        }
    }

    #[test]
    fn narrower_types_are_close() {
        for activation in ALL {
            let x = spread(10_000, 1);
            let mut exact = vec![0.0; x.len()];
            forward(Pool::Serial, activation, &x, &mut exact);
            let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            let mut y = vec![0f32; x.len()];
            forward(Pool::Threads(threads()), activation, &single, &mut y);
            close(&y, &exact, 5e-7);
            let half: Vec<bf16> = x.iter().map(|&x| bf16::from_f64(x)).collect();
            let mut y = vec![bf16::ZERO; x.len()];
            forward(Pool::Serial, activation, &half, &mut y);
            close(&y, &exact, 3e-2);
        }
    }
}
