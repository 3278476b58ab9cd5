//! AdamW (Loshchilov and Hutter, ICLR 2019, algorithm 2), with the order of operations of `torch.optim.AdamW`.

use super::each::{each, inlined};
use crate::execute::element::{Element, Real};
use crate::execute::pool::{Pool, Rows};

/// What one step does to each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    pub learning_rate: f64,
    pub betas: (f64, f64),
    pub epsilon: f64,
    pub weight_decay: f64,
    /// The number of the step, from 1.
    pub step: u32,
    /// What gradients are multiplied by first.
    pub clip: f64,
}

/// Elements that are handed to a thread at least.
const GRAIN: usize = 4096;

/// θ ← θ − lr · (m̂ / (√v̂ + ε) + wd · θ), with θ before the step, m ← β₁ m + (1 − β₁) g, v ← β₂ v + (1 − β₂) g²,
/// m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ), and g the clipped gradient. `working` receives the new θ, rounded.
pub fn step<G, P, S, T>(
    pool: Pool<'_>,
    adamw: &AdamW,
    gradient: &[G],
    parameter: &mut [P],
    (m, v): (&mut [S], &mut [S]),
    working: Option<&mut [T]>,
) where
    G: Element,
    P: Element<Wide = G::Wide>,
    S: Element<Wide = G::Wide>,
    T: Element<Wide = G::Wide>,
{
    let count = gradient.len();
    assert_eq!((parameter.len(), m.len(), v.len()), (count, count, count), "parameter and moments");
    assert!(working.as_ref().is_none_or(|working| working.len() == count), "the working copy");
    let of = G::Wide::of;
    let (beta1, beta2) = (of(adamw.betas.0), of(adamw.betas.1));
    let (rest1, rest2) = (of(1.0 - adamw.betas.0), of(1.0 - adamw.betas.1));
    let correction = |beta: f64| 1.0 - beta.powi(adamw.step.cast_signed());
    let rate = of(adamw.learning_rate / correction(adamw.betas.0));
    let root = of(1.0 / correction(adamw.betas.1).sqrt());
    let kept = of(1.0 - adamw.learning_rate * adamw.weight_decay);
    let (clip, epsilon) = (of(adamw.clip), of(adamw.epsilon));
    let moments = (Rows(m, 1), Rows(v, 1));
    let parts = (Rows(gradient, 1), Rows(parameter, 1), moments, working.map(|working| Rows(working, 1)));
    each!(pool, count, GRAIN, parts, |_, (gradient, parameter, (m, v), working)| {
        let update = inlined!(|parameter: &mut P, m: &mut S, v: &mut S, gradient: &G| {
            let g = gradient.wide() * clip;
            let first = beta1.mul_add(m.wide(), rest1 * g);
            let second = beta2.mul_add(v.wide(), rest2 * g * g);
            let denominator = second.sqrt().mul_add(root, epsilon);
            let updated = kept.mul_add(parameter.wide(), -(rate * first / denominator));
            *m = S::narrow(first);
            *v = S::narrow(second);
            *parameter = P::narrow(updated);
            T::narrow(updated)
        });
        let state = parameter.0.iter_mut().zip(m.0).zip(v.0).zip(gradient.0);
        match working {
            Some(working) => {
                for ((((parameter, m), v), gradient), working) in state.zip(working.0) {
                    *working = update(parameter, m, v, gradient);
                }
            }
            None => {
                for (((parameter, m), v), gradient) in state {
                    update(parameter, m, v, gradient);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{close, random, threads};

    fn adamw(step: u32) -> AdamW {
        AdamW { learning_rate: 3e-3, betas: (0.9, 0.95), epsilon: 1e-8, weight_decay: 0.1, step, clip: 0.5 }
    }

    #[test]
    fn steps_are_the_formula() {
        let mut parameter = random::<f64>(100, 1);
        let (mut m, mut v) = (vec![0.0; 100], vec![0.0; 100]);
        let mut working = vec![0.0; 100];
        let mut expected: Vec<[f64; 3]> = parameter.iter().map(|&p| [p, 0.0, 0.0]).collect();
        for t in 1..4u32 {
            let gradient = random::<f64>(100, 10 + u64::from(t));
            for ([p, m, v], g) in expected.iter_mut().zip(&gradient) {
                let g = 0.5 * g;
                *m = 0.9 * *m + (1.0 - 0.9) * g;
                *v = 0.95 * *v + (1.0 - 0.95) * g * g;
                let power = t.cast_signed();
                let (m_hat, v_hat) = (*m / (1.0 - 0.9f64.powi(power)), *v / (1.0 - 0.95f64.powi(power)));
                *p -= 3e-3 * (m_hat / (v_hat.sqrt() + 1e-8) + 0.1 * *p);
            }
            let pool = Pool::Threads(threads());
            step(pool, &adamw(t), &gradient, &mut parameter, (&mut m, &mut v), Some(&mut working[..]));
        }
        close(&parameter, &expected.iter().map(|x| x[0]).collect::<Vec<_>>(), 1e-13);
        close(&m, &expected.iter().map(|x| x[1]).collect::<Vec<_>>(), 1e-13);
        close(&v, &expected.iter().map(|x| x[2]).collect::<Vec<_>>(), 1e-13);
        assert_eq!(working, parameter);
    }

    #[test]
    fn types_mix_and_cuts_change_no_bit() {
        let gradient = random::<bf16>(9000, 1);
        let run = |pool, at: usize| {
            let mut parameter = random::<f32>(9000, 2);
            let (mut m, mut v) = (vec![0f32; 9000], vec![0f32; 9000]);
            let mut working = vec![bf16::ZERO; 9000];
            for range in [0..at, at..9000] {
                let moments = (&mut m[range.clone()], &mut v[range.clone()]);
                let working = Some(&mut working[range.clone()]);
                step(pool, &adamw(1), &gradient[range.clone()], &mut parameter[range], moments, working);
            }
            assert!(working.iter().zip(&parameter).all(|(w, &p)| *w == bf16::from_f32(p)));
            parameter
        };
        assert_eq!(run(Pool::Serial, 0), run(Pool::Threads(threads()), 4321));
    }
}
