//! Clusters: nodes of devices and the links between them, level by level.

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
pub use source::{load, read_as, source_of};

use crate::profile::DeviceModel;
use crate::profile::device::DeviceClass;
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

/// Share of a node's memory that the system, its page cache and pinned staging need (estimate).
const SYSTEM_SHARE: f64 = 0.05;

/// Host memory of a rank's process before anything is offloaded: interpreter, libraries, the driver's own (estimate; 2
/// to 5 GiB with PyTorch and CUDA).
const PROCESS: Bytes = Bytes::gib(4);

impl Cluster {
    /// All devices.
    pub fn devices(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.devices_per_node)
    }

    /// Devices that its makers join by the fast link: those of a board, or of a rack.
    pub fn board(&self) -> u64 {
        let rack = self.device.scale_up.span.as_ref().map_or(0, |span| span.value);
        u64::from(self.device.devices_per_node.value.max(rack))
    }

    /// Whether more GPUs are taken to share the fast link of the cost model than are built to. A cluster file may say
    /// itself what joins them.
    pub fn stretches_fast_link(&self) -> bool {
        let assumed = Link::sustained(&self.device.scale_up.link);
        let innermost = self.levels.first();
        self.device.class == DeviceClass::Gpu
            && innermost.is_some_and(|level| level.link == assumed && level.span > self.board())
    }

    /// The shorthand of about as many devices in nodes as they are built.
    pub fn of_usual_nodes(&self) -> String {
        let usual = u64::from(self.device.devices_per_node.value.max(1));
        let node = (1..=usual).rev().find(|size| self.devices().is_multiple_of(*size)).unwrap_or(1);
        // Seven nodes of one device are not what was meant by a node of seven.
        let node = if 2 * node < usual { usual } else { node };
        format!("{}x{node}x{}", (self.devices() / node).max(1), self.device.name)
    }

    /// Host memory that the processes of a node's ranks and the system take before anything is offloaded.
    pub fn host_memory_of_processes(&self) -> Bytes {
        Bytes(PROCESS.0 * u64::from(self.devices_per_node)).scaled(1.0 / (1.0 - SYSTEM_SHARE))
    }

    /// Host memory that one device's rank may use for what it offloads: an equal share of its node's, without what the
    /// system, the page cache and the rank's own process need. Ranks that are threads of this machine hold what they
    /// hold there anyway.
    pub fn host_memory_per_device(&self) -> Bytes {
        let share = Bytes(self.host.memory.0 / u64::from(self.devices_per_node.max(1)));
        match self.device.class {
            DeviceClass::Cpu => share,
            DeviceClass::Gpu => share.scaled(1.0 - SYSTEM_SHARE).saturating_sub(PROCESS),
        }
    }
}
