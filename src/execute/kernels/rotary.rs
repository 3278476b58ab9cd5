//! Rotary positions: pairs of a head's elements turn by an angle that grows with the token's position.
//!
//! Su et al. 2021 in the convention of Hugging Face's Llama ("rotate half"): element i of the first half of the rotated
//! dims pairs with element i of the second. Frequencies, angles, cosines and sines are rounded to the type of
//! arithmetic, as the workload's type says; cosines and sines are made once a token, for all of its heads.

use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;
use crate::model::constants::RotaryScaling;

/// Pairs of one head, at most.
const MAX_PAIRS: usize = 128;

/// Angles by position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary<'a> {
    /// Base of the frequencies: pair i turns by base^(−2i / dim) a position.
    pub theta: f64,
    /// Leading elements of each head that turn: even, at most 256.
    pub dim: usize,
    /// How frequencies are lowered for sequences longer than those that a model was first trained on.
    pub scaling: &'a RotaryScaling,
}

/// Which way to turn: the backward of a rotation is its inverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Forward,
    Backward,
}

/// The first heads of a packed matrix of `stride` columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadColumns {
    pub stride: usize,
    pub heads: usize,
    pub head_dim: usize,
}

impl Rotary<'_> {
    /// Angle a position of pair `pair`, in the type of arithmetic.
    pub fn frequency<R: Real>(&self, pair: usize) -> R {
        let exponent = R::of(2.0 * pair as f64 / self.dim as f64);
        let frequency = R::ONE / R::of(self.theta.powf(exponent.to_f64()));
        match *self.scaling {
            RotaryScaling::None
            | RotaryScaling::Yarn(_)
            | RotaryScaling::Dynamic { .. }
            | RotaryScaling::LongRope { .. }
            | RotaryScaling::Other(_) => frequency,
            RotaryScaling::Linear { factor } => frequency / R::of(factor),
            RotaryScaling::Llama3 {
                factor,
                low_freq_factor: low,
                high_freq_factor: high,
                original_max_position,
            } => {
                let lowered = frequency / R::of(factor);
                let turns = R::of(original_max_position as f64) * frequency / R::of(std::f64::consts::TAU);
                if turns < R::of(low) {
                    lowered
                } else if turns > R::of(high) {
                    frequency
                } else {
                    let smooth = (turns - R::of(low)) / R::of(high - low);
                    (R::ONE - smooth) * lowered + smooth * frequency
                }
            }
        }
    }
}

/// Turns `heads` of all tokens of `data` [sequences·tokens, stride] in place; `positions` are those of the tokens of
/// one sequence.
pub fn rotate<T: Element>(
    rotary: &Rotary<'_>,
    data: &mut [T],
    heads: HeadColumns,
    positions: &[u32],
    turn: Turn,
    pool: Pool<'_>,
) {
    let HeadColumns { stride, heads, head_dim } = heads;
    let pairs = rotary.dim / 2;
    assert!(rotary.dim.is_multiple_of(2) && pairs <= MAX_PAIRS, "{} rotary dims", rotary.dim);
    assert!(rotary.dim <= head_dim, "{} rotary dims in a head of {head_dim}", rotary.dim);
    assert!(heads * head_dim <= stride, "columns of the rotated heads");
    assert_eq!(data.len() % (positions.len() * stride).max(1), 0, "elements of the rotated heads");
    let mut frequencies = [T::Wide::ZERO; MAX_PAIRS];
    for (pair, frequency) in frequencies.iter_mut().enumerate().take(pairs) {
        *frequency = rotary.frequency(pair);
    }
    pool.rows(data, stride, |first, rows| {
        let (mut cosines, mut sines) = ([T::Wide::ZERO; MAX_PAIRS], [T::Wide::ZERO; MAX_PAIRS]);
        for (row, tokens) in rows.chunks_exact_mut(stride).enumerate() {
            let position = T::Wide::of(f64::from(positions[(first + row) % positions.len()]));
            for pair in 0..pairs {
                let angle = (position * frequencies[pair]).to_f64();
                cosines[pair] = T::Wide::of(angle.cos());
                sines[pair] = T::Wide::of(if turn == Turn::Forward { angle.sin() } else { -angle.sin() });
            }
            for head in tokens[..heads * head_dim].chunks_exact_mut(head_dim) {
                let (left, right) = head[..rotary.dim].split_at_mut(pairs);
                rotate_head(left, right, &cosines[..pairs], &sines[..pairs]);
            }
        }
    });
}

