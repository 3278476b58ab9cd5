//! What ranks compute on. A device knows nothing of models and strategies: it does what calls say, on memory that they
//! name by views.
//!
//! A [`Device`] is the memory of all ranks that live in this process. [`Device::open`] opens its queues, one a stream of
//! a rank, for a run of steps. To add a device, implement these three traits in a folder of its own beside [`cpu`] and
//! [`null`]. Two files name a device: `execute::devices`, which chooses the one to train on, and
//! [`crate::execute::dry_run`], which submits to [`null`].

#![expect(unsafe_code, reason = "a queue relies on its caller to keep the memory of calls apart")]

pub mod cpu;
#[cfg(unix)]
pub mod cuda;
pub mod null;
#[cfg(test)]
pub mod watched;

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::execute::call::{Call, Lists, View};
use crate::execute::comm::{Carrier, Channel, Peers};
use crate::execute::error::ExecuteError;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;
use crate::trace;
use crate::units::Bytes;

/// One rank of a run, and what it takes of a device.
#[derive(Clone, Debug)]
pub struct Need {
    /// Its number in the run, which groups, sends and receives name it by.
    pub rank: usize,
    /// Where they are absent, it is the only rank of the device, and collectives and messages are those of
    /// [`Hub::alone`](crate::execute::comm::Hub::alone).
    pub peers: Peers,
    pub device: Bytes,
    pub host: Bytes,
    pub lists: Lists,
    /// Scratch of the kernels on the compute stream, a buffer of the program.
    pub workspace: View,
    /// In which groups its streams have collectives, and the ranks of each.
    pub channels: Vec<(Channel, Vec<usize>)>,
    /// To whom its messages go, and from whom messages come to it.
    pub sends_to: Vec<usize>,
    pub receives_from: Vec<usize>,
}

/// Whether a step notes when each of its instructions ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    On,
    /// Marks need not have a time.
    Off,
}

/// How many threads a rank submits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// One for each stream: what is submitted may last until it is done.
    ThreadPerStream,
    /// One for all streams of the device, in the order of [`crate::program::submission`], and one for the host's stream.
    /// Libraries of collectives between GPUs ask for it.
    ThreadPerRank,
}

/// An instruction that a queue will be given in every step.
#[derive(Clone, Debug)]
pub struct Upcoming<'a> {
    pub calls: &'a [Call],
    /// Whether another stream waits for its end.
    pub is_awaited: bool,
    /// What it is called in messages.
    pub name: String,
}

/// How far a rank is from having its device do its step as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Readiness {
    /// The step is submitted instruction by instruction.
    Never,
    /// Nothing in the step needs the host.
    Able,
    /// The device has the step.
    Ready,
}

/// Memory that ranks may still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeMemory {
    /// Device and host are the same memory.
    Shared(Bytes),
    Apart {
        device: Bytes,
        host: Bytes,
    },
    /// Each rank has a device of its own: what the one with the least has.
    Each {
        device: Bytes,
        host: Bytes,
    },
}

/// The memory of the ranks of this process.
pub trait Device: Sync {
    /// Memory that ranks may still take.
    fn free_memory(&self) -> FreeMemory;

    /// Memory that is taken: by this process, or on the GPU by all, as its driver says. None where nobody tells.
    ///
    /// # Errors
    /// What the driver says instead.
    fn taken_memory(&self) -> Result<Option<Bytes>, ExecuteError> {
        Ok(None)
    }

    /// What ranks with these `needs` take of the GPU beside their arenas.
    fn beside(&self, _needs: &[Need]) -> Bytes {
        Bytes::ZERO
    }

    /// What carries memory of the host to the ranks of other processes, where there are some.
    fn carrier(&self) -> Option<Arc<dyn Carrier>> {
        None
    }

    /// What joins the ranks' GPUs, with its version, where each rank has one.
    fn library(&self) -> Option<String> {
        None
    }

    /// How it is submitted to.
    fn submission(&self) -> Submission {
        Submission::ThreadPerStream
    }

    /// What the driver calls the GPU, where it is one. There, tracing makes a step longer.
    fn gpu(&self) -> Option<&str> {
        None
    }

    /// Who computes products of matrices, where it is a GPU.
    fn products(&self) -> Option<trace::Products> {
        None
    }

    /// Takes the memory of `ranks`, all of it zero. Done once. From here on a rank is named by its place among them, which
    /// is its number in the run unless its peers are absent.
    ///
    /// # Errors
    /// If the device does not give it.
    fn allocate(&mut self, ranks: Vec<Need>) -> Result<(), ExecuteError>;

    /// Copies `bytes` to `view` of rank `rank`, which is as long.
    ///
    /// # Safety
    /// No queue uses the view.
    unsafe fn upload(&self, rank: usize, view: View, bytes: &[u8]);

