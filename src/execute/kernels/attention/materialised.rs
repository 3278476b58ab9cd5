//! Materialised forward: scores and probabilities are tensors [batch, heads, queries, keys].

use pulp::{Arch, Simd, WithSimd};

use super::fused::drop_out;
use super::layout::{KeyValues, RowTile, Window, Write, row_tiles};
use super::mask::Visible;
pub use super::materialised_backward::{Saved, backward_keys_values, backward_queries, backward_scores};
use super::score::{HeadScore, LaneSide};
use super::tile::{
    COLUMN_BLOCKS, LANES, Lanes, MAX_HEAD_DIM, Square, TokenLanes, TokenRows, add_products, load_columns,
    load_lanes, load_rows, store_rows,
};
use super::{Core, Heads, Pair};
use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;

/// Probabilities, as all passes share them: [batch, heads, queries, keys].
#[derive(Clone, Copy, Debug)]
pub struct Probabilities<'a, T> {
    pub all: &'a [T],
    /// What dropout left of them, scaled; `all` where there is no dropout.
    pub kept: &'a [T],
}

/// `probabilities`, with dropout what it leaves of them in `kept` (else empty), and `output`
/// [batch·queries, heads·value_dim].
pub fn forward<T: Element>(
    core: &Core<'_>,
    queries: Window<'_, T>,
    keys_values: KeyValues<'_, T>,
    probabilities: &mut [T],
    kept: &mut [T],
    output: &mut [T],
    pool: Pool<'_>,
) {
    core.check();
    let Heads { heads, kv_heads, query_dim, value_dim } = core.heads;
    let (tokens, keys) = (core.mask.query_positions.len(), core.mask.key_positions.len());
    let pairs = core.batch * heads * tokens * keys;
    queries.check("queries", core.batch * tokens, heads * query_dim);
    keys_values.keys().check("keys", core.batch * keys, kv_heads * query_dim);
    keys_values.values().check("values", core.batch * keys, kv_heads * value_dim);
    assert_eq!(probabilities.len(), pairs, "elements of the probabilities");
    assert_eq!(
        kept.len(),
        if core.dropout.is_some() { pairs } else { 0 },
        "elements of the kept probabilities"
    );
    assert_eq!(output.len(), core.batch * tokens * heads * value_dim, "elements of the output");
    if output.is_empty() || keys == 0 {
        return output.fill(T::default());
    }
    pool.rows(probabilities, tokens * keys, |first, maps| {
        for (turn, map) in maps.chunks_exact_mut(tokens * keys).enumerate() {
            let (sequence, head) = ((first + turn) / heads, (first + turn) % heads);
            scores(core, sequence, head, queries, keys_values.keys(), map);
            map.chunks_exact_mut(keys).for_each(|row| Arch::new().dispatch(Softmax(row)));
        }
    });
    if let Some(dropout) = &core.dropout {
        let all = &*probabilities;
        pool.rows(kept, keys, |first, rows| {
            for (turn, row) in rows.chunks_exact_mut(keys).enumerate() {
                let (map, query) =
                    ((first + turn) / tokens, core.mask.query_positions[(first + turn) % tokens]);
                let source = &all[(first + turn) * keys..][..keys];
                for ((place, &value), &key) in row.iter_mut().zip(source).zip(core.mask.key_positions) {
                    let pair = Pair { sequence: map / heads, head: map % heads, query, key };
                    let scale = if (dropout.keep)(pair) { T::Wide::of(dropout.scale) } else { T::Wide::ZERO };
                    *place = T::narrow(value.wide() * scale);
                }
            }
        });
    }
    let weights = if core.dropout.is_some() { &*kept } else { &*probabilities };
    row_tiles(pool, tokens, (output, heads * value_dim), |tile, rows| {
        let layout = (heads * value_dim, 0, value_dim);
        weighted_sums(core, tile, weights, keys_values.values(), rows, layout, Write::Set);
    });
}

/// Scores of one head of one sequence into `map` [queries, keys].
fn scores<T: Element>(
    core: &Core<'_>,
    sequence: usize,
    head: usize,
    queries: Window<'_, T>,
    keys: Window<'_, T>,
    map: &mut [T],
) {
    let score = HeadScore::new(&core.score, &core.mask, head, LaneSide::Keys);
    let dim = core.heads.query_dim;
    let keys = keys.right(head / core.heads.group() * dim);
    each_square(core, sequence, (queries.right(head * dim), keys, dim), |square| {
        let Products { first_row, first_lane, rows, lanes, visible, products } = square;
        if visible == Visible::Nothing {
            products.fill([T::Wide::NEG_INFINITY; LANES]);
        } else {
            Arch::new().dispatch(Apply { score: &score, products, rows, lanes, visible });
        }
        let layout = (core.mask.key_positions.len(), first_lane, lanes.len());
        store_rows(products, &mut map[first_row * layout.0..], layout, Write::Set);
    });
}

/// Products of a tile of queries (rows) with a tile of keys (lanes).
pub(super) struct Products<'a, R> {
    pub first_row: usize,
    pub first_lane: usize,
    /// Positions of the queries.
    pub rows: &'a [u32],
    /// Positions of the keys.
    pub lanes: &'a [u32],
    pub visible: Visible,
    /// Not computed where nothing is visible.
    pub products: &'a mut [Lanes<R>],
}

