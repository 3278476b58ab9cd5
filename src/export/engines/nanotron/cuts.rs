//! Where nanotron cuts a model: by the cost of its blocks, which no setting changes.

use crate::export::shape::Shape;

/// What nanotron takes blocks and head to cost (2411b022 `models/llama.py`, `models/qwen.py`, `get_block_compute_costs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    pub block: u64,
    pub head: u64,
}

impl Costs {
    /// The costs of a decoder.
    pub fn of(shape: &Shape) -> Self {
        let hidden = shape.hidden();
        let heads = shape.attention.heads;
        let width = hidden.checked_div(heads).unwrap_or_default();
        Self {
            block: 4 * heads * width * hidden + 3 * shape.intermediate() * hidden,
            head: shape.embedding.vocabulary * hidden,
        }
    }
}

/// Blocks a stage: a stage closes behind the module with which the costs pass its part of the whole (2411b022
/// `models/base.py`, `build_model`). None where the head does not come to lie on the last stage.
pub fn dealt(costs: Costs, blocks: u32, stages: u64) -> Option<Vec<u32>> {
    let stages = usize::try_from(stages).ok()?;
    let total = costs.block * u64::from(blocks) + costs.head;
    // The program computes these in doubles.
    let limit = |stage: usize| total as f64 * ((stage + 1) as f64 / stages as f64);
    let mut cuts = vec![0; stages];
    let (mut stage, mut cost) = (0, 0);
    for _ in 0..blocks {
        *cuts.get_mut(stage)? += 1;
        cost += costs.block;
        stage += usize::from(cost as f64 > limit(stage));
    }
    // The last norm costs nothing and closes a stage all the same.
    stage += usize::from(cost as f64 > limit(stage));
    (stage + 1 == stages).then_some(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_head_takes_blocks_from_the_last_stage() {
        // Width 1024, 2816 inside, 32 000 words: a head costs 2.55 blocks.
        let costs = Costs { block: 12_845_056, head: 32_768_000 };
        assert_eq!(dealt(costs, 12, 1), Some(vec![12]));
        assert_eq!(dealt(costs, 12, 2), Some(vec![8, 4]));
        assert_eq!(dealt(costs, 12, 4), Some(vec![4, 4, 3, 1]));
        assert_eq!(dealt(costs, 2, 4), None);
    }

    #[test]
    fn the_head_of_one_that_weighs_nothing_has_no_stage_of_its_own() {
        let costs = Costs { block: 10, head: 1 };
        assert_eq!(dealt(costs, 8, 2), Some(vec![5, 3]));
    }
}
