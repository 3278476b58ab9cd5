//! Cuts that even out memory over the stages of a pipeline.

use crate::search::closed_forms::ClosedForms;
use crate::strategy::{Checkpoint, Strategy};

/// Most blocks that are moved.
const MOST_MOVES: usize = 64;

/// Cuts under which `strategy` fits, or none: one block after the other goes from the fullest stage to the emptiest.
pub(super) fn even_cuts(closed_forms: &ClosedForms<'_>, strategy: &Strategy) -> Option<Vec<u32>> {
    // Chunks that recompute differently say how many blocks they have.
    let mode = strategy.checkpoint.first()?.runs.first().map(|run| run.0)?;
    let is_uniform = |chunk: &Checkpoint| chunk.runs.iter().all(|run| run.0 == mode);
    if !strategy.checkpoint.iter().all(is_uniform) {
        return None;
    }
    let mut moved = strategy.clone();
    for _ in 0..MOST_MOVES {
        let peaks = closed_forms.device_peaks(&moved);
        let full = (0..peaks.len()).max_by_key(|&stage| peaks[stage])?;
        let empty = (0..peaks.len()).min_by_key(|&stage| peaks[stage])?;
        let problem = closed_forms.problem;
        if problem.process_memory(&moved, peaks[full]).process <= problem.memory_limit {
            return (moved.cuts != strategy.cuts).then_some(moved.cuts);
        }
        let chunks = |stage: usize| moved.chunks_of(stage as u64).into_iter().map(|chunk| chunk as usize);
        let from = chunks(full).max_by_key(|&chunk| moved.cuts[chunk])?;
        let to = chunks(empty).min_by_key(|&chunk| moved.cuts[chunk])?;
        if full == empty || moved.cuts[from] <= 1 {
            return None;
        }
        moved.cuts[from] -= 1;
        moved.cuts[to] += 1;
        moved.checkpoint = moved.cuts.iter().map(|&blocks| Checkpoint::uniform(mode, blocks)).collect();
    }
    None
}
