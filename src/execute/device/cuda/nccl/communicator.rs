//! A communicator: one GPU's place among those that do something together.
//!
//! Communicators do not block. What they are asked for they begin, and the caller asks until it is under way, so that a rank
//! is told in time if the job has failed elsewhere.

#![expect(unsafe_code, reason = "NCCL is a C library")]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cudarc::nccl::sys::{ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclUniqueId};

use super::super::driver::Gpu;
use super::super::error::CudaError;
use super::super::stream::Stream as GpuStream;
use super::super::work::Span;
use super::Nccl;
use super::config::config;
use super::functions::{IN_PROGRESS, SUCCESS, Status};
use super::pause::Pause;
use crate::execute::comm::Alarm;
use crate::execute::error::ExecuteError;
use crate::units::ElementType;

type Done = Result<(), ExecuteError>;

/// What the others need to know to come to one communicator.
pub type Id = ncclUniqueId;

/// How long a communicator may take to end in good order.
const TO_END: Duration = Duration::from_secs(10);

/// A place at a communicator that is to be made.
pub struct Seat {
    pub gpu: Arc<Gpu>,
    pub member: usize,
}

/// One GPU's place among those that do something together. One thread at a time may use it.
#[derive(Debug)]
pub struct Communicator {
    pub(super) nccl: Nccl,
    pub(super) handle: ncclComm_t,
    gpu: Arc<Gpu>,
    alarm: Alarm,
    pub members: usize,
    pub member: usize,
    /// What it joins, in words.
    name: String,
    is_aborted: AtomicBool,
    /// Handles of the memory that is registered with it.
    pub(super) registered: Mutex<Vec<usize>>,
}

// SAFETY: a communicator is bound to no thread.
unsafe impl Send for Communicator {}
// SAFETY: a rank's thread alone calls the library.
unsafe impl Sync for Communicator {}

impl Nccl {
    /// A new id, by which one communicator is made.
    ///
    /// # Errors
    /// What the library says.
    pub fn id(&self) -> Result<Id, CudaError> {
        let mut id = Id { internal: [0; 128] };
        // SAFETY: a place for the id.
        let status = unsafe { (self.0.unique_id)(&raw mut id) };
        self.checked(status, null_mut(), || "an id for GPUs to meet by".to_owned())?;
        Ok(id)
    }

    /// This process's places at the communicator of `id`, which has `members` of them and is called `name`. All members come
    /// at the same time.
    ///
    /// # Errors
    /// What the library says, or why the job failed meanwhile.
    pub fn join(
        self,
        (id, members, name): (Id, usize, &str),
        seats: &[Seat],
        alarm: &Alarm,
    ) -> Result<Vec<Communicator>, ExecuteError> {
        let mut made: Vec<Communicator> = Vec::new();
        // SAFETY: groups may begin at any time.
        let mut status = unsafe { (self.0.group_start)() };
        for seat in seats {
            seat.gpu.bind()?;
            let mut handle = null_mut();
            let mut config = config();
            if is_begun(status) {
                // SAFETY: a place for the handle, which the library fills in before the group ends.
                status = unsafe {
                    (self.0.init)(
                        &raw mut handle,
                        members as c_int,
                        id,
                        seat.member as c_int,
                        &raw mut config,
                    )
                };
            }
            made.push(Communicator {
                nccl: self,
                handle,
                gpu: Arc::clone(&seat.gpu),
                alarm: alarm.clone(),
                members,
                member: seat.member,
                name: name.to_owned(),
                is_aborted: AtomicBool::new(false),
                registered: Mutex::default(),
            });
        }
        // SAFETY: as it was begun.
        let ended = unsafe { (self.0.group_end)() };
        let status = if is_begun(status) { ended } else { status };
        for communicator in &made {
            let settled = communicator.settle(status, "coming together");
            if settled.is_err() {
                made.iter().for_each(Communicator::abort);
                return settled.map(|()| made);
            }
        }
        Ok(made)
    }

    fn checked(
        &self,
        status: Status,
        communicator: ncclComm_t,
        action: impl FnOnce() -> String,
    ) -> Result<(), CudaError> {
        if status == SUCCESS {
            return Ok(());
        }
        let meaning = self.0.meaning(status, communicator);
        Err(CudaError::Nccl { action: action(), code: status, meaning })
    }
}

/// Whether a call has begun what it was asked for, or done it.
const fn is_begun(status: Status) -> bool {
    status == SUCCESS || status == IN_PROGRESS
}

