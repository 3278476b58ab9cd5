//! Cross-entropy over a shard of the vocabulary: statistics of each row, which shards merge, and the gradient in place.

use std::ops::Range;

use super::each::{each, inlined, sum};
use crate::execute::element::{Element, Real};
use crate::execute::pool::{Pool, Rows};
use crate::execute::vector::LANES;

/// The columns of a matrix of logits: `width` in all, of which the first `vocabulary.len()` are these words; the rest
/// is padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    pub width: usize,
    pub vocabulary: Range<usize>,
}

impl Shard {
    /// The column of a word, if this shard has it.
    fn column(&self, word: u32) -> Option<usize> {
        let word = word as usize;
        self.vocabulary.contains(&word).then(|| word - self.vocabulary.start)
    }

    fn check<T, W>(&self, logits: &[T], targets: &[u32], statistics: &[W]) {
        assert!(self.vocabulary.len() <= self.width, "{} words in {}", self.vocabulary.len(), self.width);
        assert_eq!(logits.len(), targets.len() * self.width, "a row for each target");
        assert_eq!(statistics.len(), targets.len() * STATISTICS, "the statistics");
    }
}

/// Statistics of a row: its greatest logit m, Σ exp(logit − m), and the target's logit, 0 where another shard has it.
pub const STATISTICS: usize = 3;

/// `statistics` (rows, 3) of `logits` (rows, width).
pub fn forward<T: Element>(
    pool: Pool<'_>,
    shard: &Shard,
    logits: &[T],
    targets: &[u32],
    statistics: &mut [T::Wide],
) {
    shard.check(logits, targets, statistics);
    let parts = (Rows(logits, shard.width), Rows(targets, 1), Rows(statistics, STATISTICS));
    each!(pool, targets.len(), 1, parts, |_, (logits, targets, statistics)| {
        let rows = logits.0.chunks_exact(shard.width).zip(statistics.0.chunks_exact_mut(STATISTICS));
        for ((logits, statistics), &target) in rows.zip(targets.0) {
            let row = &logits[..shard.vocabulary.len()];
            let greatest = greatest(row);
            let sum = sum(row, inlined!(|logit: T::Wide| (logit - greatest).exp()));
            let target = shard.column(target).map_or(Real::ZERO, |column| row[column].wide());
            statistics.copy_from_slice(&[greatest, sum, target]);
        }
    });
}

/// Takes another shard's statistics of the same rows into `statistics`.
pub fn merge<W: Real>(statistics: &mut [W], other: &[W]) {
    assert_eq!(statistics.len(), other.len(), "statistics of the same rows");
    let rows = statistics.as_chunks_mut::<STATISTICS>().0.iter_mut().zip(other.as_chunks::<STATISTICS>().0);
    for ([greatest, sum, target], &[other_greatest, other_sum, other_target]) in rows {
        let common = if other_greatest > *greatest { other_greatest } else { *greatest };
        // A shard of padding alone has −∞ and 0.
        let scaled = |sum: W, greatest: W| {
            if sum == W::ZERO { W::ZERO } else { sum * (greatest - common).exp() }
        };
        *sum = scaled(*sum, *greatest) + scaled(other_sum, other_greatest);
        *greatest = common;
        *target += other_target;
    }
}

/// The losses of all rows, `−ln softmax(logits)[target]`, added up in order; `statistics` are those of all shards.
pub fn loss<W: Real>(statistics: &[W]) -> f64 {
    let rows = statistics.as_chunks::<STATISTICS>().0;
    rows.iter().map(|[greatest, sum, target]| sum.to_f64().ln() + (*greatest - *target).to_f64()).sum()
}

/// The gradient in place of the logits: (softmax − one for the target) · scale; 0 for padding.
///
/// `statistics` are those of all shards.
pub fn backward<T: Element>(
    pool: Pool<'_>,
    shard: &Shard,
    logits: &mut [T],
    targets: &[u32],
    statistics: &[T::Wide],
    scale: f64,
) {
    shard.check(logits, targets, statistics);
    let scale = T::Wide::of(scale);
    let parts = (Rows(logits, shard.width), Rows(targets, 1), Rows(statistics, STATISTICS));
    each!(pool, targets.len(), 1, parts, |_, (logits, targets, statistics)| {
        let rows = logits.0.chunks_exact_mut(shard.width).zip(statistics.0.chunks_exact(STATISTICS));
        for ((logits, statistics), &target) in rows.zip(targets.0) {
            let (row, padding) = logits.split_at_mut(shard.vocabulary.len());
            let (greatest, factor) = (statistics[0], scale / statistics[1]);
            let gradient = inlined!(|logit: T::Wide| (logit - greatest).exp() * factor);
            let of_target = shard.column(target).map(|column| {
                let logit = row[column].wide();
                (column, T::narrow(gradient(logit) - scale))
            });
            for logit in row.iter_mut() {
                *logit = T::narrow(gradient(logit.wide()));
            }
            if let Some((column, value)) = of_target {
                row[column] = value;
            }
            padding.fill(T::default());
        }
    });
}

