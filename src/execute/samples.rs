//! Which steps of a run are looked at: the first warms up, the median of the rest speaks for them.

use crate::execute::fleet::Fleet;
use crate::execute::worker::Span;
use crate::lower::Stream;

/// Steps whose spans are kept.
const KEPT: usize = 9;

/// Spans of all streams of one rank, by stream.
pub type RankSpans = [Vec<Span>; Stream::ALL.len()];

/// Step times, and the spans of steps near the median.
#[derive(Debug, Default)]
pub struct Samples {
    seconds: Vec<f64>,
    kept: Vec<(f64, Vec<RankSpans>)>,
}

impl Samples {
    /// Takes in the step that `fleet` has just made.
    pub fn add(&mut self, fleet: &Fleet, seconds: f64) {
        self.seconds.push(seconds);
        if self.seconds.len() == 2 {
            // Only kept for runs of a single step.
            self.kept.clear();
        }
        let spans =
            (0..fleet.ranks.len()).map(|rank| Stream::ALL.map(|stream| fleet.spans(rank, stream))).collect();
        self.kept.push((seconds, spans));
        if self.kept.len() > KEPT {
            let median = self.median().unwrap_or_default();
            let far = |&(seconds, _): &(f64, _)| (seconds - median).abs();
            let farthest = (0..self.kept.len())
                .max_by(|&one, &other| far(&self.kept[one]).total_cmp(&far(&self.kept[other])));
            self.kept.remove(farthest.unwrap_or_default());
        }
    }

    /// Every step's time.
    pub fn seconds(&self) -> &[f64] {
        &self.seconds
    }

    /// The median of all but the first step; of two in the middle, the shorter.
    pub fn median(&self) -> Option<f64> {
        let mut rest =
            self.seconds.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(&self.seconds).to_vec();
        rest.sort_by(f64::total_cmp);
        rest.get(rest.len().saturating_sub(1) / 2).copied()
    }

    /// The spans of the step that came nearest to the median.
    pub fn spans(&self) -> Option<&[RankSpans]> {
        let median = self.median()?;
        let far = |seconds: f64| (seconds - median).abs();
        let nearest = self.kept.iter().min_by(|one, other| far(one.0).total_cmp(&far(other.0)));
        nearest.map(|(_, spans)| spans.as_slice())
    }
}
