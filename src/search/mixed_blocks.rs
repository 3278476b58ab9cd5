//! The choice of a pipeline rank with blocks of several kinds: an integer programme says how many of each recompute.

use crate::profile::choices::CheckpointMode;
use crate::search::choices::{Hosted, RankChoice};
use crate::search::integer::{self, Kind};
use crate::search::modes::{Modes, Recomputed};
use crate::search::rank::RankProblem;

/// Integer programmes for one choice of what is on the host.
const MOST_PROGRAMMES: usize = 2;

/// Splits between device and host that are looked at for blocks of several kinds, once one of them fits.
const MOST_SPLITS: usize = 2;

impl RankProblem<'_, '_> {
    /// Of blocks of several kinds: how many of each recompute.
    pub fn best_of_kinds(&mut self, limit: f64) -> Option<RankChoice> {
        let mut best: Option<RankChoice> = None;
        let mut lower = f64::INFINITY;
        let mut roots = self.roots(limit);
        roots.sort_by(|one, other| one.lower.total_cmp(&other.lower));
        for (turn, root) in roots.into_iter().enumerate() {
            let known = best.as_ref().map_or(limit, |best| best.seconds);
            let is_enough = best.is_some() && turn >= MOST_SPLITS;
            if root.lower >= known || is_enough || self.closed_forms.deadline.is_over() {
                break;
            }
            // Programmes add bytes up, which is near the truth and no bound: whatever they find, the root's bound
            // stands.
            lower = lower.min(root.lower);
            let (nothing, hosted) = (Recomputed::default(), root.hosted);
            if self.fits(nothing, &hosted) {
                let (modes, seconds) = (Modes::All(nothing), self.ends(nothing, &hosted));
                let choice = RankChoice { modes, hosted, seconds, lower };
                best = Some(choice).filter(|choice| choice.seconds < known).or(best);
            } else if self.recomputes && self.fits(Recomputed { full: self.blocks, selective: 0 }, &hosted) {
                best = self.mixed(&hosted, known).or(best);
            }
        }
        let lower = lower.min(limit);
        best.map(|best| RankChoice { lower: lower.min(best.seconds), ..best })
    }

    /// Of blocks of several kinds, how many of each recompute so that the rank has room in the least time: bytes and
    /// seconds of a block are taken to add up, what they add up to is counted exactly, and what it is over is taken off
    /// the room.
    fn mixed(&mut self, hosted: &Hosted, limit: f64) -> Option<RankChoice> {
        let found = self.closed_forms.kinds(self.costs, self.strategy, self.layout, self.stage);
        let kinds: Vec<Kind> = found.iter().map(|found| found.kind.clone()).collect();
        let all_kept =
            |kind: &Kind| f64::from(kind.count) * kind.modes.first().map_or(0.0, |mode| mode.bytes);
        let plain = self.over(&Modes::All(Recomputed::default()), hosted);
        let mut room = kinds.iter().map(all_kept).sum::<f64>() - plain.device;
        for _ in 0..MOST_PROGRAMMES {
            let counts = integer::modes(&kinds, room)?;
            let recomputed = counts.iter().map(|counts| Recomputed {
                full: counts.get(CheckpointMode::Full as usize).copied().unwrap_or_default(),
                selective: counts.get(CheckpointMode::Selective as usize).copied().unwrap_or_default(),
            });
            let kinds = found.iter().zip(recomputed);
            let modes =
                Modes::Kinds(kinds.map(|(found, counts)| (found.chunk, found.class, counts)).collect());
            let over = self.over(&modes, hosted);
            if over.device <= 0.0 {
                let seconds = self.parts(hosted).end(&self.route);
                let wins = over.host <= 0.0 && seconds < limit;
                return wins.then_some(RankChoice { modes, hosted: *hosted, seconds, lower: seconds });
            }
            room -= over.device;
        }
        None
    }
}
