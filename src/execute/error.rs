//! Why a run could not start, or failed.

use std::fmt;

use thiserror::Error;

use crate::execute::comm::CommError;
use crate::execute::world::control::JobFailure;
use crate::program::instruction::Holds;
use crate::units::Bytes;

/// Whose memory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Where ranks' device and host memory are the same.
    Machine,
    Gpu,
    /// Beside a GPU.
    Host,
    /// A limit on what this process may map (`ulimit -v`).
    Limit,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "this machine",
            Self::Gpu => "the GPU",
            Self::Host => "the host",
            Self::Limit => "the limit on this process (ulimit -v)",
        })
    }
}

/// A run that failed or cannot be.
#[derive(Debug, Error)]
pub enum ExecuteError {
    #[error("{0}")]
    Communication(#[from] CommError),
    /// Another process of the job, or this one, ended it.
    #[error("{0}")]
    Job(#[from] Box<JobFailure>),
    /// Something that the embedded backend plans, but has no kernel for.
    #[error("the embedded backend cannot train this: {0}")]
    Unsupported(String),
    #[error(
        "the loss is {value} at step {step}: the first value that is not finite comes out of {layer} ({what}), on rank {rank}"
    )]
    NotFinite { step: u64, value: f64, rank: usize, layer: String, what: String },
    #[error(
        "the arenas of {ranks} ranks take {extent} to hold {live} at once{}, and {holder} has {available} free",
        and_beside(*beside)
    )]
    Memory { ranks: u64, extent: Bytes, live: Bytes, beside: Bytes, holder: Holder, available: Bytes },
    #[error(
        "the arenas of rank {rank} take {extent} to hold {live} at once{}, and {holder} has {available} free",
        and_beside(*beside)
    )]
    MemoryOfOne { rank: usize, extent: Bytes, live: Bytes, beside: Bytes, holder: Holder, available: Bytes },
    #[error("the arena of rank {rank} takes {bytes}, which the system does not give: {reason}")]
    Arena { rank: usize, bytes: Bytes, reason: String },
    #[error("the system does not give the {threads} threads of this run: {reason}")]
    Threads { threads: usize, reason: String },
    /// A slice of a rank that the plan has not.
    #[error("the plan has no rank {rank}: its ranks are 0 to {last}")]
    NoSuchRank { rank: u64, last: u64 },
    #[error("rank {rank}: {message}")]
    Rank { rank: usize, message: String },
    #[cfg(unix)]
    #[error("{0}")]
    Cuda(Box<crate::execute::device::cuda::error::CudaError>),
    #[error("{0}")]
    Data(#[from] crate::execute::data::DataError),
    #[error("{0}")]
    Weights(#[from] crate::execute::weights::WeightsError),
    /// An instruction without something that it works on: a bug of ours.
    #[error("rank {rank} cannot do its instruction ({task}{}): {what} is missing; this is a bug of meshwright", of_unit(*unit))]
    Missing { rank: usize, task: String, unit: Option<u32>, what: String },
    /// An operand that is shorter than its kernel needs: a bug of ours.
    #[error(
        "rank {rank} cannot do its instruction ({task}{}): an operand has {found} B where {needed} B are needed; this is a bug of meshwright",
        of_unit(*unit)
    )]
    Operand { rank: usize, task: String, unit: Option<u32>, found: usize, needed: usize },
    /// Calls of another size than the op that was priced: a bug of ours.
    #[error(
        "rank {rank} cannot do its instruction ({task}{}): the {op} was priced for {priced} elements or products and is {bound}; this is a bug of meshwright",
        of_unit(*unit)
    )]
    Shape { rank: usize, task: String, unit: Option<u32>, op: &'static str, priced: u64, bound: u64 },
    /// A program that keeps another amount of a unit's state than its tensors have: a bug of ours.
    #[error(
        "rank {rank} keeps {found} B ({holds:?}) of unit {unit}, which has {needed} B; this is a bug of meshwright"
    )]
    State { rank: usize, unit: u32, holds: Holds, found: usize, needed: usize },
    /// A program that does not verify: a bug of ours.
    #[error("the program does not verify: {0}")]
    Program(String),
    #[error(
        "no gradients are there: they are from a step's last backward pass on, until the next step begins"
    )]
    NoGradients,
    #[error("cannot write `{path}`: {reason}")]
    UnwrittenGradients { path: String, reason: String },
    #[error("{name} is frozen: it has no gradient")]
    FrozenParameter { name: String },
    #[error("no parameter is named {name}; {nearest} is")]
    UnknownParameter { name: String, nearest: String },
}

impl From<JobFailure> for ExecuteError {
    fn from(failure: JobFailure) -> Self {
        Self::Job(Box::new(failure))
    }
}

/// What is taken beside arenas, if anything.
fn and_beside(beside: Bytes) -> String {
    if beside == Bytes::ZERO { String::new() } else { format!(", and {beside} beside them") }
}

fn of_unit(unit: Option<u32>) -> String {
    unit.map_or_else(String::new, |unit| format!(" of unit {unit}"))
}
