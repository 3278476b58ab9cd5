//! Where an engine cuts a model for its pipeline when it leaves no choice.

use super::{Facts, defaults};
use crate::model::Model;
use crate::model::layer::LayerKind;
use crate::profile::capabilities::CutGrain;

/// What the blocks and the head of a model cost, as an engine counts that cuts by cost: multiply-adds a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutCosts {
    pub blocks: Vec<u128>,
    pub head: u128,
}

impl CutCosts {
    /// The costs as nanotron counts them: four products as wide as all query heads, two or three of the MLP, and the
    /// head (2411b022 `models/llama.py`, `models/starcoder2.py`, `get_block_compute_costs`).
    pub fn of(model: &Model) -> Self {
        let mut costs = Self { blocks: vec![0; model.blocks() as usize], head: 0 };
        // The square of a width may be beyond 64 bits.
        let product = |factors: &[u64]| factors.iter().copied().map(u128::from).product::<u128>();
        for layer in model.layers() {
            let cost = match &layer.kind {
                LayerKind::Attention(attention) => {
                    let width = attention.hidden.checked_div(attention.heads).unwrap_or_default();
                    product(&[4, attention.heads, width, attention.hidden])
                }
                LayerKind::Mlp(mlp) => product(&[2 + u64::from(mlp.gated), mlp.intermediate, mlp.hidden]),
                LayerKind::Moe(moe) => {
                    let width = product(&[moe.top_k, moe.intermediate]) + u128::from(moe.shared_intermediate);
                    product(&[2 + u64::from(moe.gated), moe.hidden]) * width
                }
                LayerKind::Head(head) => {
                    costs.head = product(&[head.vocabulary, head.hidden]);
                    continue;
                }
                LayerKind::Embedding(_) | LayerKind::Loss(_) => continue,
            };
            if let Some(block) = layer.block.and_then(|block| costs.blocks.get_mut(block as usize)) {
                *block += cost;
            }
        }
        costs
    }

    /// Blocks a chunk: a chunk closes behind the block with which the costs pass its part of the whole (nanotron
    /// 2411b022 `models/base.py`, `build_model`). None where the head does not come to lie in the last chunk.
    pub fn dealt(&self, chunks: usize) -> Option<Vec<u32>> {
        // Each block closes one chunk at most, and so does the last norm.
        if chunks > self.blocks.len() + 2 {
            return None;
        }
        let total = self.blocks.iter().sum::<u128>() + self.head;
        // The program computes these in doubles.
        let limit = |chunk: usize| total as f64 * ((chunk + 1) as f64 / chunks as f64);
        let mut cuts = vec![0; chunks];
        let (mut chunk, mut cost) = (0, 0);
        for block in &self.blocks {
            *cuts.get_mut(chunk)? += 1;
            cost += block;
            chunk += usize::from(cost as f64 > limit(chunk));
        }
        // The last norm costs nothing and closes a chunk all the same.
        chunk += usize::from(cost as f64 > limit(chunk));
        (chunk + 1 == chunks).then_some(cuts)
    }
}

/// Blocks a chunk where what is left over goes to the first chunks, one each: the cut with the least difference between
/// the heaviest and the lightest chunk whose last chunks begin latest (DeepSpeed 0.19.8 `runtime/utils.py:627`,
/// `partition_balanced`). None where a chunk would be empty.
pub fn first_more(blocks: u32, chunks: usize) -> Option<Vec<u32>> {
    let chunks = u32::try_from(chunks).ok().filter(|chunks| (1..=blocks).contains(chunks))?;
    let (quotient, left) = (blocks / chunks, blocks % chunks);
    Some((0..chunks).map(|chunk| quotient + u32::from(chunk < left)).collect())
}

/// Blocks of each of `chunks` as the engine cuts; none where the strategy says where, and where the engine cannot cut
/// the model into so many.
pub fn of_engine(facts: &Facts, chunks: usize) -> Option<Vec<u32>> {
    match *facts.profile.supports.cuts {
        CutGrain::Any => None,
        CutGrain::Default => Some(defaults::cuts(facts.blocks, chunks)),
        CutGrain::Equal => {
            let cuts = first_more(facts.blocks, chunks)?;
            (cuts.first() == cuts.last()).then_some(cuts)
        }
        CutGrain::FirstMore => first_more(facts.blocks, chunks),
        CutGrain::ByCost => facts.cut_costs.dealt(chunks),
    }
}

/// Blocks of each of `chunks` where the strategy does not say: as the engine cuts, else as the text's default says.
pub fn left_out(facts: &Facts, chunks: usize) -> Vec<u32> {
    of_engine(facts, chunks).unwrap_or_else(|| defaults::cuts(facts.blocks, chunks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_head_takes_blocks_from_the_last_chunk() {
        // Width 1024, 2816 inside, 32 000 words: a head costs 2.55 blocks.
        let costs = |blocks| CutCosts { blocks: vec![12_845_056; blocks], head: 32_768_000 };
        assert_eq!(costs(12).dealt(1), Some(vec![12]));
        assert_eq!(costs(12).dealt(2), Some(vec![8, 4]));
        assert_eq!(costs(12).dealt(4), Some(vec![4, 4, 3, 1]));
        assert_eq!(costs(2).dealt(4), None);
    }

    #[test]
    fn the_head_of_one_that_weighs_nothing_has_no_chunk_of_its_own() {
        let costs = CutCosts { blocks: vec![10; 8], head: 1 };
        assert_eq!(costs.dealt(2), Some(vec![5, 3]));
    }

    #[test]
    fn what_is_left_over_goes_to_the_first_chunks() {
        // What DeepSpeed's own function answers for an embedding, so many blocks, a norm and a head, of which blocks
        // weigh 1.
        for (blocks, chunks, cuts) in [
            (12, 4, vec![3, 3, 3, 3]),
            (10, 4, vec![3, 3, 2, 2]),
            (10, 3, vec![4, 3, 3]),
            (7, 4, vec![2, 2, 2, 1]),
            (11, 4, vec![3, 3, 3, 2]),
            (80, 8, vec![10; 8]),
            (12, 12, vec![1; 12]),
        ] {
            assert_eq!(first_more(blocks, chunks), Some(cuts), "{blocks} blocks, {chunks} chunks");
        }
        assert_eq!(first_more(4, 5), None);
        assert_eq!(first_more(4, 0), None);
    }
}
