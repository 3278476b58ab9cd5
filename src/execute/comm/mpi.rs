//! Ranks as processes of MPI: a communicator for each group and stream, and requests that are looked at until they are
//! done or a rank has failed.

#![expect(unsafe_code, reason = "MPI is a C library, and its requests outlive the borrows of what they send")]

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mpi::environment::{Universe, initialize_with_threading, library_version};
use mpi::ffi;
use mpi::raw::AsRaw;
use mpi::topology::{Communicator, Group as _, SimpleCommunicator};
use mpi::{Rank, Threading};

use super::network::{Alarm, Carrier, Network, Post, Received, Sent, Wire};
use super::{Channel, CommError};
use crate::lower::Stream;
use crate::ops::Group;

/// Bytes of one request at most: MPI counts in 32 bits.
const MOST: usize = 1 << 30;

/// Looks at requests before a thread sleeps between them: about a millisecond.
const LOOKS: u32 = 2000;

/// Between looks after that.
const NAP: Duration = Duration::from_micros(50);

/// The tag of collectives.
const BLOCKS: c_int = 0;

/// A communicator, which any thread may use.
struct Joined(SimpleCommunicator);

// SAFETY: MPI was initialised for calls from any thread.
unsafe impl Send for Joined {}

// SAFETY: as above.
unsafe impl Sync for Joined {}

/// The processes that an MPI launcher has started.
pub struct MpiNetwork {
    /// Ended by [`Self::end`] alone: after a failure, ending waits for others for ever.
    universe: ManuallyDrop<Universe>,
    alarm: Alarm,
    /// Of all processes, for messages: these go by rank, kind and order.
    messages: Arc<Joined>,
    /// The communicators made so far: a run after a run uses them again.
    made: Mutex<HashMap<Channel, Arc<Joined>>>,
}

// SAFETY: MPI was initialised for calls from any thread.
unsafe impl Send for MpiNetwork {}

// SAFETY: as above.
unsafe impl Sync for MpiNetwork {}

impl MpiNetwork {
    /// Initialises MPI. None if it has been before.
    ///
    /// # Errors
    /// If MPI may not be called from several threads.
    pub fn start(alarm: Alarm) -> Result<Option<Self>, CommError> {
        let Some((universe, threading)) = initialize_with_threading(Threading::Multiple) else {
            return Ok(None);
        };
        if threading != Threading::Multiple {
            let reason = format!("it grants {threading:?} where {:?} is needed", Threading::Multiple);
            return Err(CommError::Network { what: version(), reason });
        }
        let world = universe.world();
        returns_errors(&world);
        // What is made of it returns errors too.
        let messages = Arc::new(Joined(world.duplicate()));
        let universe = ManuallyDrop::new(universe);
        Ok(Some(Self { universe, alarm, messages, made: Mutex::default() }))
    }

    fn world(&self) -> SimpleCommunicator {
        self.universe.world()
    }

    /// This process, and how many there are.
    pub fn place(&self) -> (usize, usize) {
        let world = self.world();
        (world.rank() as usize, world.size() as usize)
    }

    /// Rank 0's `bytes` to all, `most` at most.
    ///
    /// # Errors
    /// If the network fails.
    pub fn broadcast(&self, bytes: &[u8], most: usize) -> Result<Vec<u8>, CommError> {
        let mut buffer = vec![0_u8; most + size_of::<u64>()];
        let length = bytes.len().min(most);
        buffer[..size_of::<u64>()].copy_from_slice(&(length as u64).to_le_bytes());
        buffer[size_of::<u64>()..][..length].copy_from_slice(&bytes[..length]);
        let world = self.world();
        // SAFETY: the buffer has as many bytes as are named, on all ranks.
        let code = unsafe {
            ffi::MPI_Bcast(buffer.as_mut_ptr().cast(), buffer.len() as c_int, byte(), 0, world.as_raw())
        };
        done(code, "MPI_Bcast")?;
        let (head, rest) = buffer.split_at(size_of::<u64>());
        let length = u64::from_le_bytes(head.try_into().unwrap_or_default()) as usize;
        Ok(rest[..length.min(most)].to_vec())
    }

    /// All processes' `text`, in the order of ranks.
    ///
    /// # Errors
    /// If the network fails.
    pub fn gather(&self, text: &[u8; 64]) -> Result<Vec<[u8; 64]>, CommError> {
        let (_, size) = self.place();
        let mut all = vec![[0_u8; 64]; size];
        let world = self.world();
        // SAFETY: each process sends 64 bytes, and there is room for those of all.
        let code = unsafe {
            ffi::MPI_Allgather(
                text.as_ptr().cast(),
                64,
                byte(),
                all.as_mut_ptr().cast(),
                64,
                byte(),
                world.as_raw(),
            )
        };
        done(code, "MPI_Allgather")?;
        Ok(all)
    }

