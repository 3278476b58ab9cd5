//! The choice of modes against all choices that there are, in small cases by the thousand.

mod cuts;

use super::{Counts, Kind, Mode, Refused, modes};

/// A reproducible source of numbers: the linear congruential generator of Knuth's MMIX.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn count(&mut self, end: u32) -> u32 {
        self.below(u64::from(end)) as u32
    }

    fn of(&mut self, values: &[f64]) -> f64 {
        values[self.below(values.len() as u64) as usize]
    }

    /// Whole bytes, so that their sums are the same in any order: many equal ones, any, or of all magnitudes.
    fn bytes(&mut self, manner: u64) -> f64 {
        match manner {
            0 => self.below(4) as f64 * 1e9,
            1 => (1e8 * 1000_f64.powf(self.below(1 << 20) as f64 / f64::from(1 << 20))).round(),
            _ => self.of(&[0.0, 1.0, 7.0, 1e3, 1e8, 1e8 + 1.0, 1e11, 1e14]),
        }
    }

    /// Seconds likewise.
    fn seconds(&mut self, manner: u64) -> f64 {
        match manner {
            0 => self.below(4) as f64 * 0.125,
            1 => 1e-4 * 1e5_f64.powf(self.below(1 << 20) as f64 / f64::from(1 << 20)),
            2 => self.of(&[0.0, 1e-4, 1.1e-4, 0.3, 1.0, 10.0]),
            _ => self.of(&[0.0, 1e-9, 1e-4, 1.1e-4, 1.0, 1e6]),
        }
    }

    fn modes(&mut self, most: u64, manners: (u64, u64)) -> Vec<Mode> {
        let modes = 0..=self.below(most);
        modes.map(|_| Mode { bytes: self.bytes(manners.0), seconds: self.seconds(manners.1) }).collect()
    }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
}

/// Bytes and seconds of every way to spread `count` blocks over the modes.
fn spreads(modes: &[Mode], count: u32) -> Vec<(f64, f64)> {
    let Some((mode, rest)) = modes.split_first() else {
        return if count == 0 { vec![(0.0, 0.0)] } else { Vec::new() };
    };
    let with = |taken: u32| {
        let here = f64::from(taken);
        let others = spreads(rest, count - taken).into_iter();
        others.map(move |(bytes, seconds)| (bytes + here * mode.bytes, seconds + here * mode.seconds))
    };
    (0..=count).flat_map(with).collect()
}

/// The least seconds of all counts that have room.
fn by_all_modes(kinds: &[Kind], room: f64) -> Option<f64> {
    let mut all = vec![(0.0, 0.0)];
    for kind in kinds {
        let spreads = spreads(&kind.modes, kind.count);
        let with = |known: &(f64, f64)| {
            let (bytes, seconds) = *known;
            spreads.iter().map(move |more| (bytes + more.0, seconds + more.1)).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).filter(|&(bytes, _)| bytes <= room).collect();
    }
    all.into_iter().map(|(_, seconds)| seconds).min_by(f64::total_cmp)
}

/// Bytes and seconds of counts.
fn cost(kinds: &[Kind], counts: &Counts) -> (f64, f64) {
    let mut cost = (0.0, 0.0);
    for (kind, counts) in kinds.iter().zip(counts) {
        for (mode, &count) in kind.modes.iter().zip(counts) {
            cost = (cost.0 + f64::from(count) * mode.bytes, cost.1 + f64::from(count) * mode.seconds);
        }
    }
    cost
}

/// What is wrong with a choice of modes, if anything.
fn wrong_modes(kinds: &[Kind], room: f64, chosen: Option<&Counts>) -> Option<String> {
    let least = by_all_modes(kinds, room);
    let (Some(counts), Some(least)) = (chosen, least) else {
        return (chosen.is_some() || least.is_some()).then(|| format!("{chosen:?} for {least:?}"));
    };
    let (bytes, seconds) = cost(kinds, counts);
    let complete = kinds.len() == counts.len()
        && kinds.iter().zip(counts).all(|(kind, counts)| {
            counts.len() == kind.modes.len() && counts.iter().sum::<u32>() == kind.count
        });
    let right = complete && bytes <= room && close(seconds, least);
    (!right).then(|| format!("{counts:?}: {bytes} of {room} B, {seconds} s for {least} s"))
}

