//! Fused backward: scores are made again from log-sum-exps, once for the queries' gradients and once for those of keys
//! and values, so that each sum stays with one thread. Dao 2023 (FlashAttention-2), algorithm 2.

use super::layout::{KeyValues, RowTile, Window, row_tiles};
use super::mask::Visible;
use super::score::{HeadScore, LaneSide};
use super::tile::{
    LANES, Lanes, MAX_HEAD_DIM, Square, TokenLanes, TokenRows, WideRows, add_products,
    add_transposed_products, dot, load_lanes, read_rows, store_lanes,
};
use super::{Core, Heads};
use crate::execute::element::{Element, Real};
use crate::execute::kernels::each::vectorised;
use crate::execute::pool::{Pool, Rows};
use crate::lower::kernel::Into;

/// What the backward reads: queries, keys and values, and [batch·queries, heads·value_dim] `output` and its gradient,
/// [batch·queries, heads] `log_sum_exp` of all keys (of all ring steps).
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, T: Element> {
    pub queries: Window<&'a [T]>,
    pub keys_values: KeyValues<&'a [T]>,
    pub output: &'a [T],
    pub output_gradient: &'a [T],
    pub log_sum_exp: &'a [T::Wide],
}

impl<T: Element> Saved<'_, T> {
    fn check(&self, core: &Core<'_>) {
        core.check(&self.queries, &self.keys_values);
        let rows = core.batch * core.tokens().0;
        assert_eq!(self.output.len(), core.outputs(), "elements of the output");
        assert_eq!(self.output_gradient.len(), self.output.len(), "elements of the output gradient");
        assert_eq!(self.log_sum_exp.len(), rows * core.heads.heads, "elements of the log-sum-exp");
    }

    /// Log-sum-exps (0 where there was no key, so that exp(−∞ − it) is 0) and Σ output·gradient of a head.
    fn statistics(&self, core: &Core<'_>, head: usize, first: usize, count: usize) -> Statistics<T::Wide> {
        let (outputs, gradients) = (core.output(self.output, head), core.output(self.output_gradient, head));
        let mut statistics =
            Statistics { log_sum_exp: [T::Wide::ZERO; LANES], delta: [T::Wide::ZERO; LANES] };
        for lane in 0..count {
            let row = first + lane;
            let value = self.log_sum_exp[row * core.heads.heads + head];
            statistics.log_sum_exp[lane] = if value == T::Wide::NEG_INFINITY { T::Wide::ZERO } else { value };
            let width = core.heads.value_dim;
            statistics.delta[lane] = dot(outputs.row(row, width), gradients.row(row, width));
        }
        statistics
    }
}

/// Of up to [`LANES`] queries.
struct Statistics<R> {
    log_sum_exp: Lanes<R>,
    delta: Lanes<R>,
}

/// Gradients of the queries into `gradient` [batch·queries, ..].
pub fn backward_queries<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    gradient: Window<&mut [T]>,
    write: Into,
    pool: Pool<'_>,
) {
    saved.check(core);
    core.check_queries("query gradients", &gradient);
    let Window { data, stride, column } = gradient;
    row_tiles(pool, (core.batch, core.tokens().0), Rows(data, stride), |tile, rows| {
        queries_tile(core, saved, tile, Window { data: rows.0, stride, column }, write);
    });
}

