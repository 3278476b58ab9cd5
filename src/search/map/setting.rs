//! A place on the map: what is trained, on what, with how much memory.

use crate::cluster::Cluster;
use crate::model::Model;
use crate::profile::EngineProfile;
use crate::search::problem::Problem;
use crate::strategy::Workload;
use crate::units::Bytes;

/// A problem that owns what differs over the map.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    pub model: &'a Model,
    pub engine: &'a EngineProfile,
    pub cluster: Cluster,
    pub workload: Workload,
    /// What the user allows of the device's memory.
    pub memory_limit: Option<Bytes>,
}

impl Setting<'_> {
    /// The problem of this setting.
    pub fn problem(&self) -> Problem<'_> {
        Problem::new(self.model, &self.cluster, self.workload, self.engine, self.memory_limit)
    }

    /// Whether `other`, of the same model and engine, is the same problem.
    pub fn is_same(&self, other: &Self) -> bool {
        self.cluster == other.cluster
            && self.workload == other.workload
            && self.memory_limit == other.memory_limit
    }
}
