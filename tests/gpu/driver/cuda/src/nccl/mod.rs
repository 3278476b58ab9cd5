//! Stands for NVIDIA's NCCL: what one process knows of its communicators, and the codes and words of errors.

pub mod channel;
pub mod collective;
pub mod communication;
pub mod communicator;
pub mod group;
pub mod issue;
pub mod number;
pub mod operation;
pub mod segment;
mod shared_file;
pub mod users;

use crate::driver::{Driver, Handle};
use crate::failure::{Answer, Error, Failure};
use crate::graph::Run;
use communication::Communication;
use communicator::Communicator;
use operation::Seat;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Code {
    Success = 0,
    UnhandledCudaError = 1,
    SystemError = 2,
    InvalidArgument = 4,
    InvalidUsage = 5,
    InProgress = 7,
}

/// The words of `ncclGetErrorString`, by code.
pub const WORDS: [&std::ffi::CStr; 9] = [
    c"no error",
    c"unhandled cuda error",
    c"unhandled system error",
    c"internal error",
    c"invalid argument",
    c"invalid usage",
    c"remote process exited or there was a network error",
    c"NCCL operation in progress",
    c"unknown result code",
];

#[derive(Default)]
pub struct Nccl {
    /// By their handles. Those that have been destroyed stay, so that work that is left finds them.
    pub communicators: BTreeMap<u64, Communicator>,
    /// Which ranks of which ids this process has been, on which devices: an id serves once.
    pub members: HashMap<[u8; 16], Vec<Seat>>,
    /// The words of the latest error.
    pub latest: CString,
    /// Earlier words, which a program may still hold a pointer to.
    pub earlier: Vec<CString>,
    /// The number of the latest registered buffer.
    pub buffers: u64,
}

/// A code of NCCL's, with words for the log and for `ncclGetLastError`.
pub fn refuse<T>(code: Code, text: impl Into<String>) -> Answer<T> {
    Err(Failure { code: code as u32, text: Some(text.into()) })
}

/// The call goes on after it has returned.
pub fn in_progress() -> Failure {
    Failure { code: Code::InProgress as u32, text: None }
}

impl Nccl {
    /// Keeps words for `ncclGetLastError`.
    pub fn remember(&mut self, text: &str) {
        let words = CString::new(text.replace('\0', " ")).unwrap_or_default();
        self.earlier.push(std::mem::replace(&mut self.latest, words));
    }

    /// A communicator that a program may use.
    pub fn communicator(&mut self, handle: Handle) -> Answer<&mut Communicator> {
        match self.communicators.get_mut(&(handle as u64)) {
            Some(communicator) if !communicator.gone => Ok(communicator),
            Some(communicator) => refuse(
                Code::InvalidArgument,
                format!("communicator {} has been destroyed or aborted", communicator.name),
            ),
            None => refuse(Code::InvalidArgument, format!("{handle:?} is no communicator")),
        }
    }

    /// The process takes a seat that nobody else of it has, on a device that has none.
    pub fn sit(&mut self, id: [u8; 16], seat: Seat) -> Answer {
        let seats = self.members.entry(id).or_default();
        if seats.iter().any(|other| other.rank == seat.rank) {
            let text = format!("this process has been rank {} of this communicator already", seat.rank);
            return refuse(Code::InvalidUsage, text);
        }
        if let Some(other) = seats.iter().find(|other| other.device == seat.device) {
            let text = format!("ranks {} and {} are both on device {}", other.rank, seat.rank, seat.device);
            return refuse(Code::InvalidUsage, text);
        }
        seats.push(seat);
        Ok(())
    }

    /// A graph's communicators must still be there when it's launched.
    pub fn check_graph(&self, run: &Run) -> Answer {
        let gone = |communication: &Communication| {
            self.communicators.get(&communication.communicator).filter(|communicator| communicator.gone)
        };
        match run.communications.values().find_map(gone) {
            None => Ok(()),
            Some(communicator) => crate::failure::refuse(
                Error::CUDA_ERROR_INVALID_HANDLE,
                format!(
                    "the graph needs communicator {}, which has been destroyed or aborted",
                    communicator.name
                ),
            ),
        }
    }

    /// Whether work of a communicator has been queued and isn't done.
    pub fn communicates(&self) -> bool {
        self.communicators.values().any(Communicator::is_working)
    }
}

impl Driver {
    /// NCCL's word for what the driver says.
    pub fn nccl_failed(&mut self, failure: Failure) -> Failure {
        if crate::failure::is_sticky(failure.code) {
            self.broken.get_or_insert(failure.code);
        }
        let text = failure.text.unwrap_or_else(|| format!("the driver answers {}", failure.code));
        Failure { code: Code::UnhandledCudaError as u32, text: Some(text) }
    }
}
