//! Materialised backward: gradients of the scores are a tensor, from which those of queries, keys and values come.

use pulp::{Arch, Simd, WithSimd};

use super::layout::{KeyValues, KeyValuesMut, RowTile, Window, WindowMut, Write, row_tiles};
use super::mask::Visible;
use super::materialised::{Probabilities, drop_gradients, each_square, weighted_sums};
use super::score::{HeadScore, LaneSide};
use super::tile::{
    COLUMN_BLOCKS, LANES, MAX_HEAD_DIM, Square, TokenRows, add_transposed_products, load_columns, load_rows,
    store_rows,
};
use super::{Core, Heads};
use crate::execute::element::{Element, Real};
use crate::execute::pool::Pool;

/// What the backward reads; [batch·queries, heads·value_dim] `output_gradient`.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a, T: Element> {
    pub queries: Window<'a, T>,
    pub keys_values: KeyValues<'a, T>,
    pub probabilities: Probabilities<'a, T>,
    pub output_gradient: &'a [T],
}

impl<'a, T: Element> Saved<'a, T> {
    fn check(&self, core: &Core<'_>) {
        core.check();
        let Heads { heads, kv_heads, query_dim, value_dim } = core.heads;
        let (tokens, keys) = (core.mask.query_positions.len(), core.mask.key_positions.len());
        self.queries.check("queries", core.batch * tokens, heads * query_dim);
        self.keys_values.keys().check("keys", core.batch * keys, kv_heads * query_dim);
        self.keys_values.values().check("values", core.batch * keys, kv_heads * value_dim);
        let pairs = core.batch * heads * tokens * keys;
        assert_eq!(self.probabilities.all.len(), pairs, "elements of the probabilities");
        assert_eq!(self.probabilities.kept.len(), pairs, "elements of the kept probabilities");
        assert_eq!(self.output_gradient.len(), core.batch * tokens * heads * value_dim, "output gradient");
    }

    fn output_gradient(&self, core: &Core<'_>, head: usize) -> Window<'a, T> {
        let (heads, width) = (core.heads.heads, core.heads.value_dim);
        Window { data: self.output_gradient, stride: heads * width, column: head * width }
    }
}

/// Gradients of the products of queries and keys into `gradients` [batch, heads, queries, keys]: the first step.
pub fn backward_scores<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    gradients: &mut [T],
    pool: Pool<'_>,
) {
    saved.check(core);
    let heads = core.heads.heads;
    let (tokens, keys) = (core.mask.query_positions.len(), core.mask.key_positions.len());
    assert_eq!(gradients.len(), saved.probabilities.all.len(), "elements of the score gradients");
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
    let values = saved.keys_values.values().right(kv_head * value_dim);
    each_square(core, sequence, (saved.output_gradient(core, head), values, value_dim), |mut square| {
        if square.visible == Visible::Nothing {
            square.products.fill([T::Wide::ZERO; LANES]);
        }
        drop_gradients(core, sequence, head, &mut square);
        let layout = (keys, square.first_lane, square.lanes.len());
        store_rows(square.products, &mut map[square.first_row * keys..], layout, Write::Set);
    });
    let scale = T::Wide::of(core.score.scale);
    for (row, probabilities) in map.chunks_exact_mut(keys).zip(probabilities.chunks_exact(keys)) {
        let scale = if core.score.soft_cap.is_some() { T::Wide::ONE } else { scale };
        Arch::new().dispatch(SoftmaxBackward { row, probabilities, scale });
    }
    if core.score.soft_cap.is_none() {
        return;
    }
    let score = HeadScore::new(&core.score, &core.mask, head, LaneSide::Keys);
    let keys_window = saved.keys_values.keys().right(kv_head * query_dim);
    let mut packed: TokenRows<T::Wide> = [T::Wide::ZERO; LANES * MAX_HEAD_DIM];
    let mut gradients: Square<T::Wide> = [[T::Wide::ZERO; LANES]; LANES];
    each_square(core, sequence, (saved.queries.right(head * query_dim), keys_window, query_dim), |square| {
        if square.visible == Visible::Nothing {
            return;
        }
        let (rows, lanes) = (square.rows.len(), square.lanes.len());
        let window = Window { data: &*map, stride: keys, column: square.first_lane };
        load_rows(&mut packed, window, lanes, square.first_row, rows);
        for (gradients, packed) in gradients.iter_mut().zip(packed.chunks_exact(lanes)).take(rows) {
            gradients[..lanes].copy_from_slice(packed);
        }
        score.apply_backward(&mut gradients[..rows], square.products);
        store_rows(
            &gradients[..rows],
            &mut map[square.first_row * keys..],
            (keys, square.first_lane, lanes),
            Write::Set,
        );
    });
}

