//! Which device the ranks of a run train on.

use crate::execute::device::Device;
use crate::execute::device::cpu::Cpu;
#[cfg(unix)]
use crate::execute::device::cuda::{self, Cuda};
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
    world: Option<&World>,
) -> Result<Box<dyn Device + Send>, ExecuteError> {
    let (settings, types) = (&run.settings, Types::new(run.rules.compute, run.rules.gradient));
    match settings.device {
        DeviceKind::Cpu => {
            let cpu = Cpu::new(types, settings.cores)?;
            Ok(Box::new(match world {
                Some(world) => cpu.among(world.network()),
                None => cpu,
            }))
        }
        #[cfg(unix)]
        DeviceKind::Cuda if ranks > 1 => Err(cuda::few_devices(ranks)),
        #[cfg(unix)]
        DeviceKind::Cuda | DeviceKind::SharedCuda => Ok(Box::new(Cuda::new(0, types, settings.cores)?)),
        #[cfg(not(unix))]
        DeviceKind::Cuda | DeviceKind::SharedCuda => {
            Err(ExecuteError::Unsupported(format!("{ranks} ranks on CUDA on this system")))
        }
    }
}
