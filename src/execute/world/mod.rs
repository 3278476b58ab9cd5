//! The processes of a job, each of them one rank, seen from one of them: who is who, what they tell one another, and what
//! carries their data.

mod appointment;
pub mod control;
pub mod cores;
pub mod error;
pub mod host;
mod host_list;
pub mod identity;
pub mod join;
pub mod launcher;
mod meeting;
#[cfg(feature = "mpi")]
mod mpi;
mod store;
mod token;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use self::control::{JobControl, JobFailure, Patience};
use self::error::WorldError;
use self::host::Host;
use crate::execute::comm::Network;

/// How long a rank may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// How long a step may stand still, at least.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Where a process is among those of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRank {
    pub rank: usize,
    pub size: usize,
    pub host: Host,
    /// The ranks on the same host, in order; this one is among them.
    pub on_host: Vec<usize>,
}

/// The processes of a job, seen from one of them.
pub struct World {
    pub own: OwnRank,
    control: JobControl,
    /// What carries data, and its name and version; none if the devices have a library of their own.
    network: Option<(Arc<dyn Network>, String)>,
    began: Instant,
}

impl World {
    /// The world of `own`, which `control` joins, and `network` of that name where it carries data; its clock has run since
    /// `began`.
    pub const fn new(
        own: OwnRank,
        control: JobControl,
        network: Option<(Arc<dyn Network>, String)>,
        began: Instant,
    ) -> Self {
        Self { own, control, network, began }
    }

    /// What carries data between ranks on cores; none if the devices have a library of their own.
    pub fn network(&self) -> Option<Arc<dyn Network>> {
        self.network.as_ref().map(|(network, _)| network.clone())
    }

    /// The name and version of what carries data between ranks on cores.
    pub fn library(&self) -> Option<&str> {
        self.network.as_ref().map(|(_, library)| library.as_str())
    }

    /// What ranks tell one another.
    pub const fn control(&self) -> &JobControl {
        &self.control
    }

    /// Whether this is rank 0, which prints and writes for all.
    pub const fn is_first(&self) -> bool {
        self.own.rank == 0
    }

    /// What this process's clock shows at `time`, in seconds.
    pub fn clock(&self, time: Instant) -> f64 {
        time.saturating_duration_since(self.began).as_secs_f64()
    }

    /// All ranks' `own` in their order, at rank 0; nothing elsewhere.
    ///
    /// # Errors
    /// Why the job failed.
    pub fn gather<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Option<Vec<T>>, JobFailure> {
        let Some(all) = self.control.gather(&self.text(own)?)? else { return Ok(None) };
        all.iter().map(|text| self.read(text)).collect::<Result<_, _>>().map(Some)
    }

    /// What rank 0 has, at all ranks; the others have none.
    ///
    /// # Errors
    /// Why the job failed.
    pub fn broadcast<T: Serialize + DeserializeOwned>(&self, value: Option<&T>) -> Result<T, JobFailure> {
        let text = value.map(|value| self.text(value)).transpose()?;
        self.read(&self.control.broadcast(text.as_deref())?)
    }

    /// All ranks' `own` in their order, at all ranks.
    ///
    /// # Errors
    /// Why the job failed.
    pub fn all_gather<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>, JobFailure> {
        self.broadcast(self.gather(own)?.as_ref())
    }

    fn text<T: Serialize>(&self, value: &T) -> Result<Vec<u8>, JobFailure> {
        serde_json::to_vec(value).map_err(|error| self.control.fail(&error.to_string(), ""))
    }

    fn read<T: DeserializeOwned>(&self, text: &[u8]) -> Result<T, JobFailure> {
        serde_json::from_slice(text).map_err(|error| self.control.fail(&error.to_string(), ""))
    }
}

/// How long ranks are waited for: as always, or `MESHWRIGHT_PATIENCE_S` seconds.
///
/// # Errors
/// If that is no number of seconds.
pub fn patience() -> Result<Patience, WorldError> {
    const NAME: &str = "MESHWRIGHT_PATIENCE_S";
    let Ok(text) = std::env::var(NAME) else {
        return Ok(Patience { silence: SILENCE, standstill: STANDSTILL });
    };
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.5..1e6).contains(seconds));
    let Some(seconds) = seconds else {
        return Err(WorldError::Setting(NAME, text, "seconds are needed, from 0.5"));
    };
    let silence = Duration::from_secs_f64(seconds);
    Ok(Patience { silence, standstill: 2 * silence })
}
