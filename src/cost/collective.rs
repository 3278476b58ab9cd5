//! Time of collectives by algorithm over the levels that a group crosses.

use smallvec::{SmallVec, smallvec};

use crate::cluster::Cluster;
use crate::cost::price::LEVELS;
use crate::ops::{Collective, CollectiveKind};
use crate::units::{Bytes, Seconds};

/// A process group as the network sees it, level by level from the innermost.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupShape {
    pub levels: Vec<GroupLevel>,
}

/// One level of links under a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupLevel {
    /// Members inside one domain of this level.
    pub members: u64,
    /// Bytes/s that one device has here, one direction, all its neighbours busy.
    pub bandwidth: f64,
    /// Seconds of one hop.
    pub latency: f64,
    /// What rings of few members lose: m of them reach 1 − loss / m² of the bandwidth.
    pub ring_loss: f64,
}

impl GroupLevel {
    /// Bytes/s that a ring of the members reaches over one device's link.
    fn ring_bandwidth(&self) -> f64 {
        let members = self.members.max(1) as f64;
        self.bandwidth * (1.0 - self.ring_loss / (members * members))
    }
}

/// A collective's time and how long each level's links are busy in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    pub seconds: Seconds,
    /// Busy time of one device's link, by level.
    pub busy: SmallVec<[f64; LEVELS]>,
}

impl GroupShape {
    /// The shape of the group `ranks` on `cluster`.
    pub fn new(cluster: &Cluster, ranks: &[u64]) -> Self {
        let members = cluster.members_per_domain(ranks);
        let bandwidths = cluster.slowest_bandwidths(ranks);
        let levels = cluster
            .levels
            .iter()
            .zip(members.into_iter().zip(bandwidths))
            .map(|(level, (members, bandwidth))| GroupLevel {
                members,
                bandwidth: bandwidth.0,
                latency: level.link.latency.0,
                ring_loss: level.link.ring_loss,
            })
            .collect();
        Self { levels }
    }

    /// The shape of a group that has `members` of a level's span in one domain, over links that are all alike.
    pub fn on(cluster: &Cluster, members: impl Fn(u64) -> u64) -> Self {
        let levels = cluster.levels.iter().map(|level| GroupLevel {
            members: members(level.span),
            bandwidth: level.link.bandwidth.0,
            latency: level.link.latency.0,
            ring_loss: level.link.ring_loss,
        });
        Self { levels: levels.collect() }
    }

    /// The shape of the group of all devices.
    pub fn whole(cluster: &Cluster) -> Self {
        let levels = cluster.levels.iter().map(|level| GroupLevel {
            members: cluster.devices().min(level.span),
            bandwidth: level.slower.iter().fold(level.link.bandwidth.0, |least, (_, slow)| least.min(slow.0)),
            latency: level.link.latency.0,
            ring_loss: level.link.ring_loss,
        });
        Self { levels: levels.collect() }
    }

    /// The best that a group of `size` members can meet: neighbours, on each level its fastest links. Where links
    /// further out are the faster ones, inner ones count as fast as these.
    pub fn neighbours(cluster: &Cluster, size: u64) -> Self {
        let levels = cluster.levels.iter().enumerate().map(|(place, level)| {
            let outward = || cluster.levels[place..].iter().map(|level| &level.link);
            GroupLevel {
                members: size.min(level.span),
                bandwidth: outward().map(|link| link.bandwidth.0).fold(0.0, f64::max),
                latency: outward().map(|link| link.latency.0).fold(level.link.latency.0, f64::min),
                ring_loss: outward().map(|link| link.ring_loss).fold(level.link.ring_loss, f64::min),
            }
        });
        Self { levels: levels.collect() }
    }

    /// Members of the group.
    pub fn size(&self) -> u64 {
        self.levels.last().map_or(1, |level| level.members)
    }

    /// The level that joins the group: the innermost whose domain holds all members.
    fn outermost(&self) -> usize {
        self.levels.iter().position(|level| level.members == self.size()).unwrap_or(0)
    }

    /// Members inside the next inner domain.
    fn inner(&self, level: usize) -> u64 {
        level.checked_sub(1).map_or(1, |inner| self.levels[inner].members)
    }

    /// The time of `collective`.
    pub fn time(&self, collective: &Collective) -> Transfer {
        let mut busy: SmallVec<[f64; LEVELS]> = smallvec![0.0; self.levels.len()];
        let n = self.size();
        if n <= 1 {
            return Transfer { seconds: Seconds::ZERO, busy };
        }
        let bytes = collective.bytes.0 as f64;
        let crossed = self.outermost();
        let share = (n - 1) as f64 / n as f64;
        match collective.kind {
            CollectiveKind::RingShift => return self.point_to_point(collective.bytes),
            CollectiveKind::AllToAll => {
                // Each member sends 1/n of its bytes to each other; those beyond a domain leave by the next level.
                // Copies of an element that go to one domain travel there once. Spread evenly over `domains` of them,
                // they reach (domains - 1) · (1 - (1 - 1/domains)^copies) others on average.
                let copies = collective.copies.max(1) as f64;
                for (level, busy) in busy.iter_mut().enumerate().take(crossed + 1) {
                    let inner = self.inner(level).max(1) as f64;
                    let others = self.levels[level].members as f64 / inner - 1.0;
                    let met = 1.0 - (1.0 - inner / n as f64).powf(copies);
                    *busy = bytes / copies * others * met / self.levels[level].bandwidth;
                }
            }
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllReduce => {
                // As many rings as a domain has members, each leaving it by another device's links.
                let passes = if collective.kind == CollectiveKind::AllReduce { 2.0 } else { 1.0 };
                for (level, busy) in busy.iter_mut().enumerate().take(crossed + 1) {
                    if self.levels[level].members > self.inner(level) {
                        let bandwidth = self.inner(level) as f64 * self.levels[level].ring_bandwidth();
                        *busy = passes * bytes * share / bandwidth;
                    }
                }
            }
        }
        let bandwidth_time = busy.iter().copied().fold(0.0, f64::max);
        let latency = collective.messages as f64 * self.latency(collective.kind);
        Transfer { seconds: Seconds(bandwidth_time + latency), busy }
    }

