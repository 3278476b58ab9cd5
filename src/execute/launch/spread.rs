//! How ranks are spread over nodes: in their order, so that a node is full before the next one gets any.

use std::fmt;

use crate::units::several;

/// Ranks of a run and the fewest nodes that hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pub ranks: u64,
    /// Of a full node.
    pub ranks_per_node: u64,
    pub nodes: u64,
}

impl Spread {
    /// `ranks` on nodes of so many devices, a device each.
    pub fn new(ranks: u64, devices_per_node: u64) -> Self {
        let ranks_per_node = ranks.min(devices_per_node).max(1);
        Self { ranks, ranks_per_node, nodes: ranks.div_ceil(ranks_per_node).max(1) }
    }

    /// Ranks of the last node.
    pub const fn of_last_node(&self) -> u64 {
        self.ranks.saturating_sub(self.ranks_per_node * (self.nodes - 1))
    }

    /// Whether every node is full.
    pub const fn is_even(&self) -> bool {
        self.of_last_node() == self.ranks_per_node
    }
}

/// In words that read on after a colon.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks = several("rank", self.ranks);
        let (each, last) = (self.ranks_per_node, self.of_last_node());
        let nodes = several("node", self.nodes);
        match self.nodes {
            1 => write!(f, "{ranks}, a process each, on 1 node"),
            _ if self.is_even() => write!(f, "{ranks}, a process each, on {nodes}: {each} on each, in order"),
            _ => write!(
                f,
                "{ranks}, a process each, on {nodes}: {each} on each but the last, {last} on that, in order"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_full_before_the_next_gets_any() {
        for (ranks, devices, per_node, nodes, last) in [
            (1, 8, 1, 1, 1),
            (6, 8, 6, 1, 6),
            (8, 8, 8, 1, 8),
            (16, 8, 8, 2, 8),
            (12, 8, 8, 2, 4),
            (9, 4, 4, 3, 1),
        ] {
            let spread = Spread::new(ranks, devices);
            assert_eq!(spread, Spread { ranks, ranks_per_node: per_node, nodes }, "{ranks} on {devices}");
            assert_eq!(spread.of_last_node(), last, "{ranks} on {devices}");
            assert_eq!(spread.is_even(), ranks % per_node == 0);
        }
    }
}
