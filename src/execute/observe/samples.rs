//! Which steps of a run are looked at: the first warms up, the median of the rest speaks for them. Where tracing makes
//! steps longer, every other step is traced: step times are those of the others, the first of which warms up too.

use std::time::Instant;

use crate::execute::device::Tracing;
use crate::execute::fleet::{Fleet, StepResult};
use crate::execute::observe::span::Span;
use crate::lower::Stream;

/// Steps whose spans are kept.
const KEPT: usize = 9;

/// Spans of all streams of one rank, by stream.
pub type RankSpans = [Vec<Span>; Stream::ALL.len()];

/// Step times, and the spans of steps near the median.
#[derive(Debug, Default)]
pub struct Samples {
    seconds: Vec<f64>,
    /// All that are timed but the first.
    timed: Sorted,
    /// The first that is timed. On a GPU it makes graphs.
    warm_up: Option<f64>,
    traced: Sorted,
    kept: Vec<Kept>,
}

/// A step whose spans are kept.
#[derive(Debug)]
struct Kept {
    seconds: f64,
    began: Instant,
    spans: Vec<RankSpans>,
}

/// Seconds, ascending.
#[derive(Debug, Default)]
struct Sorted(Vec<f64>);

impl Sorted {
    fn insert(&mut self, seconds: f64) {
        let place = self.0.partition_point(|&shorter| shorter < seconds);
        self.0.insert(place, seconds);
    }

    /// Of two in the middle, the shorter.
    fn median(&self) -> Option<f64> {
        self.0.get(self.0.len().saturating_sub(1) / 2).copied()
    }
}

impl Samples {
    /// Whether the next step of `fleet` is to be traced: the first is, for runs of a single one.
    pub fn tracing(&self, fleet: &Fleet) -> Tracing {
        let is_free = fleet.gpu().is_none();
        if is_free || self.seconds.len().is_multiple_of(2) { Tracing::On } else { Tracing::Off }
    }

    /// Takes in the step that `fleet` has just made, traced as [`Self::tracing`] said.
    pub fn add(&mut self, fleet: &Fleet, result: &StepResult) {
        let StepResult { seconds, began, .. } = *result;
        let (tracing, is_free) = (self.tracing(fleet), fleet.gpu().is_none());
        let is_first = self.seconds.is_empty();
        self.seconds.push(seconds);
        if is_free || tracing == Tracing::Off {
            match self.warm_up {
                None => self.warm_up = Some(seconds),
                Some(_) => self.timed.insert(seconds),
            }
        }
        if tracing == Tracing::Off {
            return;
        }
        if !is_first {
            if self.traced.0.is_empty() {
                // The first step was kept in case that no other is traced.
                self.kept.clear();
            }
            self.traced.insert(seconds);
        }
        let spans =
            (0..fleet.ranks.len()).map(|rank| Stream::ALL.map(|stream| fleet.spans(rank, stream))).collect();
        self.kept.push(Kept { seconds, began, spans });
        if self.kept.len() > KEPT {
            let far = |place: &usize| self.far(self.kept[*place].seconds);
            let farthest = (0..self.kept.len()).max_by(|one, other| far(one).total_cmp(&far(other)));
            self.kept.remove(farthest.unwrap_or_default());
        }
    }

    /// Every step's time.
    pub fn seconds(&self) -> &[f64] {
        &self.seconds
    }

    /// The median of the steps that are timed, all but the first of them; of two in the middle, the shorter.
    pub fn median(&self) -> Option<f64> {
        self.timed.median().or(self.warm_up).or(self.seconds.first().copied())
    }

    /// The spans of the step that came nearest to the median of those that were traced, and when it began.
    pub fn spans(&self) -> Option<(&[RankSpans], Instant)> {
        let far = |kept: &&Kept| self.far(kept.seconds);
        let nearest = self.kept.iter().min_by(|one, other| far(one).total_cmp(&far(other)));
        nearest.map(|kept| (kept.spans.as_slice(), kept.began))
    }

    /// How far `seconds` are from the median of what was traced.
    fn far(&self, seconds: f64) -> f64 {
        (seconds - self.traced.median().unwrap_or_default()).abs()
    }
}
