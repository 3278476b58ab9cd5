//! Fused backward: scores are made again from log-sum-exps, once for the queries' gradients and once for those of keys
//! and values, so that each sum stays with one thread. Dao 2023 (FlashAttention-2), algorithm 2.

use pulp::{Arch, Simd, WithSimd};

use super::fused::drop_out;
use super::layout::{KeyValues, KeyValuesMut, RowTile, Window, WindowMut, Write, row_tiles};
use super::mask::Visible;
use super::score::{HeadScore, LaneSide};
use super::tile::{
    LANES, Lanes, MAX_HEAD_DIM, Square, TokenLanes, TokenRows, add_products, add_transposed_products, dot,
    load_lanes, load_rows, store_lanes,
};
use super::{Core, Heads, Pair};
use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;

/// What the backward reads: queries, keys and values, and [batch·queries, heads·value_dim] `output` and its gradient,
/// [batch·queries, heads] `log_sum_exp` of all keys (of all ring steps).
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, T: Element> {
    pub queries: Window<'a, T>,
    pub keys_values: KeyValues<'a, T>,
    pub output: &'a [T],
    pub output_gradient: &'a [T],
    pub log_sum_exp: &'a [T::Wide],
}

impl<'a, T: Element> Saved<'a, T> {
    fn check(&self, core: &Core<'_>) {
        core.check();
        let Heads { heads, kv_heads, query_dim, value_dim } = core.heads;
        let rows = core.batch * core.mask.query_positions.len();
        let key_rows = core.batch * core.mask.key_positions.len();
        self.queries.check("queries", rows, heads * query_dim);
        self.keys_values.keys().check("keys", key_rows, kv_heads * query_dim);
        self.keys_values.values().check("values", key_rows, kv_heads * value_dim);
        assert_eq!(self.output.len(), rows * heads * value_dim, "elements of the output");
        assert_eq!(self.output_gradient.len(), self.output.len(), "elements of the output gradient");
        assert_eq!(self.log_sum_exp.len(), rows * heads, "elements of the log-sum-exp");
    }

