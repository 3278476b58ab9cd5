//! The orders buffers are placed in.

use super::calendar::Span;

/// The most bytes live at one instant of any span.
pub(super) struct Pressure {
    /// Level k holds, for each instant, the most live bytes of the 2^k instants
    /// from there.
    levels: Vec<Vec<u64>>,
}

impl Pressure {
    pub(super) fn new(spans: &[Span], instants: usize) -> Self {
        let mut begun = vec![0; instants + 1];
        let mut ended = vec![0; instants + 1];
        for span in spans.iter().filter(|span| !span.is_empty()) {
            begun[span.start] += span.bytes;
            ended[span.end] += span.bytes;
        }
        let mut live = 0;
        let mut level = Vec::with_capacity(instants);
        for instant in 0..instants {
            live = live + begun[instant] - ended[instant];
            level.push(live);
        }
        let mut levels = Vec::new();
        let mut width = 1;
        while level.len() > width {
            let wider = level.iter().zip(&level[width..]).map(|(&here, &there)| here.max(there)).collect();
            levels.push(std::mem::replace(&mut level, wider));
            width *= 2;
        }
        levels.push(level);
        Self { levels }
    }

    /// The most bytes live at one instant.
    pub(super) fn live(&self) -> u64 {
        self.levels.last().and_then(|level| level.iter().max()).copied().unwrap_or(0)
    }

    /// The most bytes live at one instant of the span.
    fn during(&self, span: Span) -> u64 {
        let level = (span.end - span.start).ilog2() as usize;
        let widest = &self.levels[level];
        widest[span.start].max(widest[span.end - (1 << level)])
    }
}

/// How buffers are ordered before the first attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The largest first, of one size the earliest.
    Size,
    /// Those live at the fullest instant first, then those live at the next
    /// fullest, and so on; of one instant the earliest started.
    PeakThenStart,
    /// The same; of one instant those that end last.
    PeakThenEnd,
    /// The same; of one instant those that live longest.
    PeakThenLength,
}

impl Order {
    /// The orders, the most often successful first.
    pub(super) const ALL: [Self; 4] =
        [Self::Size, Self::PeakThenStart, Self::PeakThenEnd, Self::PeakThenLength];

    /// Sorts the buffers.
    pub(super) fn sort(self, buffers: &[usize], spans: &[Span], pressure: &Pressure) -> Vec<usize> {
        let mut sorted = buffers.to_vec();
        sorted.sort_by_cached_key(|&buffer| {
            let span = spans[buffer];
            let length = span.end - span.start;
            let (first, second, third) = match self {
                Self::Size => (span.bytes, usize::MAX - span.start, length),
                Self::PeakThenStart => (pressure.during(span), usize::MAX - span.start, length),
                Self::PeakThenEnd => (pressure.during(span), span.end, length),
                Self::PeakThenLength => (pressure.during(span), length, usize::MAX - span.start),
            };
            std::cmp::Reverse((first, second, third, span.bytes, usize::MAX - buffer))
        });
        sorted
    }
}
