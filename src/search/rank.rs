//! The inner choice of one pipeline rank: which of its blocks recompute what, and what it keeps on the host.
//!
//! Ranks meet only in the bound's maximum, so each chooses for itself the least time that fits its memory, which is
//! counted to the byte. Of its blocks the first recompute wholly, the next selectively, the rest not at all: those in
//! front are held longest. Blocks of one kind are interchangeable, so counts are all there is to choose; where a rank
//! has several kinds, an integer programme says how many of each.

use crate::cost::bound::Parts;
use crate::profile::choices::{CheckpointMode, OffloadCategory};
use crate::program::Layout;
use crate::search::closed::{Closing, OuterForms};
use crate::search::integer::{self, Kind};
use crate::search::modes::{Modes, Recomputed};
use crate::strategy::Strategy;

/// Fractions of each category that are tried on the host.
pub const FRACTIONS: [f64; 3] = [0.0, 0.5, 1.0];

/// Fractions on the host, in the order of [`OffloadCategory::ALL`].
pub type Hosted = [f64; OffloadCategory::ALL.len()];

/// Nothing on the host.
const NOTHING: Hosted = [0.0; OffloadCategory::ALL.len()];

/// Integer programmes for one choice of what is on the host.
const MOST_PROGRAMMES: usize = 4;

/// What a rank does at its best.
#[derive(Clone, Debug, PartialEq)]
pub struct RankChoice {
    pub modes: Modes,
    pub hosted: Hosted,
    /// When its step ends at the earliest, in seconds.
    pub seconds: f64,
}

/// What may be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Checkpoint modes are free; otherwise those of the strategy stand.
    pub recomputes: bool,
    /// What may be kept on the host, nothing first; otherwise what the strategy says.
    pub hosted: Vec<Hosted>,
}

impl Options {
    /// Whatever is not fixed, of what the engine can keep on the host.
    pub fn new(fixes_checkpoint: bool, fixes_offload: bool, offload: &[OffloadCategory]) -> Self {
        let mut hosted: Vec<Hosted> = vec![NOTHING];
        if !fixes_offload {
            for (place, category) in OffloadCategory::ALL.iter().enumerate() {
                if offload.contains(category) {
                    let more = hosted.iter().flat_map(|known| {
                        FRACTIONS[1..].iter().map(move |&fraction| {
                            let mut hosted = *known;
                            hosted[place] = fraction;
                            hosted
                        })
                    });
                    let more: Vec<Hosted> = more.collect();
                    hosted.extend(more);
                }
            }
        }
        Self { recomputes: !fixes_checkpoint, hosted }
    }
}

/// Bytes that a choice takes more than device and host have.
#[derive(Clone, Copy, Debug)]
struct Over {
    device: f64,
    host: f64,
}

/// One rank of a strategy whose cuts are in place.
pub struct RankProblem<'a, 'p> {
    pub closing: &'a Closing<'p>,
    pub forms: &'a OuterForms<'p>,
    pub strategy: &'a mut Strategy,
    pub stage: u32,
    layout: &'a mut Layout,
    /// When its first input is there at the earliest, and its last gradient back at the first rank, in seconds.
    way: f64,
    options: &'a Options,
    /// Seconds of optimizer steps, by what is on the host: what is recomputed is nothing to them.
    steps: Vec<(Hosted, f64)>,
}

impl<'a, 'p> RankProblem<'a, 'p> {
    /// Rank `stage` of `strategy`, which `layout` places: its first input is there, and its last gradient back at the
    /// first rank, no earlier than `way` seconds.
    pub fn new(
        (closing, forms): (&'a Closing<'p>, &'a OuterForms<'p>),
        (strategy, layout): (&'a mut Strategy, &'a mut Layout),
        (stage, way): (u32, f64),
        options: &'a Options,
    ) -> Self {
        Self { closing, forms, strategy, stage, layout, way, options, steps: Vec::new() }
    }

    /// The best choice of the rank that ends before `limit` seconds; none if nothing that does so fits. `plain` are
    /// its parts if it recomputes nothing and keeps nothing on the host: no other choice ends before these.
    pub fn best(&mut self, plain: &Parts, limit: f64) -> Option<RankChoice> {
        let nothing = Recomputed::default();
        let seconds = plain.end(self.way);
        self.steps.push((NOTHING, plain.step));
        if self.fits(nothing, &NOTHING) {
            return Some(RankChoice { modes: Modes::All(nothing), hosted: NOTHING, seconds });
        }
        if !self.could_fit() {
            return None;
        }
        let mut best = None;
        if self.options.recomputes {
            best = self.recomputing(&NOTHING, limit);
        }
        let known = |best: &Option<RankChoice>| best.as_ref().map_or(limit, |best| best.seconds);
        let hosted = self.least_times(seconds, known(&best));
        for &(least, hosted) in &hosted {
            if least >= known(&best) {
                break;
            }
            if self.fits(nothing, &hosted) {
                let seconds = self.ends(nothing, &hosted);
                if seconds < known(&best) {
                    best = Some(RankChoice { modes: Modes::All(nothing), hosted, seconds });
                }
            } else if self.options.recomputes {
                best = self.recomputing(&hosted, known(&best)).or(best);
            }
        }
        best
    }