fn queries_tile<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    tile: RowTile,
    gradients: Window<&mut [T]>,
    write: Into,
) {
    let zero = T::Wide::ZERO;
    let Heads { heads, query_dim, value_dim, .. } = core.heads;
    let Window { data, stride, column } = gradients;
    let (count, (tokens, key_tokens)) = (data.len() / stride, core.tokens());
    let first = tile.sequence * tokens + tile.first;
    let positions = &core.mask.query_positions[tile.first..tile.first + count];
    let mut query: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut output_gradient: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut sums: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut copies: [TokenRows<T::Wide>; 2] = [[zero; LANES * MAX_HEAD_DIM]; 2];
    let [keys_copy, values_copy] = &mut copies;
    let mut squares = Squares::new();
    for head in 0..heads {
        let kv_head = head / core.heads.group();
        let key_window = saved.keys_values.keys().right(kv_head * query_dim);
        let value_window = saved.keys_values.values().right(kv_head * value_dim);
        let (query, sums) = (&mut query[..query_dim], &mut sums[..query_dim]);
        let output_gradient = &mut output_gradient[..value_dim];
        load_lanes(query, saved.queries.right(head * query_dim), first, count);
        load_lanes(output_gradient, core.output(saved.output_gradient, head), first, count);
        sums.fill([zero; LANES]);
        let statistics = saved.statistics(core, head, first, count);
        let score = HeadScore::new(core, tile.sequence, head, LaneSide::Queries);
        for (turn, key_positions) in core.mask.key_positions.chunks(LANES).enumerate() {
            let visible = core.mask.between(positions, key_positions);
            if visible == Visible::Nothing {
                continue;
            }
            let (first, rows) = (tile.sequence * key_tokens + turn * LANES, key_positions.len());
            let keys = read_rows(keys_copy, (key_window, query_dim), first, rows);
            let values = read_rows(values_copy, (value_window, value_dim), first, rows);
            squares.fill(rows, (keys, query), (values, output_gradient));
            squares.probabilities(&score, key_positions, positions, visible, &statistics.log_sum_exp);
            score.drop_out(&mut squares.gradients, key_positions, positions);
            squares.score_gradients(&score, rows, &statistics.delta);
            add_transposed_products(sums, keys, &squares.gradients[..rows]);
        }
        store_lanes(sums, data, (stride, column + head * query_dim), write);
    }
}

/// Gradients of keys and values into `gradients` [batch·keys, ..], summed over the heads that share them.
pub fn backward_keys_values<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    gradients: KeyValues<&mut [T]>,
    write: Into,
    pool: Pool<'_>,
) {
    saved.check(core);
    core.check_keys_values(["key gradients", "value gradients"], &gradients);
    let KeyValues { data, stride, keys, values } = gradients;
    row_tiles(pool, (core.batch, core.tokens().1), Rows(data, stride), |tile, rows| {
        keys_values_tile(core, saved, tile, KeyValues { data: rows.0, stride, keys, values }, write);
    });
}

fn keys_values_tile<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    tile: RowTile,
    gradients: KeyValues<&mut [T]>,
    write: Into,
) {
    let zero = T::Wide::ZERO;
    let Heads { kv_heads, query_dim, value_dim, .. } = core.heads;
    let KeyValues { data, stride, keys, values } = gradients;
    let (count, (tokens, key_tokens)) = (data.len() / stride, core.tokens());
    let first_key = tile.sequence * key_tokens + tile.first;
    let positions = &core.mask.key_positions[tile.first..tile.first + count];
    let mut key: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut value: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut key_sums: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut value_sums: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut copies: [TokenRows<T::Wide>; 2] = [[zero; LANES * MAX_HEAD_DIM]; 2];
    let [queries_copy, gradients_copy] = &mut copies;
    let mut squares = Squares::new();
    for kv_head in 0..kv_heads {
        let (key, value) = (&mut key[..query_dim], &mut value[..value_dim]);
        let (key_sums, value_sums) = (&mut key_sums[..query_dim], &mut value_sums[..value_dim]);
        load_lanes(key, saved.keys_values.keys().right(kv_head * query_dim), first_key, count);
        load_lanes(value, saved.keys_values.values().right(kv_head * value_dim), first_key, count);
        key_sums.fill([zero; LANES]);
        value_sums.fill([zero; LANES]);
        for head in core.heads.sharing(kv_head) {
            let query_window = saved.queries.right(head * query_dim);
            let gradient_window = core.output(saved.output_gradient, head);
            let score = HeadScore::new(core, tile.sequence, head, LaneSide::Keys);
            for (turn, query_positions) in core.mask.query_positions.chunks(LANES).enumerate() {
                let visible = core.mask.between(query_positions, positions);
                if visible == Visible::Nothing {
                    continue;
                }
                let (first, rows) = (tile.sequence * tokens + turn * LANES, query_positions.len());
                let statistics = saved.statistics(core, head, first, rows);
                let queries = read_rows(queries_copy, (query_window, query_dim), first, rows);
                let output_gradients = read_rows(gradients_copy, (gradient_window, value_dim), first, rows);
                squares.fill(rows, (queries, key), (output_gradients, value));
                squares.probabilities(&score, query_positions, positions, visible, &statistics.log_sum_exp);
                let mut kept = squares.scores;
                score.drop_out(&mut kept, query_positions, positions);
                score.drop_out(&mut squares.gradients, query_positions, positions);
                add_transposed_products(value_sums, output_gradients, &kept[..rows]);
                squares.score_gradients(&score, rows, &statistics.delta);
                add_transposed_products(key_sums, queries, &squares.gradients[..rows]);
            }
        }
        store_lanes(key_sums, data, (stride, keys + kv_head * query_dim), write);
        store_lanes(value_sums, data, (stride, values + kv_head * value_dim), write);
    }
}

