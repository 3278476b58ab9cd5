//! How many blocks each pipeline rank has where its chunks do not adjoin and the blocks do not divide: the remainder
//! goes to the ranks that have the time and the memory for it.

use crate::cost::bound::Route;
use crate::profile::choices::CheckpointMode;
use crate::search::closed::{Closing, OuterForms};
use crate::search::floor::Pipeline;
use crate::search::integer::{JointRank, Mode};
use crate::search::load::Load;
use crate::strategy::{Checkpoint, Strategy};

/// Cuts of `outer`, of several chunks a rank and blocks that are alike, so that the slowest rank is the fastest, as
/// far as bytes and seconds of blocks add up; none where no rank's share ends before `limit` seconds, or none has room.
pub fn cuts<'p>(
    (closing, forms): (&Closing<'p>, &OuterForms<'p>),
    (load, pipeline): (&Load, &Pipeline),
    outer: &Strategy,
    limit: f64,
) -> Option<Vec<u32>> {
    let problem = closing.problem;
    let blocks = problem.facts.blocks;
    let (chunks, turns) = (outer.chunks() as u32, outer.virtual_stages as u32);
    let each = blocks / chunks;
    // As many blocks as every rank has in any case, plain.
    let cuts = vec![each; outer.chunks() as usize];
    let checkpoint = cuts.iter().map(|&blocks| Checkpoint::uniform(CheckpointMode::None, blocks)).collect();
    let least = Strategy { cuts, checkpoint, ..outer.clone() };
    let layout = closing.whole_layout(forms, &least);
    let passes = pipeline.micro as f64 * load.block.work;
    let (fewest, number) = (each * turns, f64::from(each * turns));
    // All ranks but those with the model's ends are alike.
    let last = outer.pipeline as u32 - 1;
    let kinds = [0, 1.min(last), last].map(|stage| closing.time(forms, &least, &layout).parts(stage));
    let seconds = |stage: u32| {
        let parts = if stage == last { kinds[2] } else { kinds[stage.min(1) as usize] };
        let there = pipeline.way_behind(load, u64::from(stage), u64::from(each * stage));
        (parts.end(&Route { there, ..Route::default() }) - number * passes).max(0.0)
    };
    let seconds: Vec<f64> = (0..=last).map(seconds).collect();
    // What is slower than what is known needs no room.
    let most = seconds.iter().map(|seconds| {
        let most = (limit - seconds) / passes;
        (most >= number).then(|| (most as u32).min(fewest + turns))
    });
    let most: Vec<u32> = most.collect::<Option<_>>()?;
    if most.iter().sum::<u32>() < blocks {
        return None;
    }
    let ranks = (0..outer.pipeline as u32).map(|stage| {
        let kinds = closing.kinds(forms, &least, &layout, stage);
        let state = closing.state_of_block(forms, load.class, stage);
        let held: f64 =
            kinds.iter().map(|found| found.kind.modes.first().map_or(0.0, |mode| mode.bytes)).sum();
        let kept = held / f64::from(turns);
        let (peak, _) = closing.peaks(forms, &least, &layout, stage);
        let fixed = peak.0 as f64 - number * (state + kept);
        let modes = kinds.first()?.kind.modes.iter();
        let plain = modes.clone().next()?.bytes;
        let share = if plain > 0.0 { kept / plain } else { 0.0 };
        Some(JointRank {
            seconds: seconds[stage as usize],
            room: problem.room(outer) - fixed,
            state,
            seconds_a_block_before: 0.0,
            modes: modes.map(|mode| Mode { bytes: share * mode.bytes, seconds: mode.seconds }).collect(),
            least: fewest,
            most: most[stage as usize],
        })
    });
    let ranks: Vec<JointRank> = ranks.collect::<Option<_>>()?;
    let found = solved(&ranks, blocks)?;
    let mut cuts = least.cuts;
    for (stage, counts) in found.iter().enumerate() {
        let more = counts.iter().sum::<u32>() - each * turns;
        // The last chunks are in flight for the shortest time.
        let own = outer.chunks_of(stage as u64).into_iter().rev().take(more as usize);
        own.for_each(|chunk| cuts[chunk as usize] += 1);
    }
    Some(cuts)
}

#[cfg(feature = "highs")]
fn solved(ranks: &[JointRank], blocks: u32) -> Option<Vec<Vec<u32>>> {
    crate::search::integer::joint(ranks, blocks).ok()?.map(|joint| joint.counts)
}

#[cfg(not(feature = "highs"))]
fn solved(ranks: &[JointRank], blocks: u32) -> Option<Vec<Vec<u32>>> {
    crate::search::integer::table(ranks, blocks).ok()?.map(|joint| joint.counts)
}
