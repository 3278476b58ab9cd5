//! Every inner choice of every outer strategy, played: slow, and no bound is trusted.

use rayon::prelude::*;

use crate::cost::route::Route;
use crate::search::bounding::Entry;
use crate::search::incumbent::{Found, play};
use crate::search::inner::InnerProblem;
use crate::search::modes::{Modes, Recomputed};
use crate::search::passes::Ways;
use crate::search::rank::RankProblem;
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};
use crate::strategy::Strategy;
use crate::units::Seconds;

/// Outer strategies whose inner choices are listed at once.
const LISTED_A_ROUND: usize = 64;
/// Inner choices of an outer strategy that are played one by one at the most; of more, sets are ruled out as in any
/// search.
const MOST_CHOICES: usize = 1_000;

/// Plays all of `entries`; returns those with too many inner choices, solved.
pub fn play_all(
    solving: &Solving<'_>,
    entries: &[Entry],
    found: &mut Found,
    account: &mut Account,
) -> Vec<Solved> {
    let mut left = Vec::new();
    // What is not played keeps its bound.
    let keep = |round: &[Entry], account: &mut Account| {
        let bounds = round.iter().map(|entry| Seconds(entry.lower_bound));
        account.lowest_bound = account.lowest_bound.into_iter().chain(bounds).reduce(Seconds::min);
    };
    for round in entries.chunks(LISTED_A_ROUND) {
        if solving.closed_forms.deadline.is_over() {
            keep(round, account);
            account.bounded += round.len() as u64;
            continue;
        }
        let listed: Vec<Option<Vec<Solved>>> =
            round.par_iter().map(|entry| solving.every_choice(entry)).collect();
        for (entry, choices) in round.iter().zip(listed) {
            let choices = choices.unwrap_or_else(|| {
                let solved: Vec<Solved> = solving.solve(entry, f64::INFINITY).into_iter().collect();
                left.extend(solved.iter().cloned());
                solved
            });
            if choices.is_empty() {
                account.out_of_memory += 1;
                continue;
            }
            account.priced += 1;
            account.played += 1;
            for few in choices.chunks(LISTED_A_ROUND) {
                play(solving, few.to_vec(), f64::INFINITY, found, &mut Account::default());
            }
        }
        if solving.closed_forms.deadline.is_over() {
            // Some of it was cut short.
            keep(round, account);
        }
    }
    left
}

/// All inner choices of `outer`; none if they are too many to list.
pub fn every_choice(inner: &InnerProblem<'_, '_>, outer: &Strategy, ways: &Ways) -> Option<Vec<Strategy>> {
    let blocks = inner.closed_forms.problem.facts.blocks;
    let cuts = match inner.cuts {
        Some(cuts) => vec![cuts.to_vec()],
        None if outer.virtual_stages > 1 => ways.list.iter().map(|way| way.cuts.clone()).collect(),
        None => compositions(blocks, outer.pipeline as usize)?,
    };
    let mut list = Vec::new();
    for cuts in cuts {
        let mut all = vec![inner.with_cuts(outer, cuts)];
        for stage in 0..outer.pipeline as u32 {
            let mut more = Vec::new();
            for mut strategy in all {
                let mut layout = inner.closed_forms.whole_layout(inner.costs, &strategy);
                let mut rank = inner.rank((&mut strategy, &mut layout), stage, Route::default());
                every_choice_of_rank(&mut rank, &mut more)?;
                if list.len() + more.len() > MOST_CHOICES {
                    return None;
                }
            }
            all = more;
        }
        list.extend(all);
    }
    Some(list)
}

/// Adds to `list` the strategy of `rank` under each choice of the rank that fits; none if they are too many to list.
fn every_choice_of_rank(rank: &mut RankProblem<'_, '_>, list: &mut Vec<Strategy>) -> Option<()> {
    let modes = every_mode(rank)?;
    for hosted in rank.hosted.clone() {
        for modes in &modes {
            if list.len() > MOST_CHOICES {
                return None;
            }
            let over = rank.over(modes, &hosted);
            if over.device.max(over.host) <= 0.0 {
                list.push(rank.strategy.clone());
            }
        }
    }
    Some(())
}

/// All ways in which the blocks of `rank` recompute, blocks of each kind by how many do; none if they are too many.
fn every_mode(rank: &RankProblem<'_, '_>) -> Option<Vec<Modes>> {
    if !rank.recomputes {
        return Some(vec![Modes::All(Recomputed::default())]);
    }
    if rank.is_even {
        return Some(counts(rank.blocks).map(Modes::All).collect());
    }
    let mut list: Vec<Vec<(usize, usize, Recomputed)>> = vec![Vec::new()];
    for found in rank.closed_forms.kinds(rank.costs, rank.strategy, rank.layout, rank.stage) {
        let with = |known: &Vec<_>| -> Vec<Vec<_>> {
            let counts = counts(found.kind.count);
            counts.map(|counts| [known.as_slice(), &[(found.chunk, found.class, counts)]].concat()).collect()
        };
        list = list.iter().flat_map(with).collect();
        if list.len() > MOST_CHOICES {
            return None;
        }
    }
    Some(list.into_iter().map(Modes::Kinds).collect())
}

/// All counts of recomputed blocks among `blocks`.
fn counts(blocks: u32) -> impl Iterator<Item = Recomputed> {
    (0..=blocks)
        .flat_map(move |full| (0..=blocks - full).map(move |selective| Recomputed { full, selective }))
}

/// All ways to cut `blocks` blocks into `parts` runs; none if they are too many to list.
fn compositions(blocks: u32, parts: usize) -> Option<Vec<Vec<u32>>> {
    let mut list: Vec<Vec<u32>> = vec![Vec::new()];
    for part in 0..parts {
        let is_last = part + 1 == parts;
        list = list
            .into_iter()
            .flat_map(|cuts| {
                let left = blocks - cuts.iter().sum::<u32>();
                let counts = if is_last { left..=left } else { 0..=left };
                counts.map(move |count| cuts.iter().copied().chain([count]).collect::<Vec<u32>>())
            })
            .collect();
        if list.len() > MOST_CHOICES {
            return None;
        }
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::compositions;

    #[test]
    fn every_cut_is_listed_once() {
        let mut cuts = compositions(4, 3).expect("few enough");
        // (4 + 2 choose 2)
        assert_eq!(cuts.len(), 15);
        assert!(cuts.iter().all(|cuts| cuts.len() == 3 && cuts.iter().sum::<u32>() == 4));
        cuts.dedup();
        assert_eq!(cuts.len(), 15);
        assert_eq!(compositions(100, 8), None);
    }
}