/// Runs `work` over the products of rows of `left`, one a query, with rows of `right`, one a key, of one sequence.
pub(super) fn each_square<T: Element>(
    core: &Core<'_>,
    sequence: usize,
    (left, right, width): (Window<'_, T>, Window<'_, T>, usize),
    mut work: impl FnMut(Products<'_, T::Wide>),
) {
    let zero = T::Wide::ZERO;
    let (queries, keys) = (core.mask.query_positions, core.mask.key_positions);
    let mut transposed: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut packed: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut square: Square<T::Wide> = [[zero; LANES]; LANES];
    for (turn, lanes) in keys.chunks(LANES).enumerate() {
        let first_lane = turn * LANES;
        load_lanes(&mut transposed[..width], right, sequence * keys.len() + first_lane, lanes.len());
        for (turn, rows) in queries.chunks(LANES).enumerate() {
            let first_row = turn * LANES;
            let visible = core.mask.between(rows, lanes);
            let products = &mut square[..rows.len()];
            if visible != Visible::Nothing {
                load_rows(&mut packed, left, width, sequence * queries.len() + first_row, rows.len());
                products.fill([zero; LANES]);
                add_products(products, &packed, &transposed[..width]);
            }
            work(Products { first_row, first_lane, rows, lanes, visible, products });
        }
    }
}

struct Apply<'a, R> {
    score: &'a HeadScore<'a, R>,
    products: &'a mut [Lanes<R>],
    rows: &'a [u32],
    lanes: &'a [u32],
    visible: Visible,
}

impl<R: Real> WithSimd for Apply<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.score.apply(self.products, self.rows, self.lanes, self.visible);
    }
}

/// A row of scores becomes probabilities; all zero where nothing is visible.
struct Softmax<'a, T>(&'a mut [T]);

impl<T: Element> WithSimd for Softmax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let mut lanes = [T::Wide::NEG_INFINITY; LANES];
        for part in self.0.chunks(LANES) {
            for (greatest, score) in lanes.iter_mut().zip(part) {
                *greatest = if score.wide() > *greatest { score.wide() } else { *greatest };
            }
        }
        let greatest = lanes.into_iter().fold(T::Wide::NEG_INFINITY, T::Wide::max);
        if greatest == T::Wide::NEG_INFINITY {
            return self.0.fill(T::default());
        }
        let mut sums = [T::Wide::ZERO; LANES];
        for part in self.0.chunks_mut(LANES) {
            for (sum, score) in sums.iter_mut().zip(part) {
                let weight = (score.wide() - greatest).exp();
                *sum += weight;
                *score = T::narrow(weight);
            }
        }
        let inverse = T::Wide::ONE / sums.into_iter().sum();
        for weight in self.0 {
            *weight = T::narrow(weight.wide() * inverse);
        }
    }
}

/// Σ over keys of weight·row, for each query head of a tile of queries: `weights` are [batch, heads, queries, keys],
/// `sources` hold a row a key and key-value head; sums go to columns of `rows` (stride, first column, head width).
pub(super) fn weighted_sums<T: Element>(
    core: &Core<'_>,
    tile: RowTile,
    weights: &[T],
    sources: Window<'_, T>,
    rows: &mut [T],
    (stride, column, width): (usize, usize, usize),
    write: Write,
) {
    let zero = T::Wide::ZERO;
    let (tokens, keys) = (core.mask.query_positions.len(), core.mask.key_positions.len());
    let count = rows.len() / stride;
    let positions = &core.mask.query_positions[tile.first..tile.first + count];
    let mut packed: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut columns: Square<T::Wide> = [[zero; LANES]; LANES];
    let mut sums: [Square<T::Wide>; COLUMN_BLOCKS] = [columns; COLUMN_BLOCKS];
    for head in 0..core.heads.heads {
        let sources = sources.right(head / core.heads.group() * width);
        let map = tile.sequence * core.heads.heads + head;
        sums.fill([[zero; LANES]; LANES]);
        for (turn, key_positions) in core.mask.key_positions.chunks(LANES).enumerate() {
            if core.mask.between(positions, key_positions) == Visible::Nothing {
                continue;
            }
            let window = Window { data: weights, stride: keys, column: turn * LANES };
            load_rows(&mut packed, window, key_positions.len(), map * tokens + tile.first, count);
            let columns = &mut columns[..key_positions.len()];
            for (block, sums) in sums.iter_mut().enumerate().take(width.div_ceil(LANES)) {
                let first = tile.sequence * keys + turn * LANES;
                load_columns(columns, sources.right(block * LANES), width - block * LANES, first);
                add_products(&mut sums[..count], &packed, columns);
            }
        }
        for (block, sums) in sums.iter().enumerate().take(width.div_ceil(LANES)) {
            let first = column + head * width + block * LANES;
            store_rows(&sums[..count], rows, (stride, first, width - block * LANES), write);
        }
    }
}

/// Gradients of a tile's probabilities through dropout: `products` are those of output gradients with values.
pub(super) fn drop_gradients<R: Real>(
    core: &Core<'_>,
    sequence: usize,
    head: usize,
    square: &mut Products<'_, R>,
) {
    if let Some(dropout) = &core.dropout {
        let (rows, lanes) = (square.rows, square.lanes);
        let pair = |row: usize, lane: usize| Pair { sequence, head, query: rows[row], key: lanes[lane] };
        drop_out(dropout, square.products, pair, lanes.len());
    }
}