/// Blocks of a rank and bytes for them: plenty, some, exactly those of a choice, one less than that, too few.
fn rank(numbers: &mut Numbers) -> (Vec<Kind>, f64) {
    let manners = (numbers.below(3), numbers.below(4));
    let kinds = 0..=numbers.below(3);
    let kinds: Vec<Kind> =
        kinds.map(|_| Kind { count: numbers.count(7), modes: numbers.modes(3, manners) }).collect();
    let choice = |kind: &Kind| {
        let mut left = kind.count;
        let mut counts: Vec<u32> = Vec::new();
        for _ in 1..kind.modes.len() {
            counts.push(numbers.count(left + 1));
            left -= counts.last().copied().unwrap_or_default();
        }
        counts.push(left);
        counts
    };
    let (bytes, _) = cost(&kinds, &kinds.iter().map(choice).collect());
    let room = match numbers.below(6) {
        0 => bytes + numbers.bytes(1),
        1 => (bytes * 0.8).floor(),
        2 => bytes - 1.0,
        3 => numbers.bytes(2),
        _ => bytes,
    };
    (kinds, room)
}

#[test]
fn modes_are_the_best_of_all() {
    for seed in 0..3000 {
        let (kinds, room) = rank(&mut Numbers(seed));
        let chosen =
            modes(&kinds, room).unwrap_or_else(|refused| panic!("{seed}: {refused}: {kinds:?} in {room}"));
        if let Some(wrong) = wrong_modes(&kinds, room, chosen.as_ref()) {
            panic!("{seed}: {wrong}: {kinds:?}");
        }
    }
}

#[test]
fn a_wrong_choice_of_modes_is_seen() {
    let mut seen = 0;
    for seed in 0..300 {
        let (kinds, room) = rank(&mut Numbers(seed));
        let Ok(Some(chosen)) = modes(&kinds, room) else { continue };
        let before = cost(&kinds, &chosen);
        for (kind, counts) in chosen.iter().enumerate() {
            for from in 0..counts.len() {
                let to = (from + 1) % counts.len();
                let mut changed = chosen.clone();
                if changed[kind][from] > 0 && to != from {
                    changed[kind][from] -= 1;
                    changed[kind][to] += 1;
                    let after = cost(&kinds, &changed);
                    let worse = after.0 > room || !close(after.1, before.1);
                    assert_eq!(wrong_modes(&kinds, room, Some(&changed)).is_some(), worse, "{seed}");
                    seen += usize::from(worse);
                }
            }
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn an_exact_fit_beside_a_near_overrun_is_found() {
    // One byte over the room is far within the solver's tolerance, and looks quicker.
    let (full, one, none) = ((1e11, 0.0), (1.0, 1.0), (0.0, 1.5));
    let mode = |(bytes, seconds)| Mode { bytes, seconds };
    let kinds = [Kind { count: 2, modes: vec![mode(full), mode(one), mode(none)] }];
    assert_eq!(modes(&kinds, 1e11), Ok(Some(vec![vec![1, 0, 1]])));
}

#[test]
fn what_is_no_number_is_refused() {
    let kind = |bytes| Kind { count: 1, modes: vec![Mode { bytes, seconds: 1.0 }] };
    assert!(matches!(modes(&[kind(-1.0)], 1.0), Err(Refused::Number { field: "bytes", .. })));
    assert!(matches!(modes(&[kind(1.0)], f64::NAN), Err(Refused::Number { field: "room", .. })));
    assert_eq!(modes(&[kind(1.0)], f64::INFINITY), Ok(Some(vec![vec![1]])));
    assert_eq!(modes(&[Kind { count: 1, modes: Vec::new() }], 1.0), Ok(None));
    assert_eq!(modes(&[], 0.0), Ok(Some(Vec::new())));
}