    /// Ends MPI, once all processes come to this.
    pub fn end(mut self) {
        if let Ok(made) = self.made.get_mut() {
            made.clear();
        }
        let Self { messages, universe, .. } = &mut self;
        if let Some(messages) = Arc::get_mut(messages) {
            let mut raw = messages.0.as_raw();
            // SAFETY: nobody uses it any more, and it is not dropped.
            unsafe { ffi::MPI_Comm_free(&raw mut raw) };
        }
        // SAFETY: it is not used any more.
        unsafe { ManuallyDrop::drop(universe) };
        std::mem::forget(self);
    }

    fn communicator(&self, channel: Channel, members: &[usize]) -> Result<Arc<Joined>, CommError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(communicator) = made.get(&channel) {
            return Ok(communicator.clone());
        }
        let world = self.world();
        let ranks: Vec<Rank> = members.iter().map(|member| *member as Rank).collect();
        let group = world.group().include(&ranks);
        let tag = channel.stream as usize * Group::COUNT + channel.group as usize;
        let communicator = world.split_by_subgroup_with_tag(&group, tag as c_int);
        let communicator = communicator.ok_or_else(|| CommError::Network {
            what: "MPI_Comm_create_group".to_owned(),
            reason: format!("no communicator of ranks {members:?}"),
        })?;
        returns_errors(&communicator);
        let communicator = Arc::new(Joined(communicator));
        made.insert(channel, communicator.clone());
        Ok(communicator)
    }
}

/// The library and its version, on one line.
pub fn version() -> String {
    let version = library_version().unwrap_or_default();
    version.lines().next().unwrap_or_default().trim_matches('\0').trim().to_owned()
}

/// An error ends a call, not the process.
fn returns_errors(communicator: &SimpleCommunicator) {
    // SAFETY: the communicator is whole, and the handler is a constant of the library.
    unsafe { ffi::MPI_Comm_set_errhandler(communicator.as_raw(), ffi::RSMPI_ERRORS_RETURN) };
}

impl Carrier for MpiNetwork {
    fn wire(&self, channel: Channel, members: &[usize]) -> Result<Box<dyn Wire>, CommError> {
        let communicator = self.communicator(channel, members)?;
        Ok(Box::new(MpiWire { communicator, alarm: self.alarm.clone(), requests: Vec::new() }))
    }
}

impl Network for MpiNetwork {
    fn post(&self) -> Result<Box<dyn Post>, CommError> {
        let communicator = self.messages.clone();
        Ok(Box::new(MpiPost { communicator, alarm: self.alarm.clone(), open: HashMap::new() }))
    }
}

struct MpiWire {
    communicator: Arc<Joined>,
    alarm: Alarm,
    requests: Vec<ffi::MPI_Request>,
}

// SAFETY: MPI was initialised for calls from any thread; requests are this stream's alone.
unsafe impl Send for MpiWire {}

impl Wire for MpiWire {
    unsafe fn exchange(&mut self, sent: &[Sent], received: &[Received]) -> Result<(), CommError> {
        self.requests.clear();
        let communicator = self.communicator.0.as_raw();
        for &Received { member, to, bytes } in received {
            for first in (0..bytes).step_by(MOST) {
                let count = MOST.min(bytes - first) as c_int;
                let request = request(|request| {
                    // SAFETY: as the caller vouches for the memory.
                    unsafe {
                        let to = to.add(first).cast::<c_void>();
                        ffi::MPI_Irecv(to, count, byte(), member as c_int, BLOCKS, communicator, request)
                    }
                });
                self.requests.push(request.map_err(|code| failure(code, "MPI_Irecv"))?);
            }
        }
        for &Sent { member, from, bytes } in sent {
            for first in (0..bytes).step_by(MOST) {
                let count = MOST.min(bytes - first) as c_int;
                let request = request(|request| {
                    // SAFETY: as the caller vouches for the memory.
                    unsafe {
                        let from = from.add(first).cast::<c_void>();
                        ffi::MPI_Isend(from, count, byte(), member as c_int, BLOCKS, communicator, request)
                    }
                });
                self.requests.push(request.map_err(|code| failure(code, "MPI_Isend"))?);
            }
        }
        wait(&mut self.requests, &self.alarm)
    }
}

struct MpiPost {
    communicator: Arc<Joined>,
    alarm: Alarm,
    /// Requests of open inboxes, by sender and kind.
    open: HashMap<(usize, u32), ffi::MPI_Request>,
}

// SAFETY: MPI was initialised for calls from any thread; requests are this stream's alone.
unsafe impl Send for MpiPost {}

