//! One pipeline rank whose cuts are in place: what a choice of recomputation and offload takes of it, in seconds and
//! bytes.
//!
//! Ranks meet only in the bound's maximum, so each chooses for itself the least time that fits its memory, which is
//! counted to the byte. Of its blocks the first recompute wholly, the next selectively, the rest not at all: those in
//! front are held longest. Blocks of one kind are interchangeable, so counts are all there is to choose.

use crate::cost::route::{Parts, Route};
use crate::profile::choices::OffloadCategory;
use crate::program::Layout;
use crate::search::choices::{Hosted, NOTHING, Options, without_activations};
use crate::search::closed_forms::{ClosedForms, OuterCosts};
use crate::search::modes::{Modes, Recomputed};
use crate::search::rank_search::Question;
use crate::strategy::Strategy;
use crate::units::Bytes;

/// Bytes that a choice takes more than device and host have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over {
    pub(super) device: f64,
    pub(super) host: f64,
}

/// One rank of a strategy whose cuts are in place.
pub struct RankProblem<'a, 'p> {
    pub closed_forms: &'a ClosedForms<'p>,
    pub costs: &'a OuterCosts<'p>,
    pub strategy: &'a mut Strategy,
    pub stage: u32,
    pub(super) layout: &'a mut Layout,
    chunks: Vec<usize>,
    /// How many blocks it has, and whether all are of one class.
    pub blocks: u32,
    pub is_even: bool,
    /// What stands before and behind it.
    pub(super) route: Route,
    /// Checkpoint modes are free.
    pub recomputes: bool,
    /// What may be kept on the host.
    pub hosted: Vec<Hosted>,
    /// Everything fits.
    is_boundless: bool,
    /// Seconds of optimizer steps, by what is on the host but activations: what is recomputed is nothing to them.
    pub(super) steps: Vec<(Hosted, f64)>,
    /// Another layout of it, for what is copied of a choice that recomputes more.
    pub(super) copied: Option<Layout>,
    /// The choice that strategy and layout have.
    pub(super) written: Option<(Modes, Hosted)>,
    /// How many blocks end in time, as it was asked last.
    pub(super) answers: Vec<(Question, Option<u32>)>,
}

impl<'a, 'p> RankProblem<'a, 'p> {
    /// Rank `stage` of `strategy`, which `layout` places, on `route`.
    pub fn new(
        (closed_forms, costs): (&'a ClosedForms<'p>, &'a OuterCosts<'p>),
        (strategy, layout): (&'a mut Strategy, &'a mut Layout),
        (stage, route): (u32, Route),
        options: &Options,
    ) -> Self {
        let supports = &closed_forms.problem.engine.supports;
        let hosted = options.hosted(stage as usize, strategy.zero, supports);
        let recomputes = options.recomputes;
        let chunks = strategy.chunks_of(u64::from(stage));
        let chunks: Vec<usize> = chunks.into_iter().map(|chunk| chunk as usize).collect();
        let blocks = chunks.iter().map(|&chunk| strategy.cuts[chunk]).sum();
        let is_even = {
            let mut classes = chunks.iter().flat_map(|&chunk| layout.block_classes(chunk));
            classes.next().is_none_or(|first| classes.all(|class| class == first))
        };
        Self {
            closed_forms,
            costs,
            strategy,
            stage,
            layout,
            chunks,
            blocks,
            is_even,
            route,
            recomputes,
            hosted,
            is_boundless: options.is_boundless,
            steps: Vec::new(),
            copied: None,
            written: None,
            answers: Vec::new(),
        }
    }

    /// The same with optimizer steps that are known.
    #[must_use]
    pub fn knowing(mut self, steps: &[(Hosted, f64)]) -> Self {
        self.steps = steps.to_vec();
        self
    }

    /// The optimizer steps that were looked at.
    pub fn into_steps(self) -> Vec<(Hosted, f64)> {
        self.steps
    }

    /// Splits between device and host that differ from `hosted` by no more than `step` in one category.
    pub fn near(&self, hosted: &Hosted, step: f64) -> Vec<Hosted> {
        let distance =
            |other: &&Hosted| other.iter().zip(hosted).map(|(one, other)| (one - other).abs()).sum::<f64>();
        self.hosted.iter().filter(|other| distance(other) <= step + f64::EPSILON).copied().collect()
    }

    /// Whether the rank has so many blocks, and may choose what they recompute.
    pub fn is_possible(&self, Recomputed { full, selective }: Recomputed) -> bool {
        (self.recomputes && full + selective <= self.blocks) || full + selective == 0
    }

    /// The fewest blocks that recompute selectively so that the rank fits, beside `full` ones.
    pub fn fewest_selective(&mut self, full: u32, hosted: &Hosted) -> Option<u32> {
        let most = if self.recomputes { self.blocks.checked_sub(full)? } else { 0 };
        self.least(0, most, |problem, selective| problem.over_all(Recomputed { full, selective }, hosted))
    }

    /// Whether the device has room if everything is recomputed and on the host that can be.
    pub fn could_fit(&mut self) -> bool {
        let mut most = NOTHING;
        for hosted in &self.hosted {
            for (most, &fraction) in most.iter_mut().zip(hosted) {
                *most = fraction.max(*most);
            }
        }
        let full = if self.recomputes { self.blocks } else { 0 };
        self.over(&Modes::All(Recomputed { full, selective: 0 }), &most).device <= 0.0
    }

