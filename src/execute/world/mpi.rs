//! How the processes that an MPI launcher started become a world.

use std::sync::Arc;

use super::control::{JobControl, OnFailure};
use super::error::WorldError;
use super::host::Host;
use super::join::DataBy;
use super::launcher::Launched;
use super::meeting::{Guest, Reach, connection};
use super::{OwnRank, World, patience};
use crate::execute::comm::mpi::{self, MpiNetwork};
use crate::execute::comm::{Alarm, Network};

/// Bytes of what rank 0 says of itself.
const MOST: usize = 4096;

/// Joins the processes of which `launched` is one; MPI carries their data too where `data` says so. `on_failure` is done
/// once the job has failed.
///
/// # Errors
/// Why they do not come together.
pub(super) fn join(
    launched: Launched,
    data: DataBy,
    on_failure: OnFailure,
) -> Result<(World, Arc<MpiNetwork>), WorldError> {
    let patience = patience()?;
    let alarm = Alarm::default();
    let Some(network) = MpiNetwork::start(alarm.clone())? else {
        return Err(connection("MPI was initialised before"));
    };
    let (rank, size) = network.place();
    if size != launched.size {
        return Err(WorldError::OtherMpi { launched, library: mpi::version() });
    }
    let host = Host::own();
    let guest = Guest::new((rank, size), &host);
    let keys = network.gather(&host.key)?;
    let on_host = (0..size).filter(|other| keys[*other] == host.key).collect();
    let connected = if rank == 0 {
        let is_one_host = keys.iter().all(|key| *key == host.key);
        let (meeting, listeners) = guest.call(if is_one_host { Reach::OneHost } else { Reach::Hosts });
        network.broadcast(&serde_json::to_vec(&meeting).unwrap_or_default(), MOST)?;
        guest.receive(&listeners?, &meeting.token)?
    } else {
        let text = network.broadcast(&[], MOST)?;
        guest.join(serde_json::from_slice(&text).map_err(connection)?)?
    };
    let began = guest.began;
    let control =
        JobControl::new((rank, &host.name), connected, (patience, alarm), on_failure).map_err(connection)?;
    let mpi = Arc::new(network);
    let own = OwnRank { rank, size, host, on_host };
    let carries = (data == DataBy::Mpi).then(|| (mpi.clone() as Arc<dyn Network>, mpi::version()));
    Ok((World::new(own, control, carries, began), mpi))
}
