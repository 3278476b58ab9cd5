//! Materialised forward: scores and probabilities are tensors [batch, heads, queries, keys].

use super::layout::{KeyValues, RowTile, Window, row_tiles};
use super::mask::Visible;
use super::score::{HeadScore, LaneSide};
use super::tile::{
    COLUMN_BLOCKS, LANES, Lanes, MAX_HEAD_DIM, Square, TokenLanes, TokenRows, add_products,
    add_transposed_products, load_lanes, load_rows, read_rows, store_rows,
};
use super::{Core, Heads, Pair};
use crate::execute::element::{Element, Real};
use crate::execute::kernels::each::vectorised;
use crate::execute::pool::{Pool, Rows};
use crate::lower::kernel::Into;

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
    queries: Window<&[T]>,
    keys_values: KeyValues<&[T]>,
    probabilities: &mut [T],
    kept: &mut [T],
    output: &mut [T],
    pool: Pool<'_>,
) {
    core.check(&queries, &keys_values);
    let Heads { heads, value_dim, .. } = core.heads;
    let ((tokens, keys), pairs) = (core.tokens(), core.pairs());
    assert_eq!(probabilities.len(), pairs, "elements of the probabilities");
    assert_eq!(
        kept.len(),
        if core.dropout.is_some() { pairs } else { 0 },
        "elements of the kept probabilities"
    );
    assert_eq!(output.len(), core.outputs(), "elements of the output");
    if output.is_empty() || keys == 0 {
        return output.fill(T::default());
    }
    pool.rows(probabilities, tokens * keys, |first, maps| {
        for (turn, map) in maps.chunks_exact_mut(tokens * keys).enumerate() {
            let (sequence, head) = ((first + turn) / heads, (first + turn) % heads);
            scores(core, sequence, head, queries, keys_values.keys(), map);
            map.chunks_exact_mut(keys).for_each(|row| vectorised!(softmax(row)));
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
    row_tiles(pool, (core.batch, tokens), Rows(output, heads * value_dim), |tile, rows| {
        let layout = (heads * value_dim, 0, value_dim);
        let sides = (LaneSide::Queries, weights, keys_values.values());
        weighted_sums(core, tile, sides, rows.0, layout, Into::Set);
    });
}

/// Scores of one head of one sequence into `map` [queries, keys].
fn scores<T: Element>(
    core: &Core<'_>,
    sequence: usize,
    head: usize,
    queries: Window<&[T]>,
    keys: Window<&[T]>,
    map: &mut [T],
) {
    let score = HeadScore::new(core, sequence, head, LaneSide::Keys);
    let dim = core.heads.query_dim;
    let keys = keys.right(head / core.heads.group() * dim);
    each_square(core, sequence, (queries.right(head * dim), keys, dim), |square| {
        let Products { first_row, first_lane, rows, lanes, visible, products } = square;
        if visible == Visible::Nothing {
            products.fill([T::Wide::NEG_INFINITY; LANES]);
        } else {
            vectorised!(score.apply(products, rows, lanes, visible));
        }
        let layout = (core.mask.key_positions.len(), first_lane, lanes.len());
        store_rows(products, &mut map[first_row * layout.0..], layout, Into::Set);
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
    (left, right, width): (Window<&[T]>, Window<&[T]>, usize),
    mut work: impl FnMut(Products<'_, T::Wide>),
) {
    let zero = T::Wide::ZERO;
    let (queries, keys) = (core.mask.query_positions, core.mask.key_positions);
    let mut transposed: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut copy: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut square: Square<T::Wide> = [[zero; LANES]; LANES];
    for (turn, lanes) in keys.chunks(LANES).enumerate() {
        let first_lane = turn * LANES;
        load_lanes(&mut transposed[..width], right, sequence * keys.len() + first_lane, lanes.len());
        for (turn, rows) in queries.chunks(LANES).enumerate() {
            let first_row = turn * LANES;
            let visible = core.mask.between(rows, lanes);
            let products = &mut square[..rows.len()];
            if visible != Visible::Nothing {
                let first = sequence * queries.len() + first_row;
                let left = read_rows(&mut copy, (left, width), first, rows.len());
                products.fill([zero; LANES]);
                add_products(products, left, &transposed[..width]);
            }
            work(Products { first_row, first_lane, rows, lanes, visible, products });
        }
    }
}

/// A row of scores becomes probabilities; all zero where nothing is visible.
#[inline(always)]
fn softmax<T: Element>(row: &mut [T]) {
    let mut lanes = [T::Wide::NEG_INFINITY; LANES];
    for part in row.chunks(LANES) {
        for (greatest, score) in lanes.iter_mut().zip(part) {
            *greatest = if score.wide() > *greatest { score.wide() } else { *greatest };
        }
    }
    let greatest = lanes.into_iter().fold(T::Wide::NEG_INFINITY, T::Wide::max);
    if greatest == T::Wide::NEG_INFINITY {
        return row.fill(T::default());
    }
    let mut sums = [T::Wide::ZERO; LANES];
    for part in row.chunks_mut(LANES) {
        for (sum, score) in sums.iter_mut().zip(part) {
            let weight = (score.wide() - greatest).exp();
            *sum += weight;
            *score = T::narrow(weight);
        }
    }
    let inverse = T::Wide::ONE / sums.into_iter().sum();
    for weight in row {
        *weight = T::narrow(weight.wide() * inverse);
    }
}

/// Σ of weight·row for a tile of tokens of `side`: over the keys for each query and query head, or over the queries and
/// the heads that share it for each key and key-value head. `weights` are [batch, heads, queries, keys]; `sources` hold
/// a row a token of the other side, for each of its heads; sums go to columns of `rows` (stride, first column, head
/// width).
pub(super) fn weighted_sums<T: Element>(
    core: &Core<'_>,
    tile: RowTile,
    (side, weights, sources): (LaneSide, &[T], Window<&[T]>),
    rows: &mut [T],
    (stride, column, width): (usize, usize, usize),
    write: Into,
) {
    let zero = T::Wide::ZERO;
    let (heads, (tokens, key_tokens)) = (core.heads, core.tokens());
    let of_queries = side == LaneSide::Queries;
    let (own_heads, others) = if of_queries { (heads.heads, key_tokens) } else { (heads.kv_heads, tokens) };
    let own = tile.first..tile.first + rows.len() / stride;
    let mut copy: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut columns: Square<T::Wide> = [[zero; LANES]; LANES];
    let mut sums: [Square<T::Wide>; COLUMN_BLOCKS] = [columns; COLUMN_BLOCKS];
    let sums = &mut sums[..width.div_ceil(LANES)];
    for own_head in 0..own_heads {
        sums.fill([[zero; LANES]; LANES]);
        for head in if of_queries { own_head..own_head + 1 } else { heads.sharing(own_head) } {
            let sources = sources.right(width * if of_queries { head / heads.group() } else { head });
            for first in (0..others).step_by(LANES) {
                let other = first..others.min(first + LANES);
                let (queries, keys) = if of_queries { (&own, &other) } else { (&other, &own) };
                let positions = &core.mask.query_positions[queries.clone()];
                let visible = core.mask.between(positions, &core.mask.key_positions[keys.clone()]);
                if visible == Visible::Nothing {
                    continue;
                }
                let window = Window { data: weights, stride: key_tokens, column: keys.start };
                let row = (tile.sequence * heads.heads + head) * tokens + queries.start;
                let weights = read_rows(&mut copy, (window, keys.len()), row, queries.len());
                let columns = &mut columns[..other.len()];
                for (block, sums) in sums.iter_mut().enumerate() {
                    let source = (sources.right(block * LANES), LANES.min(width - block * LANES));
                    let row = tile.sequence * others + first;
                    load_rows(columns.as_flattened_mut(), LANES, source, row, other.len());
                    let add = if of_queries { add_products } else { add_transposed_products };
                    add(&mut sums[..own.len()], weights, columns);
                }
            }
        }
        for (block, sums) in sums.iter().enumerate() {
            let first = column + own_head * width + block * LANES;
            store_rows(&sums[..own.len()], rows, (stride, first, width - block * LANES), write);
        }
    }
}