    /// The least number from `low` to `high` that is not over, which more brings down about evenly: `over` says by how
    /// much.
    pub(super) fn least(&mut self, low: u32, high: u32, over: impl Fn(&mut Self, u32) -> f64) -> Option<u32> {
        if low > high {
            return None;
        }
        let (mut low, mut high) = (low, high);
        let mut least = over(self, low);
        if least <= 0.0 {
            return Some(low);
        }
        let mut most = over(self, high);
        if low == high || most > 0.0 {
            return None;
        }
        let mut turn = 0;
        while high - low > 1 && !self.closed_forms.deadline.is_over() {
            // Where a straight line says, and every third time in the middle.
            turn += 1;
            let share = if turn % 3 == 0 { 0.5 } else { least / (least - most) };
            let middle = low + ((f64::from(high - low) * share).ceil() as u32).clamp(1, high - low - 1);
            let at = over(self, middle);
            if at <= 0.0 {
                (high, most) = (middle, at);
            } else {
                (low, least) = (middle, at);
            }
        }
        Some(high)
    }

    /// What the rank has to do if it recomputes nothing and keeps nothing on the host but what is fixed, with the least
    /// optimizer step of all splits between device and host.
    pub fn plain(&mut self) -> Parts {
        let first = without_activations(self.hosted[0]);
        self.write(&Modes::All(Recomputed::default()), &first);
        let parts = self.parts(&first);
        let others = self.hosted.clone();
        let steps = others.iter().skip(1).map(|hosted| self.step_of(hosted));
        let step = steps.fold(parts.step, f64::min);
        self.write(&Modes::All(Recomputed::default()), &first);
        Parts { step, ..parts }
    }

    /// Seconds of the optimizer step with `hosted` on the host.
    pub fn step_of(&mut self, hosted: &Hosted) -> f64 {
        let hosted = without_activations(*hosted);
        if self.steps.iter().all(|(known, _)| *known != hosted) {
            self.write(&Modes::All(Recomputed::default()), &hosted);
        }
        self.optimizer_step(&hosted)
    }

    /// The parts of the choice that is written down, of which `hosted` is on the host.
    pub(super) fn parts(&mut self, hosted: &Hosted) -> Parts {
        let bound = self.closed_forms.time(self.costs, self.strategy, self.layout);
        let parts = bound.parts_before_step(self.stage);
        Parts { step: self.optimizer_step(hosted), ..parts }
    }

    /// Seconds of the optimizer step of what is written down, of which `hosted` is on the host.
    pub(super) fn optimizer_step(&mut self, hosted: &Hosted) -> f64 {
        let hosted = without_activations(*hosted);
        let known = self.steps.iter().find(|(known, _)| *known == hosted);
        known.map(|(_, step)| *step).unwrap_or_else(|| {
            let step = self.closed_forms.optimizer_step(self.costs, self.strategy, self.layout, self.stage);
            self.steps.push((hosted, step));
            step
        })
    }

    /// When the rank's step ends under a choice.
    pub(super) fn ends(&mut self, recomputed: Recomputed, hosted: &Hosted) -> f64 {
        self.write(&Modes::All(recomputed), hosted);
        self.parts(hosted).end(&self.route)
    }

    /// Whether a choice fits device and host.
    pub fn fits(&mut self, recomputed: Recomputed, hosted: &Hosted) -> bool {
        self.over_all(recomputed, hosted) <= 0.0
    }

    /// Bytes that a choice takes more than device or host have.
    pub(super) fn over_all(&mut self, recomputed: Recomputed, hosted: &Hosted) -> f64 {
        let over = self.over(&Modes::All(recomputed), hosted);
        over.device.max(over.host)
    }

    /// What a choice, which is written down, takes more than there is.
    pub(super) fn over(&mut self, modes: &Modes, hosted: &Hosted) -> Over {
        if self.is_boundless {
            self.write(modes, hosted);
            return Over { device: 0.0, host: 0.0 };
        }
        let (peak, host) = self.peaks(modes, hosted);
        let problem = self.closed_forms.problem;
        let process = problem.process_memory(self.strategy, peak).process;
        Over {
            device: process.0 as f64 - problem.memory_limit.0 as f64,
            host: host.0 as f64 - problem.host_limit.0 as f64,
        }
    }

    /// The peaks of a choice, which is written down, on device and host.
    pub(super) fn peaks(&mut self, modes: &Modes, hosted: &Hosted) -> (Bytes, Bytes) {
        self.write(modes, hosted);
        self.closed_forms.peaks(self.costs, self.strategy, self.layout, self.stage)
    }

    /// Writes a choice into the strategy, and into its layout.
    pub fn write(&mut self, modes: &Modes, hosted: &Hosted) {
        if self.written.as_ref().is_some_and(|written| written.0 == *modes && written.1 == *hosted) {
            return;
        }
        self.written = Some((modes.clone(), *hosted));
        if self.recomputes {
            modes.write(self.strategy, self.layout, &self.chunks);
        }
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
        self.layout.choose(self.strategy, self.stage);
    }
}
