//! The best strategy in each of a row of settings that differ in one thing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Setting, Watch};
use crate::search::problem::Candidate;
use crate::search::request::{Failure, Outcome, Request};
use crate::search::run::search;

/// What the settings of a sweep differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SweepKey {
    /// Devices of the cluster.
    Devices,
    /// Sequences a step.
    Batch,
    /// Tokens a sequence.
    SeqLen,
    /// Bytes of device memory.
    Memory,
}

/// Settings in ascending order of what differs.
#[derive(Clone, Debug)]
pub struct Sweep<'a> {
    pub key: SweepKey,
    pub settings: Vec<Setting<'a>>,
}

/// When a sweep ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All settings were tried.
    End,
    /// The first setting in which something fits.
    FirstFit,
}

/// A setting and what a search found in it.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    pub setting: Setting<'a>,
    pub found: Result<Outcome, Failure>,
}

impl SweepKey {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Devices, Self::Batch, Self::SeqLen, Self::Memory];

    /// As it is typed and written in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Devices => "devices",
            Self::Batch => "batch",
            Self::SeqLen => "seq-len",
            Self::Memory => "memory",
        }
    }

    /// What differs, of `setting`.
    pub fn value(self, setting: &Setting<'_>) -> u64 {
        match self {
            Self::Devices => setting.cluster.devices(),
            Self::Batch => setting.workload.global_batch,
            Self::SeqLen => setting.workload.seq_len,
            Self::Memory => setting.cluster.device.memory.value.0,
        }
    }
}

impl Point<'_> {
    /// The best plan, where there is one.
    pub fn winner(&self) -> Option<&Candidate> {
        self.found.as_ref().ok().map(|outcome| &outcome.winner)
    }
}

/// Searches the settings one after the other.
pub fn sweep<'a>(sweep: &Sweep<'a>, request: &Request, until: Until, watch: Watch<'_>) -> Vec<Point<'a>> {
    let mut points = Vec::with_capacity(sweep.settings.len());
    for setting in &sweep.settings {
        (watch.part)(&format!("{} {}", sweep.key.name(), sweep.key.value(setting)));
        let found = search(&setting.problem(), request, watch.progress);
        let fits = found.is_ok();
        points.push(Point { setting: setting.clone(), found });
        if request.stop.is_asked() || (fits && until == Until::FirstFit) {
            break;
        }
    }
    points
}