/// What elements are to the library.
///
/// # Errors
/// If it has no such type.
fn type_of(element: ElementType) -> Result<c_int, CudaError> {
    Ok(match element {
        ElementType::Fp64 => ncclDataType_t::ncclFloat64,
        ElementType::Fp32 => ncclDataType_t::ncclFloat32,
        ElementType::Fp16 => ncclDataType_t::ncclFloat16,
        ElementType::Bf16 => ncclDataType_t::ncclBfloat16,
        ElementType::Fp8 => return Err(CudaError::Unsupported("collectives of fp8 between GPUs".to_owned())),
    } as c_int)
}

const BYTES: c_int = ncclDataType_t::ncclUint8 as c_int;
const SUM: c_int = ncclRedOp_t::ncclSum as c_int;

impl Communicator {
    /// Waits until what a call began with `status` is under way.
    pub(super) fn settle(&self, status: Status, action: &str) -> Done {
        let mut status = status;
        let mut pause = Pause::default();
        while status == IN_PROGRESS {
            self.alarm.check()?;
            pause.rest();
            let mut state = SUCCESS;
            // SAFETY: a communicator that lives, and a place for the answer.
            let asked = unsafe { (self.nccl.0.state)(self.handle, &raw mut state) };
            status = if asked == SUCCESS { state } else { asked };
        }
        let action = || format!("{action} of {}", self.name);
        Ok(self.nccl.checked(status, self.handle, action)?)
    }

    /// Why it cannot go on, if another GPU or the network between them has failed.
    ///
    /// # Errors
    /// What the library says.
    pub fn check(&self) -> Result<(), CudaError> {
        let mut state = SUCCESS;
        // SAFETY: a communicator that lives, and a place for the answer.
        let asked = unsafe { (self.nccl.0.state)(self.handle, &raw mut state) };
        let status = if asked == SUCCESS && is_begun(state) { SUCCESS } else { asked.max(state) };
        self.nccl.checked(status, self.handle, || format!("the work of {}", self.name))
    }

    /// Ends what is under way, on this GPU. Nothing may be asked of it after that.
    pub fn abort(&self) {
        if !self.is_aborted.swap(true, Ordering::AcqRel) && !self.handle.is_null() {
            // SAFETY: once, by the thread that uses it.
            let _ = unsafe { (self.nccl.0.abort)(self.handle) };
        }
    }

    /// Calls the library on `stream`, and waits until the call is under way.
    fn call(&self, action: &str, call: impl FnOnce() -> Status) -> Done {
        self.settle(call(), action)
    }

    /// Does all that `calls` asks of this communicator as one.
    ///
    /// # Errors
    /// What the library says, or why the job failed.
    pub fn together(&self, action: &str, calls: impl FnOnce(&Group<'_>) -> Result<(), CudaError>) -> Done {
        // SAFETY: groups may begin at any time.
        let begun = unsafe { (self.nccl.0.group_start)() };
        let given = if is_begun(begun) {
            calls(&Group(self))
        } else {
            self.nccl.checked(begun, self.handle, || action.to_owned())
        };
        // SAFETY: as it was begun.
        let ended = unsafe { (self.nccl.0.group_end)() };
        given?;
        self.settle(ended, action)
    }

    /// `data`, of `elements` elements, becomes the sum of all members'.
    ///
    /// # Errors
    /// As [`Self::together`].
    pub fn all_reduce(
        &self,
        stream: &GpuStream,
        data: Span,
        (elements, element): (usize, ElementType),
    ) -> Done {
        let element = type_of(element)?;
        let (from, to) = (data.address as *const _, data.address as *mut _);
        self.call("an all-reduce", || {
            // SAFETY: memory of the rank, which the program gives to this call alone until the stream is past it.
            unsafe { (self.nccl.0.all_reduce)(from, to, elements, element, SUM, self.handle, stream.handle) }
        })
    }

    /// `own` becomes this member's part of the sum of all `whole`, of `elements` elements a part.
    ///
    /// # Errors
    /// As [`Self::together`].
    pub fn reduce_scatter(
        &self,
        stream: &GpuStream,
        (whole, own): (Span, Span),
        (elements, element): (usize, ElementType),
    ) -> Done {
        let element = type_of(element)?;
        let (from, to) = (whole.address as *const _, own.address as *mut _);
        self.call("a reduce-scatter", || {
            // SAFETY: as above.
            unsafe {
                (self.nccl.0.reduce_scatter)(from, to, elements, element, SUM, self.handle, stream.handle)
            }
        })
    }

    /// `whole` becomes all members' `own`, of as many bytes each.
    ///
    /// # Errors
    /// As [`Self::together`].
    pub fn all_gather(&self, stream: &GpuStream, own: Span, whole: Span) -> Done {
        let (from, to, bytes) = (own.address as *const _, whole.address as *mut _, own.bytes as usize);
        self.call("an all-gather", || {
            // SAFETY: as above.
            unsafe { (self.nccl.0.all_gather)(from, to, bytes, BYTES, self.handle, stream.handle) }
        })
    }

    /// Sends `from` to `member`.
    ///
    /// # Errors
    /// As [`Self::together`].
    pub fn send(&self, stream: &GpuStream, member: usize, from: Span) -> Done {
        self.together("a message", |group| group.send(stream, member, from))
    }

    /// What `member` sends comes to `to`.
    ///
    /// # Errors
    /// As [`Self::together`].
    pub fn receive(&self, stream: &GpuStream, member: usize, to: Span) -> Done {
        self.together("a message", |group| group.receive(stream, member, to))
    }
}

/// Calls on one communicator that are done as one.
pub struct Group<'c>(&'c Communicator);

