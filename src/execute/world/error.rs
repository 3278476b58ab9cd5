//! Why the processes of a job do not come together.

use thiserror::Error;

use super::launcher::{LaunchError, Launched};
use crate::execute::comm::CommError;

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
    /// GPU ranks that mpirun started, of a program without MPI.
    #[error(
        "{} processes were started by {}, and this meshwright was built without MPI, so it does not know where rank 0 is; \
         set MASTER_ADDR and MASTER_PORT, or build it with `cargo install --path . --features mpi`",
        .0.size,
        .0.launcher
    )]
    NoAddress(Launched),
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
    /// A variable that is not set, and without which rank 0 is not found.
    #[error("{0} is not set, by which {1} says where rank 0 is")]
    NotSet(&'static str, &'static str),
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
