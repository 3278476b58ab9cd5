//! Materialised backward: gradients of the scores are a tensor, from which those of queries, keys and values come.

use super::layout::{KeyValues, Window, row_tiles};
use super::mask::Visible;
use super::materialised::{Probabilities, each_square, weighted_sums};
use super::score::{HeadScore, LaneSide};
use super::tile::{LANES, Square, load_rows, store_rows};
use super::{Core, Heads};
use crate::execute::element::{Element, Real};
use crate::execute::kernels::each::vectorised;
use crate::execute::pool::{Pool, Rows};
use crate::lower::kernel::Into;

/// What the backward reads; [batch·queries, heads·value_dim] `output_gradient`.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, T: Element> {
    pub queries: Window<&'a [T]>,
    pub keys_values: KeyValues<&'a [T]>,
    pub probabilities: Probabilities<'a, T>,
    pub output_gradient: &'a [T],
}

impl<T: Element> Saved<'_, T> {
    fn check(&self, core: &Core<'_>, score_gradients: &[T]) {
        core.check(&self.queries, &self.keys_values);
        let pairs = core.pairs();
        assert_eq!(self.probabilities.all.len(), pairs, "elements of the probabilities");
        assert_eq!(self.probabilities.kept.len(), pairs, "elements of the kept probabilities");
        assert_eq!(self.output_gradient.len(), core.outputs(), "output gradient");
        assert_eq!(score_gradients.len(), pairs, "elements of the score gradients");
    }
}

/// Gradients of the products of queries and keys into `gradients` [batch, heads, queries, keys]: the first step.
pub fn backward_scores<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    gradients: &mut [T],
    pool: Pool<'_>,
) {
    saved.check(core, gradients);
    let (heads, (tokens, keys)) = (core.heads.heads, core.tokens());
    if gradients.is_empty() {
        return;
    }
    pool.rows(gradients, tokens * keys, |first, maps| {
        for (turn, map) in maps.chunks_exact_mut(tokens * keys).enumerate() {
            let (sequence, head) = ((first + turn) / heads, (first + turn) % heads);
            let probabilities = &saved.probabilities.all[(first + turn) * tokens * keys..][..tokens * keys];
            map_gradients(core, saved, (sequence, head), probabilities, map);
        }
    });
}

/// Score gradients of one head of one sequence into `map` [queries, keys].
fn map_gradients<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    (sequence, head): (usize, usize),
    probabilities: &[T],
    map: &mut [T],
) {
    let Heads { query_dim, value_dim, .. } = core.heads;
    let (kv_head, keys) = (head / core.heads.group(), core.mask.key_positions.len());
    let score = HeadScore::new(core, sequence, head, LaneSide::Keys);
    let output_gradients = core.output(saved.output_gradient, head);
    let values = saved.keys_values.values().right(kv_head * value_dim);
    each_square(core, sequence, (output_gradients, values, value_dim), |square| {
        if square.visible == Visible::Nothing {
            square.products.fill([T::Wide::ZERO; LANES]);
        }
        score.drop_out(square.products, square.rows, square.lanes);
        let layout = (keys, square.first_lane, square.lanes.len());
        store_rows(square.products, &mut map[square.first_row * keys..], layout, Into::Set);
    });
    let is_capped = core.score.soft_cap.is_some();
    let scale = if is_capped { T::Wide::ONE } else { T::Wide::of(core.score.scale) };
    for (row, probabilities) in map.chunks_exact_mut(keys).zip(probabilities.chunks_exact(keys)) {
        vectorised!(softmax_backward(row, probabilities, scale));
    }
    if !is_capped {
        return;
    }
    let keys_window = saved.keys_values.keys().right(kv_head * query_dim);
    let mut gradients: Square<T::Wide> = [[T::Wide::ZERO; LANES]; LANES];
    each_square(core, sequence, (saved.queries.right(head * query_dim), keys_window, query_dim), |square| {
        if square.visible == Visible::Nothing {
            return;
        }
        let gradients = &mut gradients[..square.rows.len()];
        let (lanes, first_row) = (square.lanes.len(), square.first_row);
        let window = Window { data: &*map, stride: keys, column: square.first_lane };
        load_rows(gradients.as_flattened_mut(), LANES, (window, lanes), first_row, square.rows.len());
        score.apply_backward(gradients, square.products);
        let layout = (keys, square.first_lane, lanes);
        store_rows(gradients, &mut map[first_row * keys..], layout, Into::Set);
    });
}

/// row ← probability·(row − Σ probability·row)·scale
#[inline(always)]
fn softmax_backward<T: Element>(row: &mut [T], probabilities: &[T], scale: T::Wide) {
    let mut sums = [T::Wide::ZERO; LANES];
    for (row, probabilities) in row.chunks(LANES).zip(probabilities.chunks(LANES)) {
        for ((sum, gradient), probability) in sums.iter_mut().zip(row).zip(probabilities) {
            *sum += gradient.wide() * probability.wide();
        }
    }
    let delta: T::Wide = sums.into_iter().sum();
    for (gradient, probability) in row.iter_mut().zip(probabilities) {
        *gradient = T::narrow(probability.wide() * (gradient.wide() - delta) * scale);
    }
}

/// Gradients of the queries from those of the scores.
pub fn backward_queries<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    score_gradients: &[T],
    gradient: Window<&mut [T]>,
    write: Into,
    pool: Pool<'_>,
) {
    saved.check(core, score_gradients);
    core.check_queries("query gradients", &gradient);
    let Window { data, stride, column } = gradient;
    row_tiles(pool, (core.batch, core.tokens().0), Rows(data, stride), |tile, rows| {
        let products = (LaneSide::Queries, score_gradients, saved.keys_values.keys());
        weighted_sums(core, tile, products, rows.0, (stride, column, core.heads.query_dim), write);
    });
}

/// Gradients of keys and values from those of the scores, summed over the heads that share them.
pub fn backward_keys_values<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    score_gradients: &[T],
    gradients: KeyValues<&mut [T]>,
    write: Into,
    pool: Pool<'_>,
) {
    saved.check(core, score_gradients);
    core.check_keys_values(["key gradients", "value gradients"], &gradients);
    let KeyValues { data, stride, keys, values } = gradients;
    let Heads { query_dim, value_dim, .. } = core.heads;
    let output_gradients = core.output(saved.output_gradient, 0);
    let of_keys = (LaneSide::Keys, score_gradients, saved.queries);
    let of_values = (LaneSide::Keys, saved.probabilities.kept, output_gradients);
    row_tiles(pool, (core.batch, core.tokens().1), Rows(data, stride), |tile, rows| {
        weighted_sums(core, tile, of_keys, rows.0, (stride, keys, query_dim), write);
        weighted_sums(core, tile, of_values, rows.0, (stride, values, value_dim), write);
    });
}
