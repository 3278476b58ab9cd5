//! What a process group meets on each level of a cluster: how many of it share a domain, over which bandwidth.

use std::collections::{HashMap, HashSet};

use super::Cluster;
use crate::units::BytesPerSecond;

impl Cluster {
    /// For each level, the members of the group in one domain of that level, at most over all domains.
    ///
    /// `ranks` are device indices: neighbours in a node are neighbours in number. On 8 nodes of 8,
    /// the ranks 0, 8, 16 and 24 give `[1, 4]`: one a node, four over the network.
    pub fn members_per_domain(&self, ranks: &[u64]) -> Vec<u64> {
        let most = |span: u64| {
            let mut members: HashMap<u64, u64> = HashMap::new();
            for rank in ranks {
                *members.entry(rank / span.max(1)).or_default() += 1;
            }
            members.into_values().max().unwrap_or(0)
        };
        self.levels.iter().map(|level| most(level.span)).collect()
    }

    /// For each level, the bandwidth of the slowest link that a member of the group has on it: what one device
    /// sends in one direction while all its neighbours do the same.
    pub fn slowest_bandwidths(&self, ranks: &[u64]) -> Vec<BytesPerSecond> {
        let mut inner_span = 1;
        let mut slowest = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            let mut bandwidth = level.link.bandwidth;
            if !level.slower.is_empty() {
                let touched: HashSet<u64> = ranks.iter().map(|rank| rank / inner_span).collect();
                let slower = level.slower.iter().filter(|(domain, _)| touched.contains(domain));
                bandwidth = slower.fold(bandwidth, |slowest, (_, slower)| slowest.min(*slower));
            }
            slowest.push(bandwidth);
            inner_span = level.span.max(1);
        }
        slowest
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::shorthand::parse;
    use crate::units::BytesPerSecond;

    #[test]
    fn members_are_counted_by_level() {
        let cluster = parse("8x8xh100-sxm").unwrap();
        assert_eq!(cluster.members_per_domain(&[0, 1, 2, 3]), [4, 4]);
        assert_eq!(cluster.members_per_domain(&[0, 8, 16, 24]), [1, 4]);
        assert_eq!(cluster.members_per_domain(&[0, 1, 8, 9]), [2, 4]);
        // Uneven: three in the first node, one in the second.
        assert_eq!(cluster.members_per_domain(&[9, 7, 6, 5]), [3, 4]);
        assert_eq!(cluster.members_per_domain(&[63]), [1, 1]);
        assert_eq!(cluster.members_per_domain(&[]), [0, 0]);
    }

    #[test]
    fn racks_hold_more_than_a_node() {
        let cluster = parse("36x4xgb200").unwrap();
        let every_fourth: Vec<u64> = (0..36).map(|node| node * 4).collect();
        assert_eq!(cluster.members_per_domain(&every_fourth), [18, 36]);
    }

    #[test]
    fn a_slow_node_slows_only_its_groups() {
        let mut cluster = parse("4x8xh100-sxm").unwrap();
        let slow = BytesPerSecond(10e9);
        cluster.levels[1].slower = vec![(2, slow)];
        cluster.levels[0].slower = vec![(31, BytesPerSecond(1e9))];
        let (fast, network) = (cluster.levels[0].link.bandwidth, cluster.levels[1].link.bandwidth);
        assert_eq!(cluster.slowest_bandwidths(&[0, 8]), [fast, network]);
        assert_eq!(cluster.slowest_bandwidths(&[0, 8, 16]), [fast, slow]);
        assert_eq!(cluster.slowest_bandwidths(&[24, 31]), [BytesPerSecond(1e9), network]);
    }
}
