//! Which device the ranks of a run train on.

use std::sync::Arc;

use crate::execute::device::Device;
use crate::execute::device::cpu::Cpu;
#[cfg(unix)]
use crate::execute::device::cuda::{Cuda, joined::Joined};
use crate::execute::error::ExecuteError;
use crate::execute::run::{DeviceKind, Run};
use crate::execute::storage::Types;
use crate::execute::world::World;

/// The device that ranks of `run` train on, `ranks` of them here.
///
/// # Errors
/// If it cannot be used, or has no kernels for the run's numbers.
pub(super) fn device(
    run: &Run,
    ranks: u64,
    world: Option<&Arc<World>>,
) -> Result<Box<dyn Device + Send>, ExecuteError> {
    let (settings, types) = (&run.settings, Types::new(run.rules.compute, run.rules.gradient));
    match settings.device {
        DeviceKind::Cpu => {
            let cpu = Cpu::new(types, settings.cores)?;
            Ok(Box::new(match world.and_then(|world| world.network()) {
                Some(network) => cpu.among(network),
                None => cpu,
            }))
        }
        #[cfg(unix)]
        DeviceKind::Cuda => Ok(match (world, ranks) {
            (Some(world), _) => Box::new(Joined::of_world(Arc::clone(world), types, settings.cores)?),
            (None, 2..) => Box::new(Joined::of_process(ranks as usize, types, settings.cores)?),
            (None, _) => Box::new(Cuda::new(0, types, settings.cores)?),
        }),
        #[cfg(unix)]
        DeviceKind::SharedCuda => Ok(Box::new(Cuda::new(0, types, settings.cores)?)),
        #[cfg(not(unix))]
        DeviceKind::Cuda | DeviceKind::SharedCuda => {
            Err(ExecuteError::Unsupported(format!("{ranks} ranks on CUDA on this system")))
        }
    }
}
