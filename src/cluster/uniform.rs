//! The cluster that a cost model describes: equal nodes, a fast domain and one network.

use super::{Cluster, Host, Level, Link};
use crate::profile::DeviceModel;
use crate::profile::device::LinkModel;

/// The most devices that a cluster may have.
pub const MOST_DEVICES: u64 = 1 << 20;

impl Link {
    /// What large messages sustain over such a link.
    pub fn sustained(model: &LinkModel) -> Self {
        Self {
            bandwidth: model.bandwidth.value * model.efficiency.value,
            latency: model.latency.value,
            ring_loss: model.ring_loss.as_ref().map_or(0.0, |loss| loss.value),
        }
    }
}

impl Cluster {
    /// `nodes` nodes of `devices_per_node` devices with the links of the cost model: level 0 is the fast
    /// domain; `network` joins all where that is not enough. Both counts must be at least 1.
    pub fn uniform(
        name: String,
        nodes: u32,
        devices_per_node: u32,
        device: DeviceModel,
        cost_model_hash: String,
    ) -> Self {
        let all = u64::from(nodes) * u64::from(devices_per_node);
        let span = fast_domain(&device, nodes, devices_per_node);
        let link = Link::sustained(&device.scale_up.link);
        let mut levels = vec![Level { name: "scale-up".to_owned(), span, link, slower: Vec::new() }];
        if span < all {
            let link = Link::sustained(&device.network);
            levels.push(Level { name: "network".to_owned(), span: all, link, slower: Vec::new() });
        }
        let host = Host {
            memory: device.host.memory.value,
            memory_bandwidth: device.host.memory_bandwidth.value,
            cores: device.host.cores.value,
        };
        let host_link = Link::sustained(&device.host_link);
        Self { name, nodes, devices_per_node, device, cost_model_hash, levels, host_link, host }
    }
}

/// Devices of one fast domain: a node, or where the domain holds several nodes the largest number of whole
/// nodes that fits it and divides the cluster evenly (16 of an NVL72's 18 trays where there are 32).
fn fast_domain(device: &DeviceModel, nodes: u32, devices_per_node: u32) -> u64 {
    let node = u64::from(devices_per_node);
    let Some(span) = device.scale_up.span.as_ref() else { return node };
    let fitting = (u64::from(span.value) / node).min(u64::from(nodes));
    let together = (1..=fitting).rev().find(|count| u64::from(nodes).is_multiple_of(*count));
    node * together.unwrap_or(1)
}