impl Group<'_> {
    fn begun(&self, status: Status, action: &str) -> Result<(), CudaError> {
        let status = if is_begun(status) { SUCCESS } else { status };
        let Self(communicator) = self;
        communicator
            .nccl
            .checked(status, communicator.handle, || format!("{action} of {}", communicator.name))
    }

    /// Sends `from` to `member`.
    ///
    /// # Errors
    /// What the library says.
    pub fn send(&self, stream: &GpuStream, member: usize, from: Span) -> Result<(), CudaError> {
        let (at, bytes) = (from.address as *const _, from.bytes as usize);
        // SAFETY: memory of the rank, which the program gives to this call alone until the stream is past it.
        let status =
            unsafe { (self.0.nccl.0.send)(at, bytes, BYTES, member as c_int, self.0.handle, stream.handle) };
        self.begun(status, "a message")
    }

    /// What `member` sends comes to `to`.
    ///
    /// # Errors
    /// What the library says.
    pub fn receive(&self, stream: &GpuStream, member: usize, to: Span) -> Result<(), CudaError> {
        let (at, bytes) = (to.address as *mut _, to.bytes as usize);
        // SAFETY: as above.
        let status = unsafe {
            (self.0.nccl.0.receive)(at, bytes, BYTES, member as c_int, self.0.handle, stream.handle)
        };
        self.begun(status, "a message")
    }

    /// What `member` has at `at` comes to all members' `at`.
    ///
    /// # Errors
    /// What the library says.
    pub fn broadcast(&self, stream: &GpuStream, member: usize, at: Span) -> Result<(), CudaError> {
        let (from, to, bytes) = (at.address as *const _, at.address as *mut _, at.bytes as usize);
        // SAFETY: as above.
        let status = unsafe {
            (self.0.nccl.0.broadcast)(from, to, bytes, BYTES, member as c_int, self.0.handle, stream.handle)
        };
        self.begun(status, "a broadcast")
    }

    /// `to` becomes, at `member`, the sum of all members' `from`; elsewhere it stays.
    ///
    /// # Errors
    /// What the library says.
    pub fn reduce(
        &self,
        stream: &GpuStream,
        member: usize,
        (from, to): (Span, Span),
        (elements, element): (usize, ElementType),
    ) -> Result<(), CudaError> {
        let element = type_of(element)?;
        let (from, to) = (from.address as *const _, to.address as *mut _);
        // SAFETY: as above.
        let status = unsafe {
            (self.0.nccl.0.reduce)(
                from,
                to,
                elements,
                element,
                SUM,
                member as c_int,
                self.0.handle,
                stream.handle,
            )
        };
        self.begun(status, "a reduction")
    }
}

impl Drop for Communicator {
    /// Ends it in good order if all went well: members wait for each other, but not for ever.
    fn drop(&mut self) {
        if self.handle.is_null() || self.is_aborted.load(Ordering::Acquire) || self.gpu.bind().is_err() {
            return;
        }
        self.deregister();
        // SAFETY: nobody uses it any more, and its streams are idle.
        let mut status = unsafe { (self.nccl.0.finalize)(self.handle) };
        let (began, mut pause) = (Instant::now(), Pause::default());
        while status == IN_PROGRESS && began.elapsed() < TO_END && self.alarm.check().is_ok() {
            pause.rest();
            // SAFETY: as above.
            if unsafe { (self.nccl.0.state)(self.handle, &raw mut status) } != SUCCESS {
                break;
            }
        }
        if status == SUCCESS {
            // SAFETY: once.
            let _ = unsafe { (self.nccl.0.destroy)(self.handle) };
        } else {
            self.abort();
        }
    }
}
