//! How the processes that an MPI launcher started become a world.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::control::star::{self, Connected, LOOPBACK, Token};
use super::control::{JobControl, JobFailure};
use super::host::{self, Host};
use super::launcher::Launched;
use super::{OwnRank, World, WorldError, patience};
use crate::execute::comm::Alarm;
use crate::execute::comm::mpi::{self, MpiNetwork};

/// Bytes of what rank 0 says of itself.
const MOST: usize = 4096;

/// How long ranks may take to find rank 0.
const TO_CONNECT: Duration = Duration::from_secs(60);

/// Where rank 0 listens, and what shows that somebody is of the job.
#[derive(Serialize, Deserialize)]
struct Meeting {
    addresses: Vec<SocketAddr>,
    token: Token,
    host: String,
}

/// A world of MPI, which is ended apart from it.
pub struct Joined {
    world: Arc<World>,
    mpi: Arc<MpiNetwork>,
}

impl Joined {
    /// The processes that came together.
    pub fn world(&self) -> Arc<World> {
        self.world.clone()
    }

    /// Ends MPI, once all ranks have left and nobody has the world any more.
    pub fn end(self) {
        let Self { world, mpi } = self;
        drop(world);
        if let Ok(mpi) = Arc::try_unwrap(mpi) {
            mpi.end();
        }
    }
}

/// Joins the processes of which `launched` is one. `last_resort` ends this process if it does not end by itself after a
/// failure.
///
/// # Errors
/// Why they do not come together.
pub fn join(launched: Launched, last_resort: fn(&JobFailure, bool)) -> Result<Joined, WorldError> {
    let patience = patience()?;
    let (alarm, began) = (Alarm::default(), Instant::now());
    let connection = |reason: String| WorldError::Connection(reason);
    let Some(network) = MpiNetwork::start(alarm.clone())? else {
        return Err(connection("MPI was initialised before".to_owned()));
    };
    let (rank, size) = network.place();
    if size != launched.size {
        return Err(WorldError::OtherMpi { launched, library: mpi::version() });
    }
    let host = Host::own();
    let keys = network.gather(&host.key)?;
    let on_host = (0..size).filter(|other| keys[*other] == host.key).collect();
    let is_one_host = keys.iter().all(|key| *key == host.key);
    let clock = || began.elapsed().as_secs_f64();
    let deadline = Instant::now() + TO_CONNECT;
    let connected = if rank == 0 {
        let addresses: Vec<IpAddr> = if is_one_host { vec![LOOPBACK] } else { all_addresses() };
        let listeners = star::listen(&addresses, 0).map_err(|error| connection(error.to_string()));
        let token = token();
        // The others wait for what is said here, even if it is that there is no address.
        let addresses =
            listeners.iter().flatten().filter_map(|listener| listener.local_addr().ok()).collect();
        let meeting = Meeting { addresses, token, host: host.name.clone() };
        network.broadcast(&serde_json::to_vec(&meeting).unwrap_or_default(), MOST)?;
        star::accept(&listeners?, size - 1, &token, (deadline, &clock)).map_err(WorldError::Missing)?
    } else {
        let text = network.broadcast(&[], MOST)?;
        let meeting: Meeting =
            serde_json::from_slice(&text).map_err(|error| connection(error.to_string()))?;
        // From another host, rank 0's loopback address would be this host's own.
        let is_near = keys[0] == host.key;
        let reached = |address: &&SocketAddr| is_near || !address.ip().is_loopback();
        let addresses: Vec<SocketAddr> = meeting.addresses.iter().filter(reached).copied().collect();
        let name = (rank, host.name.as_str());
        let stream = star::connect(&addresses, name, &meeting.token, (deadline, &clock))
            .map_err(|error| connection(error.to_string()))?;
        vec![Connected { rank: 0, host: meeting.host, stream, clock: 0.0 }]
    };
    let control = JobControl::new((rank, &host.name), connected, (patience, alarm), last_resort)
        .map_err(|error| connection(error.to_string()))?;
    let mpi = Arc::new(network);
    let own = OwnRank { rank, size, host, on_host };
    let world = World::new(own, control, (mpi.clone(), mpi::version()), began);
    Ok(Joined { world: Arc::new(world), mpi })
}

/// Where a host is reached, by its own processes too.
fn all_addresses() -> Vec<IpAddr> {
    std::iter::once(LOOPBACK).chain(host::addresses()).collect()
}

/// Random bytes of the system.
fn token() -> Token {
    use std::io::Read;
    let mut token = Token::default();
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut token));
    if read.is_err() {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        token = (time.as_nanos() ^ u128::from(std::process::id()) << 64).to_le_bytes();
    }
    token
}