/// What is made again of a tile of queries with a tile of keys, whichever of them lies in the lanes.
struct Squares<R> {
    /// Products of queries and keys.
    products: Square<R>,
    /// Scores, then probabilities.
    scores: Square<R>,
    /// Gradients of the probabilities, then of the products.
    gradients: Square<R>,
}

impl<R: Real> Squares<R> {
    fn new() -> Self {
        let square = [[R::ZERO; LANES]; LANES];
        Self { products: square, scores: square, gradients: square }
    }

    /// Products of queries with keys, and of output gradients with values: `rows` rows with lanes.
    fn fill(
        &mut self,
        rows: usize,
        scores: (WideRows<'_, R>, &[Lanes<R>]),
        gradients: (WideRows<'_, R>, &[Lanes<R>]),
    ) {
        let zero = [R::ZERO; LANES];
        self.products[..rows].fill(zero);
        self.gradients[..rows].fill(zero);
        add_products(&mut self.products[..rows], scores.0, scores.1);
        add_products(&mut self.gradients[..rows], gradients.0, gradients.1);
    }

    /// exp(score − log-sum-exp): products become scores, then probabilities. `rows` and `lanes` are positions.
    fn probabilities(
        &mut self,
        score: &HeadScore<'_, R>,
        rows: &[u32],
        lanes: &[u32],
        visible: Visible,
        log_sum_exp: &Lanes<R>,
    ) {
        let scores = &mut self.scores[..rows.len()];
        scores.copy_from_slice(&self.products[..rows.len()]);
        vectorised!({
            score.apply(scores, rows, lanes, visible);
            for (row, scores) in scores.iter_mut().enumerate() {
                let log_sum_exp = by_query(log_sum_exp, score.side, row);
                for lane in 0..LANES {
                    scores[lane] = (scores[lane] - log_sum_exp[lane]).exp();
                }
            }
        });
    }

    /// probability·(gradient − `delta`), through the score to the product; `delta` is Σ probability·gradient of each
    /// query.
    fn score_gradients(&mut self, score: &HeadScore<'_, R>, rows: usize, delta: &Lanes<R>) {
        let gradients = &mut self.gradients[..rows];
        let (probabilities, products) = (&self.scores[..rows], &self.products[..rows]);
        vectorised!({
            for (row, (gradients, probabilities)) in gradients.iter_mut().zip(probabilities).enumerate() {
                let delta = by_query(delta, score.side, row);
                for lane in 0..LANES {
                    gradients[lane] = probabilities[lane] * (gradients[lane] - delta[lane]);
                }
            }
            score.apply_backward(gradients, products);
        });
    }
}

/// What belongs to queries, for a row of a tile.
#[inline(always)]
fn by_query<R: Real>(values: &Lanes<R>, side: LaneSide, row: usize) -> Lanes<R> {
    match side {
        LaneSide::Queries => *values,
        LaneSide::Keys => [values[row]; LANES],
    }
}
