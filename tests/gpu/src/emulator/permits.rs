//! Which bytes of a buffer a launch may read and write, where its caller has said so.

use std::fmt;

/// Sorted stretches of bytes that don't overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permits {
    stretches: Vec<Stretch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    start: usize,
    end: usize,
    read: bool,
    write: bool,
}

impl Permits {
    /// From ranges (start, end, may be read, may be written), which may overlap: then all that they allow holds.
    pub fn new(ranges: &[(usize, usize, bool, bool)]) -> Permits {
        let mut edges: Vec<usize> = ranges.iter().flat_map(|&(start, end, ..)| [start, end]).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut stretches: Vec<Stretch> = vec![];
        for pair in edges.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            let over = || ranges.iter().filter(|range| range.0 <= start && end <= range.1);
            let (read, write) = (over().any(|range| range.2), over().any(|range| range.3));
            match stretches.last_mut() {
                Some(last) if (last.end, last.read, last.write) == (start, read, write) => last.end = end,
                _ if read || write => stretches.push(Stretch { start, end, read, write }),
                _ => {}
            }
        }
        Permits { stretches }
    }

    /// Whether all of these bytes may be written, or else read.
    pub fn allow(&self, start: usize, end: usize, write: bool) -> bool {
        let mut at = start;
        let first = self.stretches.partition_point(|stretch| stretch.end <= start);
        for stretch in &self.stretches[first..] {
            if at >= end || stretch.start > at || !(if write { stretch.write } else { stretch.read }) {
                break;
            }
            at = stretch.end;
        }
        at >= end
    }
}

impl fmt::Display for Permits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stretches.is_empty() {
            return formatter.write_str("touch none");
        }
        for (index, Stretch { start, end, read, write }) in self.stretches.iter().enumerate() {
            let verb = match (read, write) {
                (true, true) => "read and write",
                (false, true) => "write",
                _ => "read",
            };
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{verb} {start}..{end}")?;
        }
        Ok(())
    }
}
