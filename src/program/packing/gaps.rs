//! The cheap attempt: buffers are placed as they come, each into a gap between those that are held then.

use super::Lifetime;
use super::calendar::join;

/// The indices of `lifetimes`, the first to end first.
pub(super) fn by_end(lifetimes: &[Lifetime]) -> impl Iterator<Item = usize> {
    let mut ends: Vec<usize> = (0..lifetimes.len()).collect();
    ends.sort_by_key(|&buffer| lifetimes[buffer].end);
    ends.into_iter()
}

/// The bytes that are held when each of `lifetimes` starts.
pub(super) fn held(lifetimes: &[Lifetime]) -> Vec<u64> {
    let (mut ends, mut live) = (by_end(lifetimes).peekable(), 0);
    let mut held = Vec::with_capacity(lifetimes.len());
    for buffer in lifetimes {
        live += buffer.bytes;
        while let Some(ended) = ends.next_if(|&ended| lifetimes[ended].end <= buffer.start) {
            live -= lifetimes[ended].bytes;
        }
        held.push(live);
    }
    held
}

/// Offsets in the order of starts, each at the lowest gap that takes its buffer; of those that live for `short` instants
/// at most as high below `live` as there is a gap.
pub(super) fn place(lifetimes: &[Lifetime], live: u64, short: u32) -> Vec<u64> {
    let mut ends = by_end(lifetimes).peekable();
    let mut offsets = vec![0; lifetimes.len()];
    // Lowest first; the last has no end.
    let mut gaps = vec![(0, u64::MAX)];
    for (buffer, lifetime) in lifetimes.iter().enumerate() {
        while let Some(ended) = ends.next_if(|&ended| lifetimes[ended].end <= lifetime.start) {
            join(&mut gaps, (offsets[ended], offsets[ended] + lifetimes[ended].bytes));
        }
        let takes = |from: u64, to: u64| to.saturating_sub(from) >= lifetime.bytes;
        let is_short = lifetime.length() <= short;
        let high = || gaps.iter().rposition(|&(from, to)| takes(from, to.min(live)));
        let high = if is_short { high() } else { None };
        let Some(place) = high.or_else(|| gaps.iter().position(|&(from, to)| takes(from, to))) else {
            continue;
        };
        let (from, to) = gaps[place];
        let offset = if high.is_some() { to.min(live) - lifetime.bytes } else { from };
        let end = offset + lifetime.bytes;
        gaps.splice(place..=place, [(from, offset), (end, to)].into_iter().filter(|gap| gap.0 < gap.1));
        offsets[buffer] = offset;
    }
    offsets
}