    /// Whether the device has room if everything is recomputed and on the host that can be.
    pub fn could_fit(&mut self) -> bool {
        let mut most = NOTHING;
        for hosted in self.options.hosted.iter().filter(|hosted| self.allows(hosted)) {
            for (most, &fraction) in most.iter_mut().zip(hosted) {
                *most = fraction.max(*most);
            }
        }
        let full = self.blocks();
        self.over(&Modes::All(Recomputed { full, selective: 0 }), &most).device <= 0.0
    }

    fn blocks(&self) -> u32 {
        self.chunks().iter().map(|&chunk| self.strategy.cuts[chunk]).sum()
    }

    /// What may be kept on the host, each with seconds that it takes at the least: what each of its parts takes by
    /// itself, and `plain` without any. The quickest first, those below `limit`.
    fn least_times(&mut self, plain: f64, limit: f64) -> Vec<(f64, Hosted)> {
        let mut alone = [[None; FRACTIONS.len()]; NOTHING.len()];
        let mut list: Vec<(f64, Hosted)> = Vec::new();
        for hosted in self.options.hosted.clone() {
            if hosted == NOTHING || !self.allows(&hosted) {
                continue;
            }
            let mut least = plain;
            for (category, fraction) in hosted.into_iter().enumerate() {
                let step = FRACTIONS.iter().position(|&known| known == fraction).unwrap_or_default();
                if step > 0 && least < limit {
                    let mut single = NOTHING;
                    single[category] = fraction;
                    let seconds = alone[category][step];
                    let seconds = seconds.unwrap_or_else(|| self.ends(Recomputed::default(), &single));
                    alone[category][step] = Some(seconds);
                    least = least.max(seconds);
                }
            }
            if least < limit {
                list.push((least, hosted));
            }
        }
        list.sort_by(|one, other| one.0.total_cmp(&other.0));
        list
    }

    /// The fewest recomputed blocks that fit, weighed by their time.
    fn recomputing(&mut self, hosted: &Hosted, limit: f64) -> Option<RankChoice> {
        let all = self.blocks();
        // With the rest selective, as few whole ones as fit.
        let least = self.least(0, all, |problem, full| {
            problem.fits(Recomputed { full, selective: all - full }, hosted)
        })?;
        let mut best: Option<RankChoice> = None;
        let mut selective = all - least;
        for full in least..=all {
            let known = best.as_ref().map_or(limit, |best| best.seconds);
            if self.ends(Recomputed { full, selective: 0 }, hosted) >= known {
                break;
            }
            // With one more whole block a few selective ones less are needed.
            let most = selective.min(all - full);
            let fewest = self
                .least(0, most, |problem, selective| problem.fits(Recomputed { full, selective }, hosted));
            let Some(fewest) = fewest else { continue };
            selective = fewest;
            let recomputed = Recomputed { full, selective };
            let seconds = self.ends(recomputed, hosted);
            if seconds < known {
                best = Some(RankChoice { modes: Modes::All(recomputed), hosted: *hosted, seconds });
            }
        }
        let known = best.as_ref().map_or(limit, |best| best.seconds);
        self.mixed(hosted, known).or(best)
    }

    /// The least number from `low` to `high` that `fits`, which more does better; the sooner found the nearer to `high`.
    fn least(&mut self, low: u32, high: u32, fits: impl Fn(&mut Self, u32) -> bool) -> Option<u32> {
        if !fits(self, high) {
            return None;
        }
        let (mut low, mut high, mut step) = (low, high, 1);
        while low < high {
            // Longer and longer steps down until one is too long, then by halves.
            let middle = high.saturating_sub(step).max(low + (high - low) / 2);
            if fits(self, middle) {
                (high, step) = (middle, 2 * step);
            } else {
                low = middle + 1;
            }
        }
        Some(high)
    }

    /// What the rank has to do if it recomputes nothing and keeps nothing on the host.
    pub fn plain(&mut self) -> Parts {
        self.write(&Modes::All(Recomputed::default()), &NOTHING);
        self.parts(&NOTHING)
    }