/// (left, right) ← (left·cos − right·sin, right·cos + left·sin)
fn rotate_head<T: Element>(left: &mut [T], right: &mut [T], cosines: &[T::Wide], sines: &[T::Wide]) {
    for (((left, right), &cosine), &sine) in left.iter_mut().zip(right).zip(cosines).zip(sines) {
        let (old_left, old_right) = (left.wide(), right.wide());
        *left = T::narrow(old_left * cosine - old_right * sine);
        *right = T::narrow(old_right * cosine + old_left * sine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Rotary<'_> = Rotary { theta: 10_000.0, dim: 8, scaling: &RotaryScaling::None };
    const LAYOUT: HeadColumns = HeadColumns { stride: 34, heads: 3, head_dim: 10 };

    fn numbers(count: usize) -> Vec<f64> {
        (0..count).map(|turn| (turn as f64 * 0.7).sin()).collect()
    }

    /// Query and key products depend on the distance of their positions alone; nothing else is touched.
    #[test]
    fn products_depend_on_distances() {
        let rotated = |position: u32| {
            let mut data = numbers(34);
            rotate(&PLAIN, &mut data, LAYOUT, &[position], Turn::Forward, Pool::Serial);
            data
        };
        let product = |a: &[f64], b: &[f64]| a[..10].iter().zip(&b[10..20]).map(|(a, b)| a * b).sum::<f64>();
        let (near, far) = (product(&rotated(9), &rotated(4)), product(&rotated(105), &rotated(100)));
        assert!((near - far).abs() < 1e-13);
        assert!((near - product(&rotated(9), &rotated(5))).abs() > 1e-3);
        let (before, after) = (numbers(34), rotated(7));
        for place in [8, 9, 18, 19, 28, 29, 30, 31, 32, 33] {
            assert_eq!(before[place], after[place], "{place}");
        }
        // Pair (1, 5) of the first head turns by 7·10000^(−2/8).
        let angle = 7.0 * 0.1_f64;
        assert!((after[1] - (before[1] * angle.cos() - before[5] * angle.sin())).abs() < 1e-15);
        assert!((after[5] - (before[5] * angle.cos() + before[1] * angle.sin())).abs() < 1e-15);
    }

    #[test]
    fn backward_is_the_transpose_and_the_inverse() {
        let positions = [3, 0, 8, 9];
        let mut data = numbers(8 * 34);
        rotate(&PLAIN, &mut data, LAYOUT, &positions, Turn::Forward, Pool::Serial);
        rotate(&PLAIN, &mut data, LAYOUT, &positions, Turn::Backward, Pool::Serial);
        for (back, number) in data.iter().zip(numbers(8 * 34)) {
            assert!((back - number).abs() < 1e-15);
        }
        // Orthogonal: the inverse is the transpose, which is what a gradient goes through.
        let mut turned = numbers(34);
        rotate(&PLAIN, &mut turned, LAYOUT, &[5], Turn::Forward, Pool::Serial);
        let norm = |data: &[f64]| data.iter().map(|x| x * x).sum::<f64>();
        assert!((norm(&turned) - norm(&numbers(34))).abs() < 1e-13);
    }

    #[test]
    fn scaling_lowers_slow_frequencies() {
        let llama = RotaryScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position: 8192,
        };
        let scaled = Rotary { theta: 500_000.0, dim: 128, scaling: &llama };
        let plain = Rotary { scaling: &RotaryScaling::None, ..scaled };
        let ratio = |pair| scaled.frequency::<f64>(pair) / plain.frequency::<f64>(pair);
        // Turns in 8192 positions: 1303.8·500000^(−2i/128); above 4 at pair 28, in between at 30, below 1 at 36.
        assert_eq!((ratio(0), ratio(28), ratio(36), ratio(63)), (1.0, 1.0, 0.125, 0.125));
        let turns = 8192.0 * 500_000.0_f64.powf(-60.0 / 128.0) / std::f64::consts::TAU;
        let smooth = (turns - 1.0) / 3.0;
        assert!((ratio(30) - ((1.0 - smooth) / 8.0 + smooth)).abs() < 1e-15);
        let linear = Rotary { scaling: &RotaryScaling::Linear { factor: 4.0 }, ..plain };
        assert_eq!(linear.frequency::<f64>(5), plain.frequency::<f64>(5) / 4.0);
    }

    #[test]
    fn threads_and_types_agree() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let positions: Vec<u32> = (0..7).collect();
        let single: Vec<f32> = numbers(14 * 34).iter().map(|&x| x as f32).collect();
        let (mut one, mut two, mut exact) = (single.clone(), single.clone(), numbers(14 * 34));
        rotate(&PLAIN, &mut one, LAYOUT, &positions, Turn::Forward, Pool::Serial);
        rotate(&PLAIN, &mut two, LAYOUT, &positions, Turn::Forward, Pool::Threads(&pool));
        rotate(&PLAIN, &mut exact, LAYOUT, &positions, Turn::Forward, Pool::Serial);
        assert_eq!(one, two);
        assert!(one.iter().zip(&exact).all(|(one, exact)| (f64::from(*one) - exact).abs() < 1e-6));
    }
}
