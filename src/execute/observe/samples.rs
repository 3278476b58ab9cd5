//! Which steps of a run are looked at: the first warms up, the median of the rest speaks for them.

use crate::execute::fleet::Fleet;
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
    /// All but the first, ascending.
    sorted: Vec<f64>,
    kept: Vec<(f64, Vec<RankSpans>)>,
}

impl Samples {
    /// Takes in the step that `fleet` has just made.
    pub fn add(&mut self, fleet: &Fleet, seconds: f64) {
        if self.seconds.len() == 1 {
            // The first step was kept for runs of a single one.
            self.kept.clear();
        }
        if !self.seconds.is_empty() {
            let place = self.sorted.partition_point(|&shorter| shorter < seconds);
            self.sorted.insert(place, seconds);
        }
        self.seconds.push(seconds);
        let spans =
            (0..fleet.ranks.len()).map(|rank| Stream::ALL.map(|stream| fleet.spans(rank, stream))).collect();
        self.kept.push((seconds, spans));
        if self.kept.len() > KEPT {
            let far = |place: &usize| self.far(self.kept[*place].0);
            let farthest = (0..self.kept.len()).max_by(|one, other| far(one).total_cmp(&far(other)));
            self.kept.remove(farthest.unwrap_or_default());
        }
    }

    /// Every step's time.
    pub fn seconds(&self) -> &[f64] {
        &self.seconds
    }

    /// The median of all but the first step; of two in the middle, the shorter.
    pub fn median(&self) -> Option<f64> {
        let middle = self.sorted.get(self.sorted.len().saturating_sub(1) / 2);
        middle.or(self.seconds.first()).copied()
    }

    /// The spans of the step that came nearest to the median.
    pub fn spans(&self) -> Option<&[RankSpans]> {
        let nearest = self.kept.iter().min_by(|one, other| self.far(one.0).total_cmp(&self.far(other.0)));
        nearest.map(|(_, spans)| spans.as_slice())
    }

    /// How far `seconds` are from the median.
    fn far(&self, seconds: f64) -> f64 {
        (seconds - self.median().unwrap_or_default()).abs()
    }
}