    fn output_gradient(&self, core: &Core<'_>, head: usize) -> Window<'a, T> {
        let (heads, width) = (core.heads.heads, core.heads.value_dim);
        Window { data: self.output_gradient, stride: heads * width, column: head * width }
    }

    /// Log-sum-exps (0 where there was no key, so that exp(−∞ − it) is 0) and Σ output·gradient of a head.
    fn statistics(&self, core: &Core<'_>, head: usize, first: usize, count: usize) -> Statistics<T::Wide> {
        let gradients = self.output_gradient(core, head);
        let outputs = Window { data: self.output, ..gradients };
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
    gradient: WindowMut<'_, T>,
    write: Write,
    pool: Pool<'_>,
) {
    saved.check(core);
    let WindowMut { data, stride, column } = gradient;
    let tokens = core.mask.query_positions.len();
    Window { data: &*data, stride, column }.check(
        "query gradients",
        core.batch * tokens,
        core.heads.heads * core.heads.query_dim,
    );
    row_tiles(pool, tokens, (data, stride), |tile, rows| {
        queries_tile(core, saved, tile, rows, (stride, column), write);
    });
}

fn queries_tile<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    tile: RowTile,
    gradients: &mut [T],
    (stride, column): (usize, usize),
    write: Write,
) {
    let zero = T::Wide::ZERO;
    let Heads { heads, query_dim, value_dim, .. } = core.heads;
    let count = gradients.len() / stride;
    let first = tile.sequence * core.mask.query_positions.len() + tile.first;
    let positions = &core.mask.query_positions[tile.first..tile.first + count];
    let mut query: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut output_gradient: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut sums: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut keys: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut values: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut squares = Squares::new();
    for head in 0..heads {
        let kv_head = head / core.heads.group();
        let key_window = saved.keys_values.keys().right(kv_head * query_dim);
        let value_window = saved.keys_values.values().right(kv_head * value_dim);
        let (query, sums) = (&mut query[..query_dim], &mut sums[..query_dim]);
        let output_gradient = &mut output_gradient[..value_dim];
        load_lanes(query, saved.queries.right(head * query_dim), first, count);
        load_lanes(output_gradient, saved.output_gradient(core, head), first, count);
        sums.fill([zero; LANES]);
        let statistics = saved.statistics(core, head, first, count);
        let score = HeadScore::new(&core.score, &core.mask, head, LaneSide::Queries);
        for (turn, key_positions) in core.mask.key_positions.chunks(LANES).enumerate() {
            let visible = core.mask.between(positions, key_positions);
            if visible == Visible::Nothing {
                continue;
            }
            let first = tile.sequence * core.mask.key_positions.len() + turn * LANES;
            load_rows(&mut keys, key_window, query_dim, first, key_positions.len());
            load_rows(&mut values, value_window, value_dim, first, key_positions.len());
            squares.fill(key_positions.len(), (&keys, query), (&values, output_gradient));
            squares.probabilities(&score, key_positions, positions, visible, &statistics.log_sum_exp);
            if let Some(dropout) = &core.dropout {
                let pair = |row: usize, lane: usize| Pair {
                    sequence: tile.sequence,
                    head,
                    query: positions[lane],
                    key: key_positions[row],
                };
                drop_out(dropout, &mut squares.gradients[..key_positions.len()], pair, count);
            }
            squares.score_gradients(&score, key_positions.len(), &statistics.delta);
            add_transposed_products(sums, &keys, &squares.gradients[..key_positions.len()]);
        }
        store_lanes(sums, gradients, (stride, column + head * query_dim), write);
    }
}

/// Gradients of keys and values into `gradients` [batch·keys, ..], summed over the heads that share them.
pub fn backward_keys_values<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    gradients: KeyValuesMut<'_, T>,
    write: Write,
    pool: Pool<'_>,
) {
    saved.check(core);
    let Heads { kv_heads, query_dim, value_dim, .. } = core.heads;
    let KeyValuesMut { data, stride, keys, values } = gradients;
    let tokens = core.mask.key_positions.len();
    let window = Window { data: &*data, stride, column: keys };
    window.check("key gradients", core.batch * tokens, kv_heads * query_dim);
    Window { column: values, ..window }.check("value gradients", core.batch * tokens, kv_heads * value_dim);
    row_tiles(pool, tokens, (data, stride), |tile, rows| {
        let gradients = KeyValuesMut { data: rows, stride, keys, values };
        keys_values_tile(core, saved, tile, gradients, write);
    });
}

