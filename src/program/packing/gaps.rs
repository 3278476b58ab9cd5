//! The cheap attempt: buffers are placed as they come, each into a gap between those that are held then.

use super::calendar::Span;

/// Places `buffers` in the order of their starts, at the lowest gap that takes them; those that live for `short` instants at
/// most as high below `live` as there is a gap. The offsets, and where the highest buffer ends.
pub(super) fn place(spans: &[Span], buffers: &[usize], live: u64, short: usize) -> (Vec<u64>, u64) {
    let (mut starts, mut ends) = (buffers.to_vec(), buffers.to_vec());
    starts.sort_by_key(|&buffer| spans[buffer].start);
    ends.sort_by_key(|&buffer| spans[buffer].end);
    let mut ends = ends.into_iter().peekable();
    let (mut offsets, mut extent) = (vec![0; spans.len()], 0);
    // Lowest first; the last has no end.
    let mut gaps = vec![(0, u64::MAX)];
    for buffer in starts {
        let span = spans[buffer];
        while let Some(ended) = ends.next_if(|&ended| spans[ended].end <= span.start) {
            open(&mut gaps, (offsets[ended], offsets[ended] + spans[ended].bytes));
        }
        let takes = |from: u64, to: u64| to.saturating_sub(from) >= span.bytes;
        let is_short = span.end - span.start <= short;
        let high = || gaps.iter().rposition(|&(from, to)| takes(from, to.min(live)));
        let high = if is_short { high() } else { None };
        let Some(place) = high.or_else(|| gaps.iter().position(|&(from, to)| takes(from, to))) else {
            continue;
        };
        let (from, to) = gaps[place];
        let offset = if high.is_some() { to.min(live) - span.bytes } else { from };
        let end = offset + span.bytes;
        gaps.splice(place..=place, [(from, offset), (end, to)].into_iter().filter(|gap| gap.0 < gap.1));
        (offsets[buffer], extent) = (offset, end.max(extent));
    }
    (offsets, extent)
}

/// Adds a gap, joined to those that it touches.
fn open(gaps: &mut Vec<(u64, u64)>, (mut from, mut to): (u64, u64)) {
    let first = gaps.partition_point(|gap| gap.1 < from);
    let touching = gaps[first..].iter().take_while(|gap| gap.0 <= to).count();
    for gap in &gaps[first..first + touching] {
        (from, to) = (from.min(gap.0), to.max(gap.1));
    }
    gaps.splice(first..first + touching, [(from, to)]);
}
