//! Casts between element types.

use crate::execute::element::{Element, Real};
use crate::execute::pool::{Pool, Rows};
use crate::execute::vector::vectorised;

/// Elements that are handed to a thread at least.
const GRAIN: usize = 4096;

/// `to` = `from`, to the nearest; f64 goes to bf16 by way of f32.
pub fn cast<A: Element, B: Element>(pool: Pool<'_>, from: &[A], to: &mut [B]) {
    assert_eq!(from.len(), to.len(), "source and target");
    pool.each(to.len(), GRAIN, (Rows(from, 1), Rows(to, 1)), |_, (from, to)| {
        vectorised(
            #[inline(always)]
            || {
                for (to, from) in to.0.iter_mut().zip(from.0) {
                    *to = B::narrow(B::Wide::of(from.wide().to_f64()));
                }
            },
        );
    });
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{random, threads};

    #[test]
    fn casts_round_to_nearest_and_back_is_exact() {
        let x = random::<f64>(10_000, 1);
        let (mut single, mut half) = (vec![0f32; x.len()], vec![bf16::ZERO; x.len()]);
        let pool = Pool::Threads(threads());
        cast(pool, &x, &mut single);
        cast(pool, &single, &mut half);
        assert!(single.iter().zip(&x).all(|(single, x)| *single == *x as f32));
        assert!(half.iter().zip(&single).all(|(half, x)| *half == bf16::from_f32(*x)));
        let mut back = vec![0f64; x.len()];
        cast(pool, &half, &mut back);
        assert!(back.iter().zip(&half).all(|(back, half)| *back == half.to_f64()));
    }
}