fn keys_values_tile<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    tile: RowTile,
    gradients: KeyValuesMut<'_, T>,
    write: Write,
) {
    let zero = T::Wide::ZERO;
    let Heads { kv_heads, query_dim, value_dim, .. } = core.heads;
    let KeyValuesMut { data, stride, keys, values } = gradients;
    let count = data.len() / stride;
    let first_key = tile.sequence * core.mask.key_positions.len() + tile.first;
    let positions = &core.mask.key_positions[tile.first..tile.first + count];
    let mut key: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut value: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut key_sums: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut value_sums: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut queries: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut output_gradients: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut squares = Squares::new();
    for kv_head in 0..kv_heads {
        let (key, value) = (&mut key[..query_dim], &mut value[..value_dim]);
        let (key_sums, value_sums) = (&mut key_sums[..query_dim], &mut value_sums[..value_dim]);
        load_lanes(key, saved.keys_values.keys().right(kv_head * query_dim), first_key, count);
        load_lanes(value, saved.keys_values.values().right(kv_head * value_dim), first_key, count);
        key_sums.fill([zero; LANES]);
        value_sums.fill([zero; LANES]);
        for head in kv_head * core.heads.group()..(kv_head + 1) * core.heads.group() {
            let score = HeadScore::new(&core.score, &core.mask, head, LaneSide::Keys);
            for (turn, query_positions) in core.mask.query_positions.chunks(LANES).enumerate() {
                let visible = core.mask.between(query_positions, positions);
                if visible == Visible::Nothing {
                    continue;
                }
                let rows = query_positions.len();
                let first = tile.sequence * core.mask.query_positions.len() + turn * LANES;
                let statistics = saved.statistics(core, head, first, rows);
                load_rows(&mut queries, saved.queries.right(head * query_dim), query_dim, first, rows);
                load_rows(&mut output_gradients, saved.output_gradient(core, head), value_dim, first, rows);
                squares.fill(rows, (&queries, key), (&output_gradients, value));
                squares.probabilities(&score, query_positions, positions, visible, &statistics.log_sum_exp);
                let mut kept = squares.scores;
                if let Some(dropout) = &core.dropout {
                    let pair = |row: usize, lane: usize| Pair {
                        sequence: tile.sequence,
                        head,
                        query: query_positions[row],
                        key: positions[lane],
                    };
                    drop_out(dropout, &mut kept[..rows], pair, count);
                    drop_out(dropout, &mut squares.gradients[..rows], pair, count);
                }
                add_transposed_products(value_sums, &output_gradients, &kept[..rows]);
                squares.score_gradients(&score, rows, &statistics.delta);
                add_transposed_products(key_sums, &queries, &squares.gradients[..rows]);
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

    /// Products of queries with keys, and of output gradients with values: `rows` packed rows with lanes.
    fn fill(&mut self, rows: usize, scores: (&[R], &[Lanes<R>]), gradients: (&[R], &[Lanes<R>])) {
        let zero = [R::ZERO; LANES];
        self.products[..rows].fill(zero);
        self.gradients[..rows].fill(zero);
        add_products(&mut self.products[..rows], scores.0, scores.1);
        add_products(&mut self.gradients[..rows], gradients.0, gradients.1);
    }

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
        let side = score.side();
        Arch::new().dispatch(Probabilities { score, scores, rows, lanes, visible, log_sum_exp, side });
    }

    fn score_gradients(&mut self, score: &HeadScore<'_, R>, rows: usize, delta: &Lanes<R>) {
        let (gradients, side) = (&mut self.gradients[..rows], score.side());
        let (probabilities, products) = (&self.scores[..rows], &self.products[..rows]);
        Arch::new().dispatch(ScoreGradients { score, gradients, probabilities, products, delta, side });
    }
}

/// exp(score − log-sum-exp): products become scores, then probabilities.
struct Probabilities<'a, R> {
    score: &'a HeadScore<'a, R>,
    scores: &'a mut [Lanes<R>],
    /// Positions.
    rows: &'a [u32],
    lanes: &'a [u32],
    visible: Visible,
    log_sum_exp: &'a Lanes<R>,
    side: LaneSide,
}

impl<R: Real> WithSimd for Probabilities<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.score.apply(self.scores, self.rows, self.lanes, self.visible);
        for (row, scores) in self.scores.iter_mut().enumerate() {
            let log_sum_exp = by_query(self.log_sum_exp, self.side, row);
            for lane in 0..LANES {
                scores[lane] = (scores[lane] - log_sum_exp[lane]).exp();
            }
        }
    }
}

/// probability·(gradient − Σ probability·gradient), through the score to the product.
struct ScoreGradients<'a, R> {
    score: &'a HeadScore<'a, R>,
    gradients: &'a mut [Lanes<R>],
    probabilities: &'a [Lanes<R>],
    products: &'a [Lanes<R>],
    /// Σ probability·gradient of each query.
    delta: &'a Lanes<R>,
    side: LaneSide,
}

impl<R: Real> WithSimd for ScoreGradients<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (row, (gradients, probabilities)) in self.gradients.iter_mut().zip(self.probabilities).enumerate()
        {
            let delta = by_query(self.delta, self.side, row);
            for lane in 0..LANES {
                gradients[lane] = probabilities[lane] * (gradients[lane] - delta[lane]);
            }
        }
        self.score.apply_backward(self.gradients, self.products);
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
