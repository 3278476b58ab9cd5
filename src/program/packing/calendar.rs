//! Which addresses are taken when.

use std::ops::Range;

use smallvec::SmallVec;

use super::Lifetime;

/// Disjoint ranges of addresses in order, from and to; ranges that touch are joined.
type Ranges = Vec<(u64, u64)>;

/// Adds `from..to` to `ranges`.
pub(super) fn join(ranges: &mut Ranges, (from, to): (u64, u64)) {
    let first = ranges.partition_point(|range| range.1 < from);
    let touching = ranges[first..].partition_point(|range| range.0 <= to);
    if touching == 0 {
        return ranges.insert(first, (from, to));
    }
    let last = ranges[first + touching - 1];
    ranges[first] = (ranges[first].0.min(from), last.1.max(to));
    ranges.drain(first + 1..first + touching);
}

/// Addresses taken at the instants below one node of the tree.
#[derive(Clone, Default)]
struct Node {
    /// Taken at one of the instants or more.
    some: Ranges,
    /// Taken at all of the instants, as far as noted at this node.
    all: Ranges,
}

/// The addresses taken at each instant, as a binary tree over the instants.
/// Node 1 is the root, the children of node n are 2n and 2n + 1.
pub(super) struct Calendar {
    nodes: Vec<Node>,
    /// The instants of each lifetime. Only those at which one starts are counted: lifetimes overlap if and only if they
    /// share one of those.
    spans: Vec<Range<usize>>,
}

impl Calendar {
    pub(super) fn new(lifetimes: &[Lifetime]) -> Self {
        let mut starts: Vec<u32> = lifetimes.iter().map(|lifetime| lifetime.start).collect();
        starts.dedup();
        let find = |instant: u32| starts.partition_point(|&start| start < instant);
        let spans = lifetimes.iter().map(|lifetime| find(lifetime.start)..find(lifetime.end)).collect();
        Self { nodes: vec![Node::default(); 2 * starts.len().next_power_of_two()], spans }
    }

    pub(super) fn clear(&mut self) {
        for node in &mut self.nodes {
            node.some.clear();
            node.all.clear();
        }
    }

    /// Takes the lowest `bytes` that are free during the whole lifetime number `lifetime`; the offset.
    pub(super) fn take(&mut self, bytes: u64, lifetime: usize) -> u64 {
        let instants = &self.spans[lifetime];
        let leaves = self.nodes.len() / 2;
        let (first, last) = (instants.start + leaves, instants.end - 1 + leaves);
        // The nodes that together make up the instants, and those that share instants with them: all above, and a few below.
        let (mut cover, mut path) = (SmallVec::<[usize; 64]>::new(), SmallVec::<[usize; 64]>::new());
        let (mut low, mut high) = (first, last + 1);
        while low < high {
            if low % 2 == 1 {
                cover.push(low);
            }
            if high % 2 == 1 {
                cover.push(high - 1);
            }
            (low, high) = (low.div_ceil(2), high / 2);
        }
        for level in 1..=leaves.ilog2() {
            path.push(first >> level);
            if last >> level != first >> level {
                path.push(last >> level);
            }
        }
        let offset = self.lowest(bytes, &cover, &path);
        let taken = (offset, offset + bytes);
        cover.iter().for_each(|&node| join(&mut self.nodes[node].all, taken));
        cover.iter().chain(&path).for_each(|&node| join(&mut self.nodes[node].some, taken));
        offset
    }

    /// The lowest offset that is free in all nodes. Each can only push the offset up; it is found when a whole round leaves
    /// it where it was. What ends below it is not looked at again.
    fn lowest(&self, bytes: u64, cover: &[usize], path: &[usize]) -> u64 {
        let path = path.iter().map(|&node| &self.nodes[node].all);
        let cover = cover.iter().map(|&node| &self.nodes[node].some);
        let mut taken: SmallVec<[&[(u64, u64)]; 64]> = path.chain(cover).map(Vec::as_slice).collect();
        let mut offset = 0;
        loop {
            let before = offset;
            for ranges in &mut taken {
                while let [(from, to), higher @ ..] = *ranges
                    && *from < offset + bytes
                {
                    offset = offset.max(*to);
                    *ranges = higher;
                }
            }
            if offset == before {
                return offset;
            }
        }
    }
}
