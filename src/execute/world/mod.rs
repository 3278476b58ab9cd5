//! The processes of a job, each of them one rank, seen from one of them: who is who, what they tell one another, and what
//! carries their data.

pub mod control;
pub mod cores;
pub mod host;
pub mod identity;
pub mod launcher;
#[cfg(feature = "mpi")]
pub mod mpi;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use self::control::{JobControl, JobFailure, Patience};
use self::host::Host;
use self::launcher::{LaunchError, Launched};
use crate::execute::comm::{CommError, Network};

/// How long a rank may be silent.
const SILENCE: Duration = Duration::from_secs(30);

/// How long a step may stand still, at least.
const STANDSTILL: Duration = Duration::from_secs(60);

/// Why the processes of a job do not come together.
#[derive(Debug, Error)]
pub enum WorldError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// CPU ranks are processes of MPI, and this program was built without it.
    #[error(
        "{} processes were started by {}, and this meshwright was built without MPI, by which ranks on cores reach one \
         another; build it with `cargo install --path . --features mpi`",
        .0.size,
        .0.launcher
    )]
    NoMpi(Launched),
    #[error(
        "{} processes were started by torchrun, which brings no MPI, by which ranks on cores reach one another; start \
         them by mpirun or srun",
        .0.size
    )]
    TorchrunWithoutMpi(Launched),
    #[error(
        "{} processes were started by {}, and to {library} each of them is alone: it is another MPI than that launcher's; \
         start them by its own mpirun, or by `srun --mpi=pmix` (Open MPI) or `srun --mpi=pmi2` (MPICH)",
        .launched.size,
        .launched.launcher
    )]
    OtherMpi { launched: Launched, library: String },
    /// GPUs of several processes.
    #[error(
        "{} processes were started by {}, and GPUs of several processes are not joined yet; ranks on cores are, by MPI",
        .0.size,
        .0.launcher
    )]
    NoGpus(Launched),
    #[error("{0} is `{1}`: {2}")]
    Setting(&'static str, String, &'static str),
    #[error(transparent)]
    Network(#[from] CommError),
    #[error("the control connection to rank 0 does not come about: {0}")]
    Connection(String),
    #[error("{}", missing(.0))]
    Missing(Vec<usize>),
}

fn missing(ranks: &[usize]) -> String {
    let named: Vec<_> = ranks.iter().take(8).map(usize::to_string).collect();
    let more = if ranks.len() > named.len() {
        format!(" and {} more", ranks.len() - named.len())
    } else {
        String::new()
    };
    let (word, have) = if ranks.len() == 1 { ("rank", "has") } else { ("ranks", "have") };
    format!("{word} {}{more} {have} not come", named.join(", "))
}

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
    network: Arc<dyn Network>,
    began: Instant,
    /// What carries the data, and its version.
    pub library: String,
}

impl World {
    /// The world of `own`, which `control` and `network` join; its clock has run since `began`.
    pub fn new(
        own: OwnRank,
        control: JobControl,
        (network, library): (Arc<dyn Network>, String),
        began: Instant,
    ) -> Self {
        Self { own, control, network, began, library }
    }

    /// What carries data between the ranks.
    pub fn network(&self) -> Arc<dyn Network> {
        self.network.clone()
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