#[inline(always)]
fn greatest<T: Element>(row: &[T]) -> T::Wide {
    let larger = inlined!(|a: T::Wide, b: T::Wide| if b > a { b } else { a });
    let mut lanes = [T::Wide::NEG_INFINITY; LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        for lane in 0..LANES {
            lanes[lane] = larger(lanes[lane], block[lane].wide());
        }
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, x)| *lane = larger(*lane, x.wide()));
    lanes.into_iter().fold(T::Wide::NEG_INFINITY, larger)
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::execute::kernels::trial::{close, gradient, random, threads};

    const WORDS: usize = 37;
    const TARGETS: [u32; 4] = [0, 36, 20, 7];

    fn logits(seed: u64) -> Vec<f64> {
        random::<f64>(TARGETS.len() * WORDS, seed).iter().map(|x| x * 5.0).collect()
    }

    fn naive(logits: &[f64]) -> f64 {
        let rows = logits.chunks(WORDS).zip(TARGETS);
        rows.map(|(row, target)| row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[target as usize]).sum()
    }

    /// The columns of `vocabulary`, padded with what must not count to `width`.
    fn cut(logits: &[f64], vocabulary: Range<usize>, width: usize) -> Vec<f64> {
        let row = |row: &[f64]| {
            let mut part = row[vocabulary.clone()].to_vec();
            part.resize(width, 1e6);
            part
        };
        logits.chunks(WORDS).flat_map(row).collect()
    }

    #[test]
    fn shards_merge_to_the_loss_and_the_gradient_of_the_whole() {
        let logits = logits(1);
        let (pool, scale) = (Pool::Threads(threads()), 0.25);
        let expected: Vec<f64> = gradient(&logits, naive).iter().map(|d| d * scale).collect();
        // The last shard is padding alone.
        let shards = [0..16, 16..32, 32..WORDS, WORDS..WORDS];
        let width = 16;
        let run = |vocabulary: &Range<usize>| {
            let part = cut(&logits, vocabulary.clone(), width);
            let shard = Shard { width, vocabulary: vocabulary.clone() };
            let mut statistics = vec![0.0; TARGETS.len() * STATISTICS];
            forward(pool, &shard, &part, &TARGETS, &mut statistics);
            (shard, part, statistics)
        };
        let mut runs = shards.each_ref().map(run);
        let mut merged = runs[3].2.clone();
        runs[..3].iter().for_each(|(_, _, statistics)| merge(&mut merged, statistics));
        close(&[loss(&merged)], &[naive(&logits)], 1e-13);
        for (shard, part, _) in &mut runs {
            backward(pool, shard, part, &TARGETS, &merged, scale);
            let words = shard.vocabulary.len();
            assert!(part.chunks(width).all(|row| row[words..].iter().all(|&x| x == 0.0)), "padding");
            let found: Vec<f64> = part.chunks(width).flat_map(|row| &row[..words]).copied().collect();
            close(&found, &cut(&expected, shard.vocabulary.clone(), words), 1e-8);
        }
    }

    #[test]
    fn large_logits_do_not_overflow_and_bf16_is_close() {
        let shard = Shard { width: WORDS, vocabulary: 0..WORDS };
        let x: Vec<f64> = logits(3).iter().map(|x| bf16::from_f64(x * 40.0).to_f64()).collect();
        let mut statistics = vec![0f32; TARGETS.len() * STATISTICS];
        let half: Vec<bf16> = x.iter().map(|&x| bf16::from_f64(x)).collect();
        forward(Pool::Serial, &shard, &half, &TARGETS, &mut statistics);
        close(&[loss(&statistics)], &[naive(&x)], 1e-6);
    }
}
