//! The plan that takes the least memory: the leanest inner choice of each outer strategy, in exact closed form.

use rayon::prelude::*;

use crate::search::bounding::Entry;
use crate::search::incumbent::Found;
use crate::search::request::Account;
use crate::search::solve::{Solved, Solving};

/// Strategies that are played in the end, the leanest by closed form.
const PLAYED: usize = 8;
/// Most strategies whose leanest form is looked at, those with the lowest time bound first.
const MOST_CLOSED: usize = 20_000;

/// Plays the leanest of `entries`.
pub fn play(solving: &Solving<'_>, entries: &[Entry], found: &mut Found, account: &mut Account) {
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by(|one, other| one.lower_bound.total_cmp(&other.lower_bound));
    let looked_at = &entries[..entries.len().min(MOST_CLOSED)];
    account.bounded += (entries.len() - looked_at.len()) as u64;
    let mut closed: Vec<Solved> = looked_at.par_iter().filter_map(|entry| solving.leanest(entry)).collect();
    account.priced += closed.len() as u64;
    account.out_of_memory += (looked_at.len() - closed.len()) as u64;
    closed.sort_by_key(|solved| (solved.closed.memory.process, solved.closed.bound.0.to_bits()));
    closed.truncate(PLAYED);
    account.played += closed.len() as u64;
    let closed_forms = solving.closed_forms;
    let played = closed.into_par_iter().filter_map(|solved| closed_forms.play(solved.strategy));
    found.played = played.filter(|candidate| closed_forms.problem.fits(candidate)).collect();
}
