//! The cluster file: a versioned JSON document, and the form in which plans carry any cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cluster, ClusterError};
use crate::json::{self, Fault};
use crate::profile::DeviceModel;
use crate::units::{Bytes, BytesPerSecond, Seconds, Written};

/// A cluster as a document. What is left out comes from the device's cost model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterDocument {
    /// 1.
    pub version: u32,
    pub name: String,
    /// The name of a built-in cost model, or of `device_model` where that is given.
    pub device: String,
    pub nodes: u32,
    pub devices_per_node: u32,
    /// Memory of one device that a process can see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Written<Bytes>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostDocument>,
    /// Between device and host memory, as one device sees it, sustained in one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_link: Option<LinkDocument>,
    /// From the innermost outwards; each span divides the next and the last spans all devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Vec<LevelDocument>>,
    /// Links that are slower than the others of their level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slower: Vec<SlowerDocument>,
    /// The whole cost model, where it is not a built-in one or must not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_model: Option<DeviceModel>,
    /// SHA-256 of the text that `device_model` was read from; reckoned from the model where it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_model_hash: Option<String>,
}

/// The host of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostDocument {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Written<Bytes>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bandwidth: Option<Written<BytesPerSecond>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkDocument {
    pub bandwidth: Written<BytesPerSecond>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Written<Seconds>>,
}

/// One level of links, with either `bandwidth` or `nics`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LevelDocument {
    pub name: String,
    /// Devices in one domain of this level.
    pub span: u64,
    /// What one device sustains in one direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Written<BytesPerSecond>>,
    /// The adapters that the devices of a node share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<NicsDocument>,
    /// Time of one hop; from the cost model (its fast link for the first level, its network for others) where
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Written<Seconds>>,
}

/// Network adapters of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NicsDocument {
    pub per_node: u32,
    /// Rated bandwidth of one adapter in one direction, e.g. `400Gb/s`.
    pub bandwidth: Written<BytesPerSecond>,
    /// Share of it that large messages reach; the cost model's for its network where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<f64>,
}

/// A domain whose links on `level` are slower than the others'.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowerDocument {
    /// The name of the level.
    pub level: String,
    /// Which domain of the next inner level, counted from 0 (on the first level: which device).
    pub domain: u64,
    /// What one of its devices sustains in one direction.
    pub bandwidth: Written<BytesPerSecond>,
}

impl ClusterDocument {
    /// Any cluster as a document that [`ClusterDocument::cluster`] turns into an equal one, whatever the built-in
    /// cost models then say.
    pub fn of(cluster: &Cluster) -> Self {
        let level = |level: &super::Level| LevelDocument {
            name: level.name.clone(),
            span: level.span,
            bandwidth: Some(Written(level.link.bandwidth)),
            nics: None,
            latency: Some(Written(level.link.latency)),
        };
        let slower = cluster.levels.iter().flat_map(|level| {
            level.slower.iter().map(|&(domain, bandwidth)| SlowerDocument {
                level: level.name.clone(),
                domain,
                bandwidth: Written(bandwidth),
            })
        });
        Self {
            version: 1,
            name: cluster.name.clone(),
            device: cluster.device.name.clone(),
            nodes: cluster.nodes,
            devices_per_node: cluster.devices_per_node,
            memory: None,
            host: Some(HostDocument {
                memory: Some(Written(cluster.host.memory)),
                memory_bandwidth: Some(Written(cluster.host.memory_bandwidth)),
                cores: Some(cluster.host.cores),
            }),
            host_link: Some(LinkDocument {
                bandwidth: Written(cluster.host_link.bandwidth),
                latency: Some(Written(cluster.host_link.latency)),
            }),
            levels: Some(cluster.levels.iter().map(level).collect()),
            slower: slower.collect(),
            device_model: Some(cluster.device.clone()),
            cost_model_hash: Some(cluster.cost_model_hash.clone()),
        }
    }

    /// Reads the text of a cluster file; [`ClusterDocument::cluster`] then checks what it says.
    pub fn parse(text: &str) -> Result<Self, ClusterError> {
        // A later version may have other fields: its number is what to complain of.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let versioned: Versioned = json::read(text).map_err(unread)?;
        if versioned.version != 1 {
            return Err(ClusterError::Value {
                field: "version".to_owned(),
                value: versioned.version.to_string(),
                rule: "1 is read".to_owned(),
                nearest: vec!["1".to_owned()],
            });
        }
        json::read(text).map_err(unread)
    }
}

const fn unread(fault: Fault) -> ClusterError {
    if fault.is_cut_off { ClusterError::CutOff(fault) } else { ClusterError::Json(fault) }
}
