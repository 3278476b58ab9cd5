//! Attention against plain loops in f64, and its gradients against finite differences of those loops.

use half::bf16;

use super::fused::{Saved, backward_keys_values, backward_queries, forward};
use super::materialised::{self, Probabilities};
use super::materialised_backward;
use super::{Heads, KeyValues, Pair, Window};
use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;
use crate::lower::kernel::Into;

mod case;

use case::{Case, DROPOUT, Tensors, keep, widen};

/// Output and log-sum-exps by plain loops.
fn oracle(case: &Case, tensors: &Tensors<f64>) -> (Vec<f64>, Vec<f64>) {
    let Heads { heads, kv_heads, query_dim, value_dim } = case.heads;
    let (key_column, value_column, stride) = case.key_value_columns();
    let (mut output, mut log_sum_exp) = (Vec::new(), Vec::new());
    for sequence in 0..case.batch {
        for (row, &query_position) in case.query_positions.iter().enumerate() {
            for head in 0..heads {
                let kv_head = head / (heads / kv_heads);
                let row = sequence * case.query_positions.len() + row;
                let query = &tensors.queries[row * case.query_stride() + 1 + head * query_dim..][..query_dim];
                let (mut sum, mut weighted) = (0.0, vec![0.0; value_dim]);
                for (turn, &key_position) in case.key_positions.iter().enumerate() {
                    let back = i64::from(query_position) - i64::from(key_position);
                    let near = case.window.is_none_or(|window| back < i64::from(window));
                    if (case.causal && back < 0) || !near {
                        continue;
                    }
                    let other = (sequence * case.key_positions.len() + turn) * stride;
                    let key = &tensors.keys_values[other + key_column + kv_head * query_dim..][..query_dim];
                    let value =
                        &tensors.keys_values[other + value_column + kv_head * value_dim..][..value_dim];
                    let product: f64 = query.iter().zip(key).map(|(a, b)| a * b).sum();
                    let mut score = case.score.scale * product;
                    if let Some(cap) = case.score.soft_cap {
                        score = cap * (score / cap).tanh();
                    }
                    // Of six heads: 2^-2, 2^-4, 2^-6, 2^-8, then 2^-1, 2^-3.
                    if let Some(alibi) = case.score.alibi {
                        let slopes = [2, 4, 6, 8, 1, 3].map(|exponent: i32| 0.5_f64.powi(exponent));
                        score -= slopes[alibi.first_head + head] * back as f64;
                    }
                    let weight = score.exp();
                    sum += weight;
                    let pair = Pair { sequence, head, query: query_position, key: key_position };
                    if !case.dropout || keep(pair) {
                        let scale = if case.dropout { DROPOUT.scale } else { 1.0 };
                        weighted
                            .iter_mut()
                            .zip(value)
                            .for_each(|(sum, value)| *sum += scale * weight * value);
                    }
                }
                output.extend(weighted.iter().map(|weighted| if sum == 0.0 { 0.0 } else { weighted / sum }));
                log_sum_exp.push(sum.ln());
            }
        }
    }
    (output, log_sum_exp)
}

/// Σ output·gradient by the oracle: what gradients are finite differences of.
fn objective(case: &Case, tensors: &Tensors<f64>) -> f64 {
    let (output, _) = oracle(case, tensors);
    output.iter().zip(&tensors.output_gradient).map(|(a, b)| a * b).sum()
}

struct Results<T: Element> {
    output: Vec<T>,
    log_sum_exp: Vec<T::Wide>,
    query_gradients: Vec<T>,
    key_value_gradients: Vec<T>,
}

fn queries<'a, T>(case: &Case, tensors: &'a Tensors<T>) -> Window<&'a [T]> {
    Window { data: &tensors.queries, stride: case.query_stride(), column: 1 }
}

fn keys_values<'a, T>(case: &Case, tensors: &'a Tensors<T>) -> KeyValues<&'a [T]> {
    let (keys, values, stride) = case.key_value_columns();
    KeyValues { data: &tensors.keys_values, stride, keys, values }
}

fn fused<T: Element>(case: &Case, tensors: &Tensors<T>, pool: Pool<'_>) -> Results<T> {
    let core = case.core();
    let (queries, keys_values) = (queries(case, tensors), keys_values(case, tensors));
    let mut output = vec![T::default(); tensors.output_gradient.len()];
    let mut log_sum_exp = vec![T::Wide::ZERO; output.len() / case.heads.value_dim];
    forward(&core, queries, keys_values, &mut output, &mut log_sum_exp, Into::Set, pool);
    let mut query_gradients = vec![T::default(); tensors.queries.len()];
    let mut key_value_gradients = vec![T::default(); tensors.keys_values.len()];
    let saved = Saved {
        queries,
        keys_values,
        output: &output,
        output_gradient: &tensors.output_gradient,
        log_sum_exp: &log_sum_exp,
    };
    let (keys, values, stride) = case.key_value_columns();
    let window = Window { data: &mut query_gradients[..], stride: case.query_stride(), column: 1 };
    backward_queries(&core, &saved, window, Into::Set, pool);
    let window = KeyValues { data: &mut key_value_gradients[..], stride, keys, values };
    backward_keys_values(&core, &saved, window, Into::Set, pool);
    Results { output, log_sum_exp, query_gradients, key_value_gradients }
}