impl Post for MpiPost {
    unsafe fn send(&mut self, to: usize, kind: u32, bytes: &[u8]) -> Result<(), CommError> {
        let communicator = self.communicator.0.as_raw();
        let count = message_length(bytes.len())?;
        // It ends once the receiver has opened its inbox.
        let request = request(|request| {
            // SAFETY: as the caller vouches for the memory.
            unsafe {
                let from = bytes.as_ptr().cast::<c_void>();
                ffi::MPI_Issend(from, count, byte(), to as c_int, kind as c_int, communicator, request)
            }
        });
        let request = request.map_err(|code| failure(code, "MPI_Issend"))?;
        wait(&mut [request], &self.alarm)
    }

    unsafe fn open(&mut self, from: usize, kind: u32, inbox: &mut [u8]) -> Result<(), CommError> {
        let communicator = self.communicator.0.as_raw();
        let count = message_length(inbox.len())?;
        let request = request(|request| {
            // SAFETY: as the caller vouches for the memory.
            unsafe {
                let to = inbox.as_mut_ptr().cast::<c_void>();
                ffi::MPI_Irecv(to, count, byte(), from as c_int, kind as c_int, communicator, request)
            }
        });
        self.open.insert((from, kind), request.map_err(|code| failure(code, "MPI_Irecv"))?);
        Ok(())
    }

    fn receive(&mut self, from: usize, kind: u32) -> Result<(), CommError> {
        let Some(request) = self.open.remove(&(from, kind)) else {
            let what = format!("message {kind} from rank {from}");
            return Err(CommError::Network { what, reason: "its inbox was not open".to_owned() });
        };
        let mut requests = [request];
        let received = wait(&mut requests, &self.alarm);
        if received.is_err() {
            // It is still to be cancelled.
            self.open.insert((from, kind), requests[0]);
        }
        received
    }
}

impl Drop for MpiPost {
    /// Closes the inboxes that are open for messages of a step that does not come.
    fn drop(&mut self) {
        for (_, mut request) in self.open.drain() {
            // SAFETY: the request is of an open inbox; once it is cancelled, waiting for it is over at once.
            unsafe {
                if ffi::MPI_Cancel(&raw mut request) == 0 && self.alarm.check().is_ok() {
                    ffi::MPI_Wait(&raw mut request, ffi::RSMPI_STATUS_IGNORE);
                }
            }
        }
    }
}

fn message_length(bytes: usize) -> Result<c_int, CommError> {
    c_int::try_from(bytes).map_err(|_| CommError::Network {
        what: format!("a message of {bytes} bytes"),
        reason: "MPI counts the bytes of one in 32 bits".to_owned(),
    })
}

fn byte() -> ffi::MPI_Datatype {
    // SAFETY: a constant of the library.
    unsafe { ffi::RSMPI_UINT8_T }
}

/// The request that `start` makes, or the error that it returns.
fn request(start: impl FnOnce(*mut ffi::MPI_Request) -> c_int) -> Result<ffi::MPI_Request, c_int> {
    let mut request = MaybeUninit::uninit();
    match start(request.as_mut_ptr()) {
        // SAFETY: a call that succeeds has written it.
        0 => Ok(unsafe { request.assume_init() }),
        code => Err(code),
    }
}

/// Looks at `requests` until all are done, or a rank of the job has failed. MPI moves bytes while it is called.
fn wait(requests: &mut [ffi::MPI_Request], alarm: &Alarm) -> Result<(), CommError> {
    for look in 0_u32.. {
        let mut flag: c_int = 0;
        // SAFETY: the requests were made by MPI and are not done.
        let code = unsafe {
            ffi::MPI_Testall(
                requests.len() as c_int,
                requests.as_mut_ptr(),
                &raw mut flag,
                ffi::RSMPI_STATUSES_IGNORE,
            )
        };
        done(code, "MPI_Testall")?;
        if flag != 0 {
            break;
        }
        alarm.check()?;
        if look < LOOKS {
            thread::yield_now();
        } else {
            thread::sleep(NAP);
        }
    }
    Ok(())
}

fn done(code: c_int, call: &str) -> Result<(), CommError> {
    if code == 0 { Ok(()) } else { Err(failure(code, call)) }
}

fn failure(code: c_int, call: &str) -> CommError {
    let mut text = vec![0_u8; 1024];
    let mut length: c_int = 0;
    // SAFETY: MPI's texts are shorter than this.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &raw mut length) };
    text.truncate(length.max(0) as usize);
    CommError::Network { what: call.to_owned(), reason: String::from_utf8_lossy(&text).into_owned() }
}

const _: () = assert!(Stream::ALL.len() * Group::COUNT < 32_767, "tags of MPI are at least 15 bits wide");