/// row ← probability·(row − Σ probability·row)·scale
struct SoftmaxBackward<'a, T: Element> {
    row: &'a mut [T],
    probabilities: &'a [T],
    scale: T::Wide,
}

impl<T: Element> WithSimd for SoftmaxBackward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let mut sums = [T::Wide::ZERO; LANES];
        for (row, probabilities) in self.row.chunks(LANES).zip(self.probabilities.chunks(LANES)) {
            for ((sum, gradient), probability) in sums.iter_mut().zip(row).zip(probabilities) {
                *sum += gradient.wide() * probability.wide();
            }
        }
        let delta: T::Wide = sums.into_iter().sum();
        for (gradient, probability) in self.row.iter_mut().zip(self.probabilities) {
            *gradient = T::narrow(probability.wide() * (gradient.wide() - delta) * self.scale);
        }
    }
}

/// Gradients of the queries from those of the scores.
pub fn backward_queries<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    score_gradients: &[T],
    gradient: WindowMut<'_, T>,
    write: Write,
    pool: Pool<'_>,
) {
    saved.check(core);
    let WindowMut { data, stride, column } = gradient;
    let (tokens, dim) = (core.mask.query_positions.len(), core.heads.query_dim);
    assert_eq!(score_gradients.len(), saved.probabilities.all.len(), "elements of the score gradients");
    let window = Window { data: &*data, stride, column };
    window.check("query gradients", core.batch * tokens, core.heads.heads * dim);
    row_tiles(pool, tokens, (data, stride), |tile, rows| {
        weighted_sums(
            core,
            tile,
            score_gradients,
            saved.keys_values.keys(),
            rows,
            (stride, column, dim),
            write,
        );
    });
}

/// Gradients of keys and values from those of the scores, summed over the heads that share them.
pub fn backward_keys_values<T: Element>(
    core: &Core<'_>,
    saved: &Saved<'_, T>,
    score_gradients: &[T],
    gradients: KeyValuesMut<'_, T>,
    write: Write,
    pool: Pool<'_>,
) {
    saved.check(core);
    let Heads { heads, kv_heads, query_dim, value_dim } = core.heads;
    let KeyValuesMut { data, stride, keys, values } = gradients;
    assert_eq!(score_gradients.len(), saved.probabilities.all.len(), "elements of the score gradients");
    let tokens = core.mask.key_positions.len();
    let window = Window { data: &*data, stride, column: keys };
    window.check("key gradients", core.batch * tokens, kv_heads * query_dim);
    Window { column: values, ..window }.check("value gradients", core.batch * tokens, kv_heads * value_dim);
    let output_gradients = Window { data: saved.output_gradient, stride: heads * value_dim, column: 0 };
    let products = [
        (score_gradients, saved.queries, (stride, keys, query_dim)),
        (saved.probabilities.kept, output_gradients, (stride, values, value_dim)),
    ];
    row_tiles(pool, tokens, (data, stride), |tile, rows| {
        for (weights, sources, layout) in products {
            transposed_sums(core, tile, weights, sources, rows, layout, write);
        }
    });
}

/// Σ over queries, and over the heads of a group, of weight·row, for each key-value head of a tile of keys; as
/// [`weighted_sums`] but that `sources` hold a row a query and query head.
fn transposed_sums<T: Element>(
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
    let (count, group) = (rows.len() / stride, core.heads.group());
    let positions = &core.mask.key_positions[tile.first..tile.first + count];
    let mut packed: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut columns: Square<T::Wide> = [[zero; LANES]; LANES];
    let mut sums: [Square<T::Wide>; COLUMN_BLOCKS] = [columns; COLUMN_BLOCKS];
    for kv_head in 0..core.heads.kv_heads {
        sums.fill([[zero; LANES]; LANES]);
        for head in kv_head * group..(kv_head + 1) * group {
            let map = tile.sequence * core.heads.heads + head;
            for (turn, query_positions) in core.mask.query_positions.chunks(LANES).enumerate() {
                if core.mask.between(query_positions, positions) == Visible::Nothing {
                    continue;
                }
                let window = Window { data: weights, stride: keys, column: tile.first };
                load_rows(&mut packed, window, count, map * tokens + turn * LANES, query_positions.len());
                let columns = &mut columns[..query_positions.len()];
                for (block, sums) in sums.iter_mut().enumerate().take(width.div_ceil(LANES)) {
                    let first = tile.sequence * tokens + turn * LANES;
                    let sources = sources.right(head * width + block * LANES);
                    load_columns(columns, sources, width - block * LANES, first);
                    add_transposed_products(&mut sums[..count], &packed, columns);
                }
            }
        }
        for (block, sums) in sums.iter().enumerate().take(width.div_ceil(LANES)) {
            let first = column + kv_head * width + block * LANES;
            store_rows(&sums[..count], rows, (stride, first, width - block * LANES), write);
        }
    }
}
