//! Fused forward: scores of a tile of queries with a tile of keys, softmax on the way, nothing kept but log-sum-exps.
//! Dao 2023 (FlashAttention-2), algorithm 1.

pub use super::fused_backward::{Saved, backward_keys_values, backward_queries};
use super::layout::{KeyValues, RowTile, Window, row_tiles};
use super::mask::Visible;
use super::score::{HeadScore, LaneSide};
use super::tile::{
    LANES, Lanes, MAX_HEAD_DIM, Square, TokenLanes, TokenRows, WideRows, add_products,
    add_transposed_products, load_lanes, read_rows, scale_lanes, store_lanes,
};
use super::{Core, Heads};
use crate::execute::element::{Element, Real};
use crate::execute::kernels::each::vectorised;
use crate::execute::pool::{Pool, Rows};
use crate::lower::kernel::Into;

/// `output` [batch·queries, heads·value_dim] and `log_sum_exp` [batch·queries, heads] of these keys and values alone
/// ([`Into::Set`]), or together with those that both hold already ([`Into::Add`], a step of ring attention).
/// A query that sees no key has output 0 and log-sum-exp −∞.
pub fn forward<T: Element>(
    core: &Core<'_>,
    queries: Window<&[T]>,
    keys_values: KeyValues<&[T]>,
    output: &mut [T],
    log_sum_exp: &mut [T::Wide],
    write: Into,
    pool: Pool<'_>,
) {
    core.check(&queries, &keys_values);
    let Heads { heads, value_dim, .. } = core.heads;
    let tokens = core.tokens().0;
    assert_eq!(output.len(), core.outputs(), "elements of the output");
    assert_eq!(log_sum_exp.len(), core.batch * tokens * heads, "elements of the log-sum-exp");
    let rows = (Rows(output, heads * value_dim), Rows(log_sum_exp, heads));
    row_tiles(pool, (core.batch, tokens), rows, |tile, (output, log_sum_exp)| {
        forward_tile(core, tile, queries, keys_values, output.0, log_sum_exp.0, write);
    });
}

fn forward_tile<T: Element>(
    core: &Core<'_>,
    tile: RowTile,
    queries: Window<&[T]>,
    keys_values: KeyValues<&[T]>,
    output: &mut [T],
    log_sum_exp: &mut [T::Wide],
    write: Into,
) {
    let zero = T::Wide::ZERO;
    let Heads { heads, query_dim, value_dim, .. } = core.heads;
    let count = log_sum_exp.len() / heads;
    let (tokens, key_tokens) = core.tokens();
    let positions = &core.mask.query_positions[tile.first..tile.first + count];
    let mut query: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut sums: TokenLanes<T::Wide> = [[zero; LANES]; MAX_HEAD_DIM];
    let mut copy: TokenRows<T::Wide> = [zero; LANES * MAX_HEAD_DIM];
    let mut scores: Square<T::Wide> = [[zero; LANES]; LANES];
    for head in 0..heads {
        let kv_head = head / core.heads.group();
        let (query, sums) = (&mut query[..query_dim], &mut sums[..value_dim]);
        load_lanes(query, queries.right(head * query_dim), tile.sequence * tokens + tile.first, count);
        let (keys, values) = (keys_values.keys(), keys_values.values());
        let (keys, values) = (keys.right(kv_head * query_dim), values.right(kv_head * value_dim));
        let mut softmax = Softmax::new();
        if write == Into::Add {
            softmax.resume(log_sum_exp.iter().skip(head).step_by(heads));
            load_lanes(sums, core.output(output, head), 0, count);
        } else {
            sums.fill([zero; LANES]);
        }
        let score = HeadScore::new(core, tile.sequence, head, LaneSide::Queries);
        for (turn, key_positions) in core.mask.key_positions.chunks(LANES).enumerate() {
            let visible = core.mask.between(positions, key_positions);
            if visible == Visible::Nothing {
                continue;
            }
            let (first, count) = (tile.sequence * key_tokens + turn * LANES, key_positions.len());
            let scores = &mut scores[..count];
            scores.fill([zero; LANES]);
            add_products(scores, read_rows(&mut copy, (keys, query_dim), first, count), query);
            // Products become weights, and join the softmax.
            vectorised!({
                score.apply(scores, key_positions, positions, visible);
                softmax.take(scores, sums);
            });
            score.drop_out(scores, key_positions, positions);
            add_transposed_products(sums, read_rows(&mut copy, (values, value_dim), first, count), scores);
        }
        let inverse = softmax.inverse_sums();
        sums.iter_mut()
            .for_each(|sums| sums.iter_mut().zip(&inverse).for_each(|(sum, &inverse)| *sum *= inverse));
        store_lanes(sums, output, (heads * value_dim, head * value_dim), Into::Set);
        let places = log_sum_exp.iter_mut().skip(head).step_by(heads);
        places.zip(softmax.log_sum_exps()).for_each(|(place, value)| *place = value);
    }
}

/// The softmax so far, of a query in each lane: the greatest score, and Σ exp(score − greatest).
struct Softmax<R> {
    greatest: Lanes<R>,
    sum: Lanes<R>,
}

impl<R: Real> Softmax<R> {
    fn new() -> Self {
        Self { greatest: [R::NEG_INFINITY; LANES], sum: [R::ZERO; LANES] }
    }

    /// Goes on from log-sum-exps: as if one key had had all of the weight.
    fn resume<'a>(&mut self, log_sum_exps: impl Iterator<Item = &'a R>) {
        for (lane, &value) in log_sum_exps.take(LANES).enumerate() {
            self.greatest[lane] = value;
            self.sum[lane] = if value == R::NEG_INFINITY { R::ZERO } else { R::ONE };
        }
    }

    /// Scores become exp(score − greatest); `weighted`, summed so far, is scaled to the new greatest.
    #[inline(always)]
    fn take(&mut self, scores: &mut [Lanes<R>], weighted: &mut [Lanes<R>]) {
        let mut greatest = self.greatest;
        for scores in scores.iter() {
            for lane in 0..LANES {
                greatest[lane] = if scores[lane] > greatest[lane] { scores[lane] } else { greatest[lane] };
            }
        }
        let mut factors = [R::ONE; LANES];
        let mut shifts = [R::ZERO; LANES];
        for lane in 0..LANES {
            // Nothing seen yet: −∞ − −∞ would not be a number.
            shifts[lane] = if greatest[lane] == R::NEG_INFINITY { R::ZERO } else { greatest[lane] };
            factors[lane] = (self.greatest[lane] - shifts[lane]).exp();
            self.sum[lane] *= factors[lane];
        }
        for scores in scores.iter_mut() {
            for lane in 0..LANES {
                scores[lane] = (scores[lane] - shifts[lane]).exp();
            }
        }
        if factors != [R::ONE; LANES] {
            scale_lanes(weighted, &factors);
        }
        self.greatest = greatest;
        // Ones times weights: the sum stays in registers.
        let ones = WideRows { data: &[R::ONE; LANES], stride: LANES };
        add_products(std::slice::from_mut(&mut self.sum), ones, scores);
    }

    fn inverse_sums(&self) -> Lanes<R> {
        self.sum.map(|sum| if sum == R::ZERO { R::ZERO } else { R::ONE / sum })
    }

    fn log_sum_exps(&self) -> Lanes<R> {
        // ln 0 = −∞, and so is the greatest score then.
        std::array::from_fn(|lane| self.greatest[lane] + self.sum[lane].ln())
    }
}