fn materialised<T: Element>(case: &Case, tensors: &Tensors<T>, pool: Pool<'_>) -> Results<T> {
    let core = case.core();
    let (queries, keys_values) = (queries(case, tensors), keys_values(case, tensors));
    let pairs = case.batch * case.heads.heads * case.query_positions.len() * case.key_positions.len();
    let mut output = vec![T::default(); tensors.output_gradient.len()];
    let mut all = vec![T::default(); pairs];
    let mut kept = vec![T::default(); if case.dropout { pairs } else { 0 }];
    materialised::forward(&core, queries, keys_values, &mut all, &mut kept, &mut output, pool);
    let kept = if case.dropout { &kept } else { &all };
    let probabilities = Probabilities { all: &all, kept };
    let saved = materialised_backward::Saved {
        queries,
        keys_values,
        probabilities,
        output_gradient: &tensors.output_gradient,
    };
    let mut score_gradients = vec![T::default(); pairs];
    materialised_backward::backward_scores(&core, &saved, &mut score_gradients, pool);
    let mut query_gradients = vec![T::default(); tensors.queries.len()];
    let mut key_value_gradients = vec![T::default(); tensors.keys_values.len()];
    let (keys, values, stride) = case.key_value_columns();
    let window = Window { data: &mut query_gradients[..], stride: case.query_stride(), column: 1 };
    materialised_backward::backward_queries(&core, &saved, &score_gradients, window, Into::Set, pool);
    let window = KeyValues { data: &mut key_value_gradients[..], stride, keys, values };
    materialised_backward::backward_keys_values(&core, &saved, &score_gradients, window, Into::Set, pool);
    Results { output, log_sum_exp: Vec::new(), query_gradients, key_value_gradients }
}

fn assert_near(what: &str, left: &[f64], right: &[f64], tolerance: f64) {
    assert_eq!(left.len(), right.len(), "{what}");
    for (turn, (left, right)) in left.iter().zip(right).enumerate() {
        let near = left == right || (left - right).abs() <= tolerance * (1.0 + right.abs());
        assert!(near, "{what}, element {turn}: {left} is not {right}");
    }
}

/// Gradients against central differences at about forty places of either tensor, the foreign column among them.
fn assert_gradients(case: &Case, tensors: &Tensors<f64>, queries: &[f64], keys_values: &[f64]) {
    const STEP: f64 = 1e-5;
    let tensor = |tensors: &mut Tensors<f64>, side: usize, place: usize, step: f64| match side {
        0 => tensors.queries[place] += step,
        _ => tensors.keys_values[place] += step,
    };
    for (side, gradients) in [queries, keys_values].into_iter().enumerate() {
        for place in (0..gradients.len()).step_by(gradients.len().div_ceil(40)) {
            let mut moved = tensors.clone();
            tensor(&mut moved, side, place, STEP);
            let above = objective(case, &moved);
            tensor(&mut moved, side, place, -2.0 * STEP);
            let slope = (above - objective(case, &moved)) / (2.0 * STEP);
            let what = format!("{}: gradient {place} of {}", case.name, ["queries", "keys and values"][side]);
            assert_near(&what, &[gradients[place]], &[slope], 1e-8);
        }
    }
}

#[test]
fn forward_agrees_with_plain_loops() {
    for case in Case::all() {
        let tensors = case.tensors();
        let (output, log_sum_exp) = oracle(&case, &tensors);
        let exact = fused(&case, &tensors, Pool::Serial);
        assert_near(case.name, &exact.output, &output, 1e-13);
        assert_near(case.name, &exact.log_sum_exp, &log_sum_exp, 1e-13);
        let single = fused::<f32>(&case, &tensors.cast(), Pool::Serial);
        assert_near(case.name, &widen(&single.output), &output, 3e-6);
        let half = fused::<bf16>(&case, &tensors.cast(), Pool::Serial);
        assert_near(case.name, &widen(&half.output), &output, 3e-2);
    }
}