    /// Copies what lies in `view` of rank `rank` to `bytes`, which are as many.
    ///
    /// # Safety
    /// No queue writes to the view.
    unsafe fn download(&self, rank: usize, view: View, bytes: &mut [u8]);

    /// Why a copy to or from its memory was not made, if one was not. Whoever trusts what was copied asks.
    fn failure(&self) -> Option<ExecuteError> {
        None
    }

    /// Opens the queues of all ranks. One set of queues may be open at a time.
    ///
    /// # Errors
    /// If the device cannot make what they need.
    fn open<'d>(&'d self) -> Result<Box<dyn Queues + 'd>, ExecuteError>;
}

/// Open queues, and how they stand to one another.
pub trait Queues: Sync {
    /// The queue of `stream` on rank `rank`, which has collectives in these groups of ranks.
    ///
    /// # Errors
    /// If ranks disagree about a group.
    fn queue<'q>(
        &'q self,
        rank: usize,
        stream: Stream,
        groups: &[(Group, &[usize])],
    ) -> Result<Box<dyn Queue + 'q>, ExecuteError>;

    /// The step of rank `rank` as one, where its device could do so.
    fn whole_step(&self, _rank: usize) -> Option<&dyn WholeStep> {
        None
    }

    /// A step begins: no instruction of it is done.
    fn restart(&self);

    /// Does `work` of `rank`. Should it fail or panic, no queue waits for that rank any more.
    ///
    /// # Errors
    /// What `work` failed with.
    fn guard(
        &self,
        rank: usize,
        work: &mut dyn FnMut() -> Result<(), ExecuteError>,
    ) -> Result<(), ExecuteError>;
}

/// The step of a rank, which its device does as one once it has been told all of it. What differs from step to step lies in
/// memory.
pub trait WholeStep: Sync {
    /// Known once all queues of the rank are prepared.
    fn readiness(&self) -> Readiness;

    /// What the rank's queues are given from now on, from their begin to their finish, is the step, and is not done.
    ///
    /// # Errors
    /// Why the device takes nothing.
    fn begin(&self) -> Result<(), ExecuteError>;

    /// All of the step was given.
    ///
    /// # Errors
    /// Why the device does not have it.
    fn end(&self) -> Result<(), ExecuteError>;

    /// The device does not take the step as one: never again.
    fn give_up(&self);

    /// Not all ranks' devices take their steps as one, so this one gives back what it has, and keeps to instructions.
    fn forget(&self);

    /// Does the step, which is number `step`, and blocks until it is done.
    ///
    /// # Errors
    /// What went wrong with it.
    fn perform(&self, step: u64) -> Result<(), ExecuteError>;
}

/// One stream of a rank: does what is submitted in order.
pub trait Queue: Send {
    /// Makes ready the instructions that every step will submit, in order. Called once, before the first step.
    ///
    /// # Errors
    /// If a call cannot be done.
    fn prepare(&mut self, _instructions: &[Upcoming<'_>]) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Step `step`, which began at `began`, goes on here.
    fn begin(&mut self, step: u64, began: Instant, tracing: Tracing);

    /// What is submitted from now on waits until each stream of the rank has done so many instructions. False if one of
    /// them has failed.
    fn wait(&mut self, waits: &Waits) -> bool;

    /// Does `call`, behind all that was submitted before.
    ///
    /// # Safety
    /// Until it is done, nobody else uses the views that the call writes, and nobody writes those that it reads.
    ///
    /// # Errors
    /// What went wrong with it.
    unsafe fn submit(&mut self, call: &Call) -> Result<(), ExecuteError>;

    /// Notes when all that was submitted before is done, as mark number `mark`.
    fn record(&mut self, mark: usize);

    /// The instruction whose calls were submitted is done.
    fn advance(&mut self);

    /// Posts room for the message that `call` will receive: ranks do so in the order in which messages are sent. Where room is
    /// there without being posted, nothing happens.
    ///
    /// # Errors
    /// What went wrong with it.
    fn post(&mut self, _call: &Call) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Gives the device what was submitted and is kept back until now.
    ///
    /// # Errors
    /// What went wrong with it.
    fn hand_over(&mut self) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Blocks until all that was submitted is done.
    ///
    /// # Errors
    /// What went wrong with it.
    fn finish(&mut self) -> Result<(), ExecuteError>;

    /// Seconds from the begin of the step to a mark that was recorded, once all is finished, in a step that is traced.
    ///
    /// # Errors
    /// If the device does not tell the time of the mark.
    fn elapsed(&self, mark: usize) -> Result<f64, ExecuteError>;
}
