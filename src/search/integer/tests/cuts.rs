//! Cuts and modes of all ranks against all that there are, in small cases by the thousand, and the solver against the
//! table in larger ones.

use super::super::{Joint, JointRank, Kind, Mode, Refused, joint, table};
use super::{Numbers, close, cost, spreads};

/// The least seconds in which the ranks take `blocks` more, after `before`.
fn by_all_cuts(ranks: &[JointRank], before: u32, blocks: u32) -> Option<f64> {
    let Some((rank, rest)) = ranks.split_first() else { return (blocks == 0).then_some(0.0) };
    let own = |held: u32| {
        let state = f64::from(held) * rank.state;
        let fitting = spreads(&rank.modes, held).into_iter().filter(|(bytes, _)| bytes + state <= rank.room);
        let quickest = fitting.map(|(_, seconds)| seconds).min_by(f64::total_cmp)?;
        let seconds = rank.seconds + f64::from(before) * rank.seconds_a_block_before + quickest;
        by_all_cuts(rest, before + held, blocks - held).map(|others| others.max(seconds))
    };
    (rank.least..=rank.most.min(blocks)).filter_map(own).min_by(f64::total_cmp)
}

/// What is wrong with cuts and modes, if anything.
fn wrong_cuts(ranks: &[JointRank], blocks: u32, chosen: Option<&Joint>) -> Option<String> {
    let least = by_all_cuts(ranks, 0, blocks);
    let (Some(joint), Some(least)) = (chosen, least) else {
        return (chosen.is_some() || least.is_some()).then(|| format!("{chosen:?} for {least:?}"));
    };
    let (mut before, mut last, mut legal) = (0, 0.0_f64, ranks.len() == joint.counts.len());
    for (rank, counts) in ranks.iter().zip(&joint.counts) {
        let held: u32 = counts.iter().sum();
        let own = [Kind { count: held, modes: rank.modes.clone() }];
        let (bytes, seconds) = cost(&own, &vec![counts.clone()]);
        last = last.max(rank.seconds + f64::from(before) * rank.seconds_a_block_before + seconds);
        legal &= counts.len() == rank.modes.len() && (rank.least..=rank.most).contains(&held);
        legal &= bytes + f64::from(held) * rank.state <= rank.room;
        before += held;
    }
    let right = legal && before == blocks && close(last, least) && close(joint.seconds, last);
    (!right).then(|| format!("{joint:?}: {last} s for {least} s"))
}

/// Ranks that are alike or not, and their blocks.
fn pipeline(numbers: &mut Numbers) -> (Vec<JointRank>, u32) {
    let blocks = numbers.count(9);
    let manners = (numbers.below(3), numbers.below(3));
    let one = |numbers: &mut Numbers| {
        let least = numbers.count(3);
        let state = numbers.bytes(manners.0);
        let modes = numbers.modes(3, manners);
        let bytes = state + numbers.of(&modes.iter().map(|mode| mode.bytes).collect::<Vec<_>>());
        JointRank {
            seconds: numbers.seconds(manners.1),
            room: f64::from(numbers.count(6)) * bytes + numbers.of(&[0.0, 0.0, 1e9, -1.0]),
            state,
            seconds_a_block_before: numbers.seconds(manners.1) * numbers.of(&[0.0, 0.125, 1.0]),
            modes,
            least,
            most: least + numbers.count(8),
        }
    };
    let first = one(numbers);
    let alike = numbers.below(2) == 0;
    let others = 0..numbers.below(4);
    let others: Vec<_> = others.map(|_| if alike { first.clone() } else { one(numbers) }).collect();
    (std::iter::once(first).chain(others).collect(), blocks)
}

#[test]
fn cuts_and_modes_are_the_best_of_all() {
    for seed in 0..2000 {
        let (ranks, blocks) = pipeline(&mut Numbers(seed));
        let chosen = joint(&ranks, blocks).unwrap_or_else(|refused| panic!("{seed}: {refused}: {ranks:?}"));
        if let Some(wrong) = wrong_cuts(&ranks, blocks, chosen.as_ref()) {
            panic!("{seed}: {wrong}: {ranks:?}");
        }
    }
}

