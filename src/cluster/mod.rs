//! Floor 2: clusters: nodes of devices and the links between them, level by level.

mod build;
pub mod error;
pub mod file;
pub mod group;
mod resize;
pub mod shorthand;
pub mod source;
pub mod uniform;

pub use error::ClusterError;
pub use file::ClusterDocument;
pub use source::load;

use crate::profile::DeviceModel;
use crate::units::{Bytes, BytesPerSecond, Seconds};

/// Nodes of equal devices and the levels of links that join them.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// What the user called it: `8x8xh100-sxm`, or the name in the file.
    pub name: String,
    pub nodes: u32,
    pub devices_per_node: u32,
    pub device: DeviceModel,
    /// SHA-256 of the cost model's text, in hexadecimal.
    pub cost_model_hash: String,
    /// Levels from the innermost (the fast domain) outwards; the last spans all devices.
    pub levels: Vec<Level>,
    /// Device to host, one direction, as one device sees it.
    pub host_link: Link,
    pub host: Host,
}

/// One level of links. A domain of this level holds `span` devices, neighbours in rank order.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    /// e.g. `nvlink`, `network`, `spine`.
    pub name: String,
    /// Devices inside one domain of this level.
    pub span: u64,
    /// What one device can send to others of its domain beyond its next inner domain, while all its
    /// neighbours do the same.
    pub link: Link,
    /// Domains of the next inner level whose links here are slower than `link`, with what they reach.
    pub slower: Vec<(u64, BytesPerSecond)>,
}

/// A link as one device sees it: sustained bandwidth in one direction and the time of one hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    pub bandwidth: BytesPerSecond,
    pub latency: Seconds,
    /// What rings of few members lose: m of them reach 1 − loss / m² of the bandwidth.
    pub ring_loss: f64,
}

/// The host of one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    pub memory: Bytes,
    pub memory_bandwidth: BytesPerSecond,
    pub cores: u32,
}

impl Cluster {
    /// All devices.
    pub fn devices(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.devices_per_node)
    }

    /// Host memory that one device's rank may use: an equal share of its node's.
    pub fn host_memory_per_device(&self) -> Bytes {
        Bytes(self.host.memory.0 / u64::from(self.devices_per_node.max(1)))
    }
}