    /// Time of hops: rings within and across domains, or trees across them where an all-reduce may use one.
    fn latency(&self, kind: CollectiveKind) -> f64 {
        let crossed = self.outermost();
        let levels = (0..=crossed).map(|level| {
            let across = (self.levels[level].members / self.inner(level).max(1)).max(1);
            (across as f64, self.levels[level].latency)
        });
        match kind {
            CollectiveKind::AllToAll => levels.map(|(across, latency)| latency * across.log2()).sum(),
            CollectiveKind::AllReduce => {
                let ring: f64 = levels.clone().map(|(across, latency)| (across - 1.0) * latency).sum();
                let tree: f64 = levels.map(|(across, latency)| across.log2().ceil() * latency).sum();
                2.0 * ring.min(tree)
            }
            _ => levels.map(|(across, latency)| (across - 1.0) * latency).sum(),
        }
    }

    /// The time of `bytes` from one member to a neighbour, over the outermost level that the group crosses.
    pub fn point_to_point(&self, bytes: Bytes) -> Transfer {
        let mut busy: SmallVec<[f64; LEVELS]> = smallvec![0.0; self.levels.len()];
        if self.size() <= 1 {
            return Transfer { seconds: Seconds::ZERO, busy };
        }
        let crossed = self.outermost();
        let level = &self.levels[crossed];
        busy[crossed] = bytes.0 as f64 / level.bandwidth;
        Transfer { seconds: Seconds(busy[crossed] + level.latency), busy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Group;

    fn shape(inner: u64, outer: u64) -> GroupShape {
        GroupShape {
            levels: vec![
                GroupLevel { members: inner, bandwidth: 100.0, latency: 0.0, ring_loss: 0.0 },
                GroupLevel { members: outer, bandwidth: 10.0, latency: 0.0, ring_loss: 0.0 },
            ],
        }
    }

    fn seconds(shape: &GroupShape, kind: CollectiveKind, bytes: u64) -> f64 {
        shape.time(&Collective::new(kind, Group::State, Bytes(bytes))).seconds.0
    }

    #[test]
    fn rings_move_what_the_papers_say() {
        let node = shape(8, 8);
        assert!((seconds(&node, CollectiveKind::AllGather, 800) - 7.0).abs() < 1e-12);
        assert!((seconds(&node, CollectiveKind::AllReduce, 800) - 14.0).abs() < 1e-12);
    }

    #[test]
    fn a_group_that_fills_its_nodes_shares_all_their_links() {
        // 2 nodes of 8: 15/16 of the bytes leave each node over 8 links of 10.
        assert!((seconds(&shape(8, 16), CollectiveKind::AllGather, 1600) - 18.75).abs() < 1e-12);
        // One member a node has one link.
        assert!((seconds(&shape(1, 2), CollectiveKind::AllGather, 1600) - 80.0).abs() < 1e-12);
    }

    #[test]
    fn tokens_that_are_sent_once_cross_links_once_a_domain() {
        let exchange = |copies: u64| Collective {
            copies,
            ..Collective::new(CollectiveKind::AllToAll, Group::Expert, Bytes(3200))
        };
        let seconds = |copies: u64| shape(8, 32).time(&exchange(copies)).seconds.0;
        // Sent once for each expert, three quarters of the bytes leave the node, at 10 a second.
        assert!((seconds(1) - 3200.0 * 0.75 / 10.0).abs() < 1e-9);
        // Of 8 experts on four nodes, a token meets 4 · (1 - (3/4)^8) = 3.6, of which three quarters are others.
        let met = 3.0 * (1.0 - 0.75_f64.powi(8));
        assert!((seconds(8) - 400.0 * met / 10.0).abs() < 1e-9, "{}", seconds(8));
    }

    /// The same by throwing dice.
    #[test]
    fn domains_that_a_token_meets_are_counted_right() {
        let (domains, copies, trials) = (4_u64, 8, 20_000);
        let mut state = 7_u64;
        let mut met = 0;
        for _ in 0..trials {
            let mut seen = [false; 4];
            for _ in 0..copies {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                seen[((state >> 33) % domains) as usize] = true;
            }
            met += seen[1..].iter().filter(|seen| **seen).count();
        }
        let mean = met as f64 / f64::from(trials);
        let expected = 3.0 * (1.0 - 0.75_f64.powi(copies));
        assert!((mean / expected - 1.0).abs() < 0.01, "{mean} beside {expected}");
    }

    #[test]
    fn a_group_of_one_is_free() {
        for kind in [CollectiveKind::AllReduce, CollectiveKind::AllToAll, CollectiveKind::RingShift] {
            assert_eq!(seconds(&shape(1, 1), kind, 1 << 30), 0.0);
        }
    }
}