    /// The parts of the choice that is written down, of which `hosted` is on the host.
    fn parts(&mut self, hosted: &Hosted) -> Parts {
        let (bound, stage) = (self.closing.time(self.forms, self.strategy, self.layout), self.stage);
        let known = self.steps.iter().find(|(known, _)| known == hosted);
        let step = known.map_or_else(|| bound.optimizer_step(stage), |&(_, step)| step);
        let parts = Parts { step, ..bound.parts_before_step(stage) };
        if known.is_none() {
            self.steps.push((*hosted, step));
        }
        parts
    }

    /// When the rank's step ends under a choice.
    fn ends(&mut self, recomputed: Recomputed, hosted: &Hosted) -> f64 {
        self.write(&Modes::All(recomputed), hosted);
        self.parts(hosted).end(self.way)
    }

    /// Whether a choice fits device and host.
    fn fits(&mut self, recomputed: Recomputed, hosted: &Hosted) -> bool {
        let over = self.over(&Modes::All(recomputed), hosted);
        over.device <= 0.0 && over.host <= 0.0
    }

    /// What a choice, which is written down, takes more than there is.
    fn over(&mut self, modes: &Modes, hosted: &Hosted) -> Over {
        self.write(modes, hosted);
        let (peak, host) = self.closing.peaks(self.forms, self.strategy, self.layout, self.stage);
        let problem = self.closing.problem;
        let process = problem.process_memory(self.strategy, peak).process;
        Over {
            device: process.0 as f64 - problem.memory_limit.0 as f64,
            host: host.0 as f64 - problem.cluster.host_memory_per_device().0 as f64,
        }
    }

    /// Whether the engine offers to keep this on the host under the strategy's state.
    fn allows(&self, hosted: &Hosted) -> bool {
        let supports = &self.closing.problem.engine.supports;
        hosted[OffloadCategory::Parameters as usize] == 0.0
            || self.strategy.zero >= supports.parameter_offload_from_zero
    }

    fn chunks(&self) -> Vec<usize> {
        let chunks = self.strategy.chunks_of(u64::from(self.stage));
        chunks.into_iter().map(|chunk| chunk as usize).collect()
    }

    /// Whether all of its blocks are of one class.
    fn is_even(&self) -> bool {
        let chunks = self.chunks();
        let mut classes = chunks.iter().flat_map(|&chunk| self.layout.block_classes(chunk));
        classes.next().is_none_or(|first| classes.all(|class| class == first))
    }

    /// Of blocks of several kinds, how many of each recompute so that the rank has room in the least time: bytes and
    /// seconds of a block are taken to add up, what they add up to is counted exactly, and what it is over is taken off
    /// the room.
    fn mixed(&mut self, hosted: &Hosted, limit: f64) -> Option<RankChoice> {
        if self.is_even() {
            return None;
        }
        let found = self.closing.kinds(self.forms, self.strategy, self.layout, self.stage);
        let kinds: Vec<Kind> = found.iter().map(|found| found.kind.clone()).collect();
        let all_kept =
            |kind: &Kind| f64::from(kind.count) * kind.modes.first().map_or(0.0, |mode| mode.bytes);
        let plain = self.over(&Modes::All(Recomputed::default()), hosted);
        let mut room = kinds.iter().map(all_kept).sum::<f64>() - plain.device;
        for _ in 0..MOST_PROGRAMMES {
            let counts = integer::modes(&kinds, room).ok()??;
            let recomputed = counts.iter().map(|counts| Recomputed {
                full: counts.get(CheckpointMode::Full as usize).copied().unwrap_or_default(),
                selective: counts.get(CheckpointMode::Selective as usize).copied().unwrap_or_default(),
            });
            let kinds = found.iter().zip(recomputed);
            let modes =
                Modes::Kinds(kinds.map(|(found, counts)| (found.chunk, found.class, counts)).collect());
            let over = self.over(&modes, hosted);
            if over.device <= 0.0 {
                let seconds = self.parts(hosted).end(self.way);
                let wins = over.host <= 0.0 && seconds < limit;
                return wins.then_some(RankChoice { modes, hosted: *hosted, seconds });
            }
            room -= over.device;
        }
        None
    }

    /// Writes a choice into the strategy, and into its layout.
    pub fn write(&mut self, modes: &Modes, hosted: &Hosted) {
        if self.options.recomputes {
            let chunks = self.chunks();
            modes.write(self.strategy, self.layout, &chunks);
        }
        if self.options.hosted.len() > 1 {
            for (&category, &fraction) in OffloadCategory::ALL.iter().zip(hosted) {
                let stages = self.strategy.pipeline as usize;
                let fractions = self.strategy.offload.fractions_mut(category);
                if fractions.is_empty() && fraction > 0.0 {
                    *fractions = vec![0.0; stages];
                }
                if let Some(slot) = fractions.get_mut(self.stage as usize) {
                    *slot = fraction;
                }
            }
        }
        self.layout.choose(self.strategy, self.stage);
    }
}
