//! Where DeepSpeed's pipelines cut a model.

/// How blocks are named where they alone are counted: the classes of transformers' blocks end so.
pub const BLOCKS: &str = "type:DecoderLayer";

/// Blocks a stage where each weighs the same and all else nothing: the cut with the least difference between its
/// heaviest and its lightest stage, and of several the one whose last stages begin latest
/// (0.19.8 `runtime/utils.py:627`, whose loops these are).
pub fn balanced(blocks: u32, stages: u64) -> Vec<u32> {
    let (blocks, stages) = (blocks as usize, usize::try_from(stages).unwrap_or(usize::MAX).max(1));
    if stages > blocks || blocks > MOST_BLOCKS {
        return crate::strategy::defaults::cuts(blocks as u32, stages);
    }
    // For each number of blocks and stages: difference, heaviest, lightest, and where the last stage begins.
    let mut best = vec![vec![None::<Cut>; stages + 1]; blocks + 1];
    best[0][0] = Some(Cut { difference: 0, heaviest: 0, lightest: usize::MAX, begin: 0 });
    for end in 1..=blocks {
        for stage in 1..=stages.min(end) {
            for begin in 0..end {
                let Some(before) = best[begin][stage - 1] else { continue };
                let own = end - begin;
                let (heaviest, lightest) = (before.heaviest.max(own), before.lightest.min(own));
                let difference = heaviest - lightest;
                if best[end][stage].is_none_or(|known| known.difference >= difference) {
                    best[end][stage] = Some(Cut { difference, heaviest, lightest, begin });
                }
            }
        }
    }
    let mut cuts = Vec::with_capacity(stages);
    let mut end = blocks;
    for stage in (1..=stages).rev() {
        let begin = best[end][stage].map_or(0, |cut| cut.begin);
        cuts.push((end - begin) as u32);
        end = begin;
    }
    cuts.reverse();
    cuts
}

/// Models with more blocks are cut evenly here; the search for the best cut is cubic.
const MOST_BLOCKS: usize = 1024;

/// The best cut of the first blocks into a number of stages.
#[derive(Clone, Copy)]
struct Cut {
    difference: usize,
    heaviest: usize,
    lightest: usize,
    begin: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_as_deepspeed_cuts_them() {
        // What its own function answers for an embedding, so many blocks, a norm and a head, of which blocks weigh 1.
        for (blocks, stages, cuts) in [
            (12, 4, vec![3, 3, 3, 3]),
            (10, 4, vec![3, 3, 2, 2]),
            (10, 3, vec![4, 3, 3]),
            (7, 4, vec![2, 2, 2, 1]),
            (11, 4, vec![3, 3, 3, 2]),
            (80, 8, vec![10; 8]),
            (12, 12, vec![1; 12]),
        ] {
            assert_eq!(balanced(blocks, stages), cuts, "{blocks} blocks, {stages} stages");
        }
    }
}
