//! The search for the least upper end of a step: strategies of each ratio of upper end to time are searched best first,
//! with a limit in seconds that follows from the least upper end known.

use std::collections::BTreeMap;

use crate::search::best_first::best_first;
use crate::search::bounding::Entry;
use crate::search::diving::{dive, likely, play_seeds};
use crate::search::incumbent::Found;
use crate::search::patience::Patience;
use crate::search::problem::Candidate;
use crate::search::request::Account;
use crate::search::robust::Robust;
use crate::search::robust::upper_end::UpperEnds;
use crate::search::run::{bound, place};
use crate::search::solve::Solving;
use crate::units::Seconds;

/// What is known of the least upper end.
pub struct Least<'e, 'p, 'a> {
    ends: &'e UpperEnds<'p, 'a>,
    tolerance: f64,
    /// No strategy that fits takes less, in seconds.
    fastest: f64,
    /// Plans that fit.
    pub plans: Vec<Candidate>,
    /// The least upper end of `plans`, in seconds.
    upper: f64,
    /// No other strategy that was looked at has one below so many seconds.
    lower: f64,
}

impl<'e, 'p, 'a> Least<'e, 'p, 'a> {
    /// Nothing is known but that no step takes less than `fastest` seconds; plans within `tolerance` of the least are of
    /// interest.
    pub const fn new(ends: &'e UpperEnds<'p, 'a>, tolerance: f64, fastest: f64) -> Self {
        Self { ends, tolerance, fastest, plans: Vec::new(), upper: f64::INFINITY, lower: f64::INFINITY }
    }

    /// Takes in plans that fit.
    pub fn add(&mut self, plans: impl IntoIterator<Item = Candidate>) {
        for plan in plans {
            self.upper = self.upper.min(self.ends.of(&plan).0);
            self.plans.push(plan);
        }
    }

    /// The upper end up to which a plan is of interest, in seconds.
    pub fn limit(&self) -> f64 {
        self.upper * (1.0 + self.tolerance)
    }

    /// Searches the whole space of `solving`: the strategies of it that are of interest.
    pub fn search(&mut self, solving: &Solving<'_>) -> Vec<Entry> {
        let ratio = self.ends.least_ratio();
        self.seed(solving, &likely);
        let bounds = bound(solving.bounding, self.limit() / ratio, &|_| {});
        let limit = self.upper / ratio;
        self.seed(solving, &|solving| dive(solving, &bounds.entries, limit));
        if let Some(let_go) = bounds.let_go {
            self.let_go(let_go, 0.0);
        }
        self.look(solving, &bounds.entries, 0.0);
        bounds.entries
    }

    fn seed(
        &mut self,
        solving: &Solving<'_>,
        choose: &dyn Fn(&Solving<'_>) -> Vec<crate::search::solve::Solved>,
    ) {
        let mut found = self.found(self.ends.least_ratio());
        play_seeds(solving, choose, &mut found);
        self.add(found.played);
    }

    /// Searches `entries`; of those that are not searched elsewhere, the ratio is at least `more` above what their outer
    /// strategies settle.
    pub fn look(&mut self, solving: &Solving<'_>, entries: &[Entry], more: f64) {
        let limit = self.upper / (self.ends.least_ratio() + more);
        if self.fastest >= limit {
            return;
        }
        let placed = place(solving.bounding, entries, limit, &mut Account::default());
        // Ratios are above 1, so their bits are in order as they are.
        let mut classes: BTreeMap<u64, Vec<Entry>> = BTreeMap::new();
        for entry in placed {
            let ratio = self.ends.ratio(&solving.bounding.space.strategy(&entry)) + more;
            classes.entry(ratio.to_bits()).or_default().push(entry);
        }
        let patience =
            Patience::work(solving.closed_forms.has_like_blocks(), solving.bounding.space.deadline);
        for (ratio, mut entries) in classes {
            let ratio = f64::from_bits(ratio);
            let mut found = self.found(ratio);
            let limit = found.limit();
            entries.retain(|entry| entry.lower_bound < limit);
            if entries.is_empty() || self.fastest >= limit {
                continue;
            }
            let mut account = Account::default();
            best_first(solving, entries, &mut found, &mut account, patience);
            let left = account.lowest_bound.map_or(f64::INFINITY, |bound| bound.0);
            self.lower = self.lower.min(left * ratio);
            self.add(found.played);
        }
    }

    /// Strategies whose steps take at least `seconds` are not looked at, with ratios at least `more` above the lowest.
    pub fn let_go(&mut self, seconds: f64, more: f64) {
        self.lower = self.lower.min(seconds * (self.ends.least_ratio() + more));
    }

    /// `plan` as the answer.
    pub fn settled(&self, plan: Candidate) -> Robust {
        Robust { plan, upper: Seconds(self.upper), lower: Seconds(self.lower.min(self.upper)) }
    }

    /// What a search of strategies of this ratio begins with.
    fn found(&self, ratio: f64) -> Found {
        Found::below(self.upper / ratio)
    }
}