#[test]
fn the_table_holds_the_best_of_all() {
    for seed in 0..2000 {
        let (ranks, blocks) = pipeline(&mut Numbers(seed));
        if let Some(wrong) = wrong_cuts(&ranks, blocks, table(&ranks, blocks).unwrap().as_ref()) {
            panic!("{seed}: {wrong}: {ranks:?}");
        }
    }
}

#[test]
fn a_wrong_cut_is_seen() {
    let mut seen = 0;
    for seed in 0..200 {
        let (ranks, blocks) = pipeline(&mut Numbers(seed));
        let Ok(Some(chosen)) = joint(&ranks, blocks) else { continue };
        for rank in 0..ranks.len() {
            for mode in 0..ranks[rank].modes.len() {
                let mut changed = chosen.clone();
                changed.counts[rank][mode] += 1;
                assert!(wrong_cuts(&ranks, blocks, Some(&changed)).is_some(), "{seed}");
                seen += 1;
            }
        }
        let later = Joint { seconds: chosen.seconds * 1.01 + 1.0, ..chosen };
        assert!(wrong_cuts(&ranks, blocks, Some(&later)).is_some(), "{seed}");
    }
    assert!(seen > 100, "{seen}");
}

/// Alike ranks of a pipeline in which the first holds the most micro-batches, without room to keep everything.
fn stages(ranks: u32, blocks: u32) -> Vec<JointRank> {
    let stage = |rank| {
        let held = f64::from(ranks - rank);
        let mode = |bytes: f64, seconds| Mode { bytes: bytes * held, seconds };
        JointRank {
            seconds: if rank + 1 == ranks { 0.45 } else { 0.05 },
            room: 0.9 * f64::from(blocks / ranks) * (1e9 + 2e8 * held),
            state: 1e9,
            seconds_a_block_before: 0.01,
            modes: vec![mode(2e8, 0.3), mode(1.1e8, 0.33), mode(2e7, 0.4)],
            least: 1,
            most: blocks,
        }
    };
    (0..ranks).map(stage).collect()
}

/// The solver and the table end at the same time.
fn agree(ranks: u32, blocks: u32) {
    let stages = stages(ranks, blocks);
    let (chosen, held) = (joint(&stages, blocks), table(&stages, blocks));
    match (&chosen, &held) {
        (Ok(Some(chosen)), Ok(Some(held))) => {
            assert!(close(chosen.seconds, held.seconds), "{chosen:?} {held:?}")
        }
        _ => panic!("{chosen:?} {held:?}"),
    }
}

#[test]
fn the_solver_agrees_with_the_table() {
    agree(2, 32);
    agree(4, 16);
    #[cfg(feature = "highs")]
    agree(8, 96);
}

#[test]
#[cfg(not(feature = "highs"))]
fn a_case_too_large_for_the_solver_is_refused() {
    assert_eq!(joint(&stages(8, 96), 96), Err(Refused::Size { size: 2304, most: 400 }));
    assert!(matches!(table(&stages(8, 96), 96), Ok(Some(_))));
}

#[test]
fn cuts_of_nothing_are_chosen() {
    for choose in [joint, table] {
        assert_eq!(choose(&[], 0), Ok(Some(Joint { counts: Vec::new(), seconds: 0.0 })));
        assert_eq!(choose(&[], 1), Ok(None));
        let within = |room| {
            let ranks: Vec<JointRank> =
                stages(1, 1).into_iter().map(|rank| JointRank { room, ..rank }).collect();
            choose(&ranks, 1).map(|joint| joint.map(|joint| joint.counts))
        };
        assert!(matches!(within(f64::NAN), Err(Refused::Number { field: "room", .. })));
        assert_eq!(within(-1.0), Ok(None));
        assert_eq!(within(f64::INFINITY), Ok(Some(vec![vec![1, 0, 0]])));
    }
}
