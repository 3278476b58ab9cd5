//! Which addresses are taken when.

use smallvec::SmallVec;

use super::Lifetime;
use super::ranges::Ranges;

/// A lifetime on consecutive instants: only instants at which some buffer starts
/// are counted, since lifetimes overlap if and only if they share one of those.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) bytes: u64,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// Whether there is nothing to place.
    pub(super) const fn is_empty(&self) -> bool {
        self.bytes == 0 || self.start >= self.end
    }
}

/// The lifetimes as spans, and the number of instants.
pub(super) fn spans(lifetimes: &[Lifetime]) -> (Vec<Span>, usize) {
    let mut instants: Vec<u32> = lifetimes.iter().map(|lifetime| lifetime.start).collect();
    instants.sort_unstable();
    instants.dedup();
    let find = |instant: u32| instants.partition_point(|&earlier| earlier < instant);
    let span = |lifetime: &Lifetime| Span {
        bytes: lifetime.bytes,
        start: find(lifetime.start),
        end: find(lifetime.end),
    };
    (lifetimes.iter().map(span).collect(), instants.len())
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
    leaves: usize,
    /// The nodes that together make up the span at hand.
    cover: Vec<usize>,
    /// Nodes that the span shares instants with: all those above the cover, and
    /// a few below it.
    path: Vec<usize>,
}

impl Calendar {
    pub(super) fn new(instants: usize) -> Self {
        let leaves = instants.max(1).next_power_of_two();
        Self { nodes: vec![Node::default(); 2 * leaves], leaves, cover: Vec::new(), path: Vec::new() }
    }

    pub(super) fn clear(&mut self) {
        for node in &mut self.nodes {
            node.some.clear();
            node.all.clear();
        }
    }

    /// Takes the lowest addresses that are free during the whole span.
    pub(super) fn take(&mut self, span: Span) -> u64 {
        self.find_nodes(span);
        let offset = self.lowest(span.bytes);
        let top = offset + span.bytes;
        for &node in &self.cover {
            self.nodes[node].all.add(offset, top);
            self.nodes[node].some.add(offset, top);
        }
        for &node in &self.path {
            self.nodes[node].some.add(offset, top);
        }
        offset
    }

    /// The lowest offset free in every node of the span. Each node can only push the offset up; it is found when a whole
    /// round leaves it where it was. What ends below it is not looked at again.
    fn lowest(&self, bytes: u64) -> u64 {
        let path = self.path.iter().map(|&node| self.nodes[node].all.as_slice());
        let cover = self.cover.iter().map(|&node| self.nodes[node].some.as_slice());
        let mut taken: SmallVec<[&[(u64, u64)]; 64]> =
            path.chain(cover).filter(|ranges| !ranges.is_empty()).collect();
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

    fn find_nodes(&mut self, span: Span) {
        self.cover.clear();
        self.path.clear();
        let (mut low, mut high) = (span.start + self.leaves, span.end + self.leaves);
        while low < high {
            if low % 2 == 1 {
                self.cover.push(low);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                self.cover.push(high);
            }
            low /= 2;
            high /= 2;
        }
        let (mut first, mut last) = (span.start + self.leaves, span.end - 1 + self.leaves);
        while first > 1 {
            first /= 2;
            last /= 2;
            self.path.push(first);
            if last != first {
                self.path.push(last);
            }
        }
    }
}
