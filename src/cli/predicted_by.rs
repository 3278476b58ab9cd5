//! Whose cost model predicts a run.

use std::path::PathBuf;

use super::error::CliError;
use super::machine::Source;
use super::{execute_slice, gpu};
use crate::cluster::Cluster;
use crate::execute::run::DeviceKind;

/// What is to be predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predicted {
    /// Memory alone: nothing is computed.
    DryRun,
    Slice,
    Run,
}

#[derive(Debug)]
pub enum PredictedBy {
    /// What made the plan.
    Plan,
    /// What is named, or what is kept of this machine's cores.
    Source(Source),
    /// The same, of a slice on cores, which knows no other for communication between GPUs than the plan's.
    SliceOfCores { source: Source, is_named: bool },
    /// What made the plan, or the built-in one of the GPU that is there, where that is another device.
    Gpu,
}

impl PredictedBy {
    /// By what the command line says: a cost model's file, or that nothing is measured. On a GPU nothing is measured anyway.
    pub fn choose(
        device: DeviceKind,
        predicted: Predicted,
        file: Option<PathBuf>,
        no_calibrate: bool,
    ) -> Self {
        let is_named = no_calibrate || file.is_some();
        match (device, file.map(Source::File)) {
            _ if predicted == Predicted::DryRun => Self::Plan,
            (DeviceKind::Cuda | DeviceKind::SharedCuda, None) => Self::Gpu,
            (DeviceKind::Cuda | DeviceKind::SharedCuda, Some(file)) => Self::Source(file),
            (DeviceKind::Cpu, file) => {
                let unnamed = if no_calibrate { Source::BuiltIn("cpu") } else { Source::Machine };
                let source = file.unwrap_or(unnamed);
                match predicted {
                    Predicted::Slice => Self::SliceOfCores { source, is_named },
                    Predicted::DryRun | Predicted::Run => Self::Source(source),
                }
            }
        }
    }

    /// For a plan for `cluster`; none where that is its own.
    ///
    /// # Errors
    /// If one is named that cannot predict it.
    pub fn of_plan(&self, cluster: &Cluster) -> Result<Option<Source>, CliError> {
        match self {
            Self::Plan => Ok(None),
            Self::Source(source) => Ok(Some(source.clone())),
            Self::SliceOfCores { source, is_named } => execute_slice::source(source, *is_named, cluster),
            Self::Gpu => Ok(gpu::instead_of(cluster)),
        }
    }

    /// Where a plan is yet to be made; none where nothing is to be run.
    pub fn of_no_plan(&self) -> Option<Source> {
        match self {
            Self::Plan => None,
            Self::Source(source) | Self::SliceOfCores { source, .. } => Some(source.clone()),
            Self::Gpu => Some(gpu::own()),
        }
    }
}
