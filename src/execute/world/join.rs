//! How the processes that a launcher started become a world: by MPI, or as its variables say.

use std::sync::Arc;

use super::appointment::Appointment;
use super::control::{JobControl, OnFailure};
use super::error::WorldError;
use super::host::Host;
use super::launcher::{Launched, ProcessManager};
use super::meeting::{Guest, connection};
use super::{OwnRank, World, patience};
use crate::execute::comm::Alarm;

/// What carries data between the ranks of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataBy {
    /// MPI, between ranks on cores.
    Mpi,
    /// The devices' own library.
    Devices,
}

/// A world, which is ended apart from it.
pub struct Joined {
    world: Arc<World>,
    #[cfg(feature = "mpi")]
    mpi: Option<Arc<crate::execute::comm::mpi::MpiNetwork>>,
}

impl Joined {
    /// The processes that came together.
    pub fn world(&self) -> Arc<World> {
        self.world.clone()
    }

    /// Ends MPI, once all ranks have left and nobody has the world any more.
    pub fn end(self) {
        drop(self.world);
        #[cfg(feature = "mpi")]
        if let Some(Ok(mpi)) = self.mpi.map(Arc::try_unwrap) {
            mpi.end();
        }
    }
}

/// Joins the processes of which `launched` is one, whose data is carried as `data` says. `on_failure` is done once the job
/// has failed.
///
/// # Errors
/// Why they do not come together.
pub fn join(launched: Launched, data: DataBy, on_failure: OnFailure) -> Result<Joined, WorldError> {
    let variable = |name: &str| std::env::var(name).ok();
    match (data, launched.launcher) {
        (DataBy::Mpi, ProcessManager::Torchrun) => Err(WorldError::TorchrunWithoutMpi(launched)),
        (DataBy::Mpi, _) => by_mpi(launched, data, on_failure),
        (DataBy::Devices, _) => match Appointment::of(launched, &variable)? {
            Some(appointment) => at(appointment, launched, on_failure),
            None => by_mpi(launched, data, on_failure),
        },
    }
}

/// Processes that meet at `appointment`.
fn at(appointment: Appointment, launched: Launched, on_failure: OnFailure) -> Result<Joined, WorldError> {
    let patience = patience()?;
    let (host, Launched { rank, size, .. }) = (Host::own(), launched);
    let guest = Guest::new((rank, size), &host);
    let connected = appointment.keep(&guest)?;
    let began = guest.began;
    let control = JobControl::new((rank, &host.name), connected, (patience, Alarm::default()), on_failure)
        .map_err(connection)?;
    let keys = control.gather(&host.key).and_then(|keys| {
        let together = keys.map(|keys| keys.concat());
        control.broadcast(together.as_deref())
    });
    let keys = keys.map_err(connection)?;
    let is_here = |(other, key): (usize, &[u8])| (key == host.key).then_some(other);
    let on_host = keys.chunks_exact(host.key.len()).enumerate().filter_map(is_here).collect();
    let own = OwnRank { rank, size, host, on_host };
    Ok(Joined {
        world: Arc::new(World::new(own, control, None, began)),
        #[cfg(feature = "mpi")]
        mpi: None,
    })
}

/// Processes that find one another by MPI, if this program was built with it.
#[cfg(feature = "mpi")]
fn by_mpi(launched: Launched, data: DataBy, on_failure: OnFailure) -> Result<Joined, WorldError> {
    let (world, mpi) = super::mpi::join(launched, data, on_failure)?;
    Ok(Joined { world: Arc::new(world), mpi: Some(mpi) })
}

#[cfg(not(feature = "mpi"))]
const fn by_mpi(launched: Launched, data: DataBy, _: OnFailure) -> Result<Joined, WorldError> {
    Err(match data {
        DataBy::Mpi => WorldError::NoMpi(launched),
        DataBy::Devices => WorldError::NoAddress(launched),
    })
}