#[test]
fn gradients_agree_with_finite_differences() {
    for case in Case::all() {
        let tensors = case.tensors();
        let exact = fused(&case, &tensors, Pool::Serial);
        assert_gradients(&case, &tensors, &exact.query_gradients, &exact.key_value_gradients);
        let single = fused::<f32>(&case, &tensors.cast(), Pool::Serial);
        assert_near(case.name, &widen(&single.query_gradients), &exact.query_gradients, 1e-5);
        assert_near(case.name, &widen(&single.key_value_gradients), &exact.key_value_gradients, 1e-5);
    }
}

/// Fused gradients are held by finite differences; the same results by another way.
#[test]
fn materialised_agrees_with_fused() {
    for case in Case::all() {
        let tensors = case.tensors();
        let (fused, plain) =
            (fused(&case, &tensors, Pool::Serial), materialised(&case, &tensors, Pool::Serial));
        assert_near(case.name, &plain.output, &fused.output, 1e-13);
        assert_near(case.name, &plain.query_gradients, &fused.query_gradients, 1e-12);
        assert_near(case.name, &plain.key_value_gradients, &fused.key_value_gradients, 1e-12);
        let half = materialised::<bf16>(&case, &tensors.cast(), Pool::Serial);
        assert_near(case.name, &widen(&half.output), &fused.output, 3e-2);
        assert_near(case.name, &widen(&half.query_gradients), &fused.query_gradients, 5e-2);
    }
}

#[test]
fn threads_change_no_bit() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for case in Case::all() {
        let tensors = case.tensors().cast::<f32>();
        for core in [fused, materialised] {
            let (one, two) =
                (core(&case, &tensors, Pool::Serial), core(&case, &tensors, Pool::Threads(&pool)));
            assert_eq!(one.output, two.output, "{}", case.name);
            assert_eq!(one.log_sum_exp, two.log_sum_exp, "{}", case.name);
            assert_eq!(one.query_gradients, two.query_gradients, "{}", case.name);
            assert_eq!(one.key_value_gradients, two.key_value_gradients, "{}", case.name);
        }
    }
}

/// Steps of ring attention: keys come in parts, cut anywhere.
#[test]
fn parts_of_the_keys_merge_to_the_whole() {
    for case in Case::all().into_iter().filter(|case| case.batch * case.key_positions.len() > 8) {
        let case = Case { batch: 1, ..case };
        let tensors = case.tensors();
        let whole = fused(&case, &tensors, Pool::Serial);
        let (keys, values, stride) = case.key_value_columns();
        let tokens = case.key_positions.len();
        let mut output = vec![f64::NAN; whole.output.len()];
        let mut log_sum_exp = vec![f64::NAN; whole.log_sum_exp.len()];
        // Later keys first, as they come around the ring.
        let cuts = [tokens - 3..tokens, 0..5, 5..tokens - 3];
        let part = |range: &std::ops::Range<usize>| {
            let part = Case { key_positions: case.key_positions[range.clone()].to_vec(), ..case.clone() };
            (part, &tensors.keys_values[range.start * stride..range.end * stride])
        };
        for (turn, range) in cuts.iter().enumerate() {
            let (part, data) = part(range);
            let write = if turn == 0 { Into::Set } else { Into::Add };
            let keys_values = KeyValues { data, stride, keys, values };
            let queries = queries(&case, &tensors);
            forward(&part.core(), queries, keys_values, &mut output, &mut log_sum_exp, write, Pool::Serial);
        }
        assert_near(case.name, &output, &whole.output, 1e-13);
        assert_near(case.name, &log_sum_exp, &whole.log_sum_exp, 1e-13);
        let mut query_gradients = vec![0.0; whole.query_gradients.len()];
        let mut key_value_gradients = vec![1.0; whole.key_value_gradients.len()];
        for range in &cuts {
            let (part, data) = part(range);
            let saved = Saved {
                queries: queries(&case, &tensors),
                keys_values: KeyValues { data, stride, keys, values },
                output: &output,
                output_gradient: &tensors.output_gradient,
                log_sum_exp: &log_sum_exp,
            };
            let window = Window { data: &mut query_gradients[..], stride: case.query_stride(), column: 1 };
            backward_queries(&part.core(), &saved, window, Into::Add, Pool::Serial);
            let data = &mut key_value_gradients[range.start * stride..range.end * stride];
            let window = KeyValues { data, stride, keys, values };
            backward_keys_values(&part.core(), &saved, window, Into::Add, Pool::Serial);
        }
        key_value_gradients.iter_mut().for_each(|gradient| *gradient -= 1.0);
        assert_near(case.name, &query_gradients, &whole.query_gradients, 1e-12);
        assert_near(case.name, &key_value_gradients, &whole.key_value_gradients, 1e-12);
    }
}
