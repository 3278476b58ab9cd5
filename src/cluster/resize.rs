//! The same kind of cluster with another number of devices: fewer in one node, or whole nodes.

use super::uniform::MOST_DEVICES;
use super::{Cluster, ClusterError, Level, Link};

impl Cluster {
    /// This kind of cluster with `devices` devices: part of one node, or whole nodes. Links stay what they are; the
    /// outermost reaches as far as it must, and domains that no longer divide the cluster evenly shrink until they do.
    ///
    /// # Errors
    /// When `devices` are more than a node and no whole nodes, or more than a cluster may have; with the nearest
    /// counts that are possible.
    pub fn resized(&self, devices: u64) -> Result<Self, ClusterError> {
        let node = u64::from(self.devices_per_node);
        let is_whole = devices >= 1 && (devices <= node || devices.is_multiple_of(node));
        if !is_whole || devices > MOST_DEVICES {
            return Err(self.no_such_count(devices));
        }
        let (nodes, devices_per_node) = if devices <= node { (1, devices) } else { (devices / node, node) };
        let uniform = |nodes, devices_per_node| {
            let (device, hash) = (self.device.clone(), self.cost_model_hash.clone());
            Self::uniform(String::new(), nodes, devices_per_node, device, hash)
        };
        // Both are at most MOST_DEVICES.
        let mut cluster = uniform(nodes as u32, devices_per_node as u32);
        (cluster.host, cluster.host_link) = (self.host, self.host_link);
        if self.levels != uniform(self.nodes, self.devices_per_node).levels {
            cluster.levels = self.levels_of(devices);
        }
        let shorthand = |cluster: &Self| {
            format!("{}x{}x{}", cluster.nodes, cluster.devices_per_node, cluster.device.name)
        };
        cluster.name = if self.name == shorthand(self) {
            shorthand(&cluster)
        } else {
            format!("{} resized to {devices} devices", self.name)
        };
        Ok(if devices == self.devices() { self.clone() } else { cluster })
    }

    /// Device counts from `least` to `most`, both included: doublings, a whole node between them.
    /// Both must be counts that [`Cluster::resized`] takes.
    pub fn counts(&self, least: u64, most: u64) -> Vec<u64> {
        let node = u64::from(self.devices_per_node);
        let next = |count: &u64| Some(if *count < node { (count * 2).min(node) } else { count * 2 });
        let below = std::iter::successors(Some(least), next).take_while(|count| *count < most);
        below.chain([most]).collect()
    }

    fn levels_of(&self, devices: u64) -> Vec<Level> {
        let mut levels: Vec<Level> = Vec::new();
        let (mut inner, mut inner_before) = (1, 1);
        for (place, level) in self.levels.iter().enumerate() {
            let is_network = place > 0 && place + 1 == self.levels.len();
            let fitting = |span: &u64| devices.is_multiple_of(*span) && span.is_multiple_of(inner);
            let span = if is_network {
                devices
            } else {
                (inner..=level.span.min(devices)).rev().find(fitting).unwrap_or(inner)
            };
            if span > inner {
                // A slow domain keeps its place, counted in devices.
                let domain = |domain: u64| domain * inner_before / inner;
                let slower = level.slower.iter().map(|&(slow, bandwidth)| (domain(slow), bandwidth));
                let slower = slower.filter(|(slow, _)| slow * inner < devices).collect();
                levels.push(Level { span, slower, ..level.clone() });
                inner = span;
            }
            inner_before = level.span;
        }
        if inner < devices {
            let link = Link::sustained(&self.device.network);
            levels.push(Level { name: "network".to_owned(), span: devices, link, slower: Vec::new() });
        }
        levels
    }

    fn no_such_count(&self, devices: u64) -> ClusterError {
        let node = u64::from(self.devices_per_node);
        let most = MOST_DEVICES / node * node;
        let below = (devices / node * node).clamp(1, most);
        let above = (devices.div_ceil(node).max(1)).saturating_mul(node).min(most);
        let mut nearest = vec![below, above];
        nearest.dedup();
        ClusterError::Value {
            field: "devices".to_owned(),
            value: devices.to_string(),
            rule: format!("1 to {node} in one node or whole nodes of {node} are possible, at most {most}"),
            nearest: nearest.iter().map(u64::to_string).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::shorthand::parse;
    use crate::units::BytesPerSecond;

    #[test]
    fn a_resized_shorthand_is_the_shorthand_of_that_size() {
        for (from, devices, to) in [
            ("8x8xh100-sxm", 4, "1x4xh100-sxm"),
            ("8x8xh100-sxm", 8, "1x8xh100-sxm"),
            ("1x8xh100-sxm", 4096, "512x8xh100-sxm"),
            ("1x4xgb200", 144, "36x4xgb200"),
            ("36x4xgb200", 4, "1x4xgb200"),
        ] {
            assert_eq!(
                parse(from).unwrap().resized(devices).unwrap(),
                parse(to).unwrap(),
                "{from} {devices}"
            );
        }
    }

    #[test]
    fn counts_that_are_no_whole_nodes_name_their_neighbours() {
        let cluster = parse("4x8xh100-sxm").unwrap();
        let nearest = |devices| cluster.resized(devices).unwrap_err().nearest();
        assert_eq!(nearest(12), ["8", "16"]);
        assert_eq!(nearest(0), ["1", "8"]);
        assert_eq!(nearest(u64::MAX), ["1048576"]);
        assert!((1..=8).all(|devices| cluster.resized(devices).is_ok()));
    }

    #[test]
    fn doublings_stop_at_whole_nodes_and_at_both_ends() {
        let counts = |text: &str, least, most| parse(text).unwrap().counts(least, most);
        assert_eq!(counts("4x8xh100-sxm", 1, 24), [1, 2, 4, 8, 16, 24]);
        assert_eq!(counts("4x6xh100-sxm", 4, 48), [4, 6, 12, 24, 48]);
        assert_eq!(counts("1x8xh100-sxm", 8, 8), [8]);
    }

    #[test]
    fn links_of_ones_own_stay_what_they_are() {
        let mut cluster = parse("4x8xh100-sxm").unwrap();
        let mut leaf = cluster.levels[1].clone();
        (leaf.name, leaf.span, leaf.link.bandwidth) = ("leaf".to_owned(), 16, BytesPerSecond(2e10));
        leaf.slower = vec![(3, BytesPerSecond(1e10))];
        cluster.levels.insert(1, leaf);
        let spans = |cluster: &Cluster| cluster.levels.iter().map(|level| level.span).collect::<Vec<_>>();
        assert_eq!(spans(&cluster.resized(64).unwrap()), [8, 16, 64]);
        // Three nodes do not pair up.
        assert_eq!(spans(&cluster.resized(24).unwrap()), [8, 24]);
        assert_eq!(spans(&cluster.resized(4).unwrap()), [4]);
        let two = cluster.resized(16).unwrap();
        assert_eq!((spans(&two), two.levels[1].slower.len()), (vec![8, 16], 0));
        assert_eq!(cluster.resized(64).unwrap().levels[1].slower, [(3, BytesPerSecond(1e10))]);
        assert_eq!(cluster.resized(32).unwrap(), cluster);
    }
}
