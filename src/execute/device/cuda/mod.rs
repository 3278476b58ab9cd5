//! NVIDIA GPUs as a device: ranks are arenas of one GPU's memory, queues are its streams, calls are kernels of ours.
//!
//! ```text
//! call ─► encode ─► work (kernel, copy, fill) ─► queue ─► driver
//!                                 │
//!                   launch (geometry), compile (NVRTC, cache)
//! ```
//!
//! What a rank keeps and computes on the host is the CPU device's affair; its memory is pinned here. All ranks share one
//! GPU: several GPUs need a library of collectives.

#![expect(unsafe_code, reason = "the driver is a C library")]

mod collectives;
mod compile;
mod driver;
mod encode;
pub mod error;
mod host_queue;
mod kernels;
mod launch;
mod memory;
mod messages;
mod queue;
mod ranges;
mod standing;
pub mod survey;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use self::collectives::Group as Members;
use self::driver::{Event, Gpu, Pinned, Stream as GpuStream, Timing, copy_now};
use self::encode::{Encoder, kernel_types};
use self::error::CudaError;
use self::host_queue::HostQueue;
use self::kernels::Kernels;
use self::launch::runs::Types as KernelTypes;
use self::memory::Memory;
use self::messages::Inboxes;
use self::queue::CudaQueue;
use self::standing::Standing;
use self::work::Span;
use crate::execute::call::{Space, View};
use crate::execute::comm::{Channel, Hub};
use crate::execute::device::cpu::Cpu;
use crate::execute::device::{Device, Need, Queue, Queues};
use crate::execute::error::ExecuteError;
use crate::execute::storage::Types;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;
use crate::units::Bytes;

/// The memory of ranks that share one GPU.
pub struct Cuda {
    // Dropped from the first to the last: the GPU goes when nothing of it is left.
    kernels: Kernels,
    ranks: Vec<Memory>,
    pinned: Vec<Pinned>,
    host: Cpu,
    types: KernelTypes,
    /// Of a copy between steps.
    failure: Mutex<Option<CudaError>>,
    gpu: Arc<Gpu>,
}

impl Cuda {
    /// The GPU number `ordinal`, for ranks that store numbers as `types` and share `cores` cores of the host.
    ///
    /// # Errors
    /// If there is no such GPU or driver, or no kernels for such numbers.
    pub fn new(ordinal: usize, types: Types, cores: usize) -> Result<Self, ExecuteError> {
        let kernel_types = kernel_types(types)?;
        let gpu = Arc::new(Gpu::open(ordinal)?);
        Ok(Self {
            kernels: Kernels::new(Arc::clone(&gpu)),
            ranks: Vec::new(),
            pinned: Vec::new(),
            host: Cpu::new(types, cores)?,
            types: kernel_types,
            failure: Mutex::default(),
            gpu,
        })
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) {
        // SAFETY: one side is a slice of as many bytes, the other a view of a rank's memory that nobody uses.
        let copied = self.gpu.bind().and_then(|()| unsafe { copy_now(to, from, bytes) });
        self.keep(copied);
    }

    /// Keeps the first failure of what cannot tell of one.
    fn keep(&self, done: Result<(), CudaError>) {
        if let Err(error) = done {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

impl Device for Cuda {
    fn free_memory(&self) -> Bytes {
        self.gpu.free().unwrap_or(Bytes::ZERO)
    }

    fn allocate(&mut self, ranks: Vec<Need>) -> Result<(), ExecuteError> {
        self.gpu.bind()?;
        let on_host = |need: &Need| Need { device: Bytes::ZERO, ..need.clone() };
        self.host.allocate(ranks.iter().map(on_host).collect())?;
        for (rank, need) in ranks.iter().enumerate() {
            let (start, bytes) = self.host.host_memory(rank);
            if bytes > 0 {
                // SAFETY: the CPU device keeps it until it is dropped, which is behind `pinned`.
                self.pinned.push(unsafe { Pinned::new(start, bytes) }?);
            }
            let host = Span { space: Space::Host, address: start as u64, bytes: bytes as u64 };
            self.ranks.push(Memory::new(&self.gpu, need, host)?);
        }
        Ok(())
    }

    unsafe fn upload(&self, rank: usize, view: View, bytes: &[u8]) {
        match view.space {
            // SAFETY: as the caller vouches.
            Space::Host => unsafe { self.host.upload(rank, view, bytes) },
            Space::Device => self.copy(self.ranks[rank].at(view).address, bytes.as_ptr() as u64, bytes.len()),
        }
    }

    unsafe fn download(&self, rank: usize, view: View, bytes: &mut [u8]) {
        match view.space {
            // SAFETY: as the caller vouches.
            Space::Host => unsafe { self.host.download(rank, view, bytes) },
            Space::Device => {
                self.copy(bytes.as_mut_ptr() as u64, self.ranks[rank].at(view).address, bytes.len());
            }
        }
    }

    fn failure(&self) -> Option<ExecuteError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone().map(Into::into)
    }

    fn open<'d>(&'d self) -> Result<Box<dyn Queues + 'd>, ExecuteError> {
        let count = self.ranks.len();
        self.gpu.bind()?;
        Ok(Box::new(CudaQueues {
            cuda: self,
            host: self.host.open()?,
            hub: Hub::new(count),
            standings: (0..count).map(|_| Standing::default()).collect(),
            inboxes: Inboxes::default(),
            start: Event::new(Timing::Kept)?,
            begins: GpuStream::new()?,
        }))
    }
}

struct CudaQueues<'d> {
    cuda: &'d Cuda,
    host: Box<dyn Queues + 'd>,
    hub: Hub,
    standings: Vec<Standing>,
    inboxes: Inboxes,
    /// The begin of a step, on a stream of its own.
    start: Event,
    begins: GpuStream,
}

impl Queues for CudaQueues<'_> {
    fn queue<'q>(
        &'q self,
        rank: usize,
        stream: Stream,
        groups: &[(Group, &[usize])],
    ) -> Result<Box<dyn Queue + 'q>, ExecuteError> {
        let (gpu, standing) = (&self.cuda.gpu, &self.standings[rank]);
        gpu.bind()?;
        if stream == Stream::Host {
            return Ok(Box::new(HostQueue {
                gpu: Arc::clone(gpu),
                memory: &self.cuda.ranks[rank],
                standing,
                cpu: self.host.queue(rank, stream, groups)?,
                known: Waits::default(),
                failure: None,
            }));
        }
        let mut endpoints: [Option<Members>; Group::COUNT] = Default::default();
        for &(group, members) in groups {
            let endpoint = self.hub.endpoint(rank, Channel { group, stream }, members)?;
            endpoints[group as usize] = Some(Members::new(gpu, endpoint)?);
        }
        let memory = &self.cuda.ranks[rank];
        Ok(Box::new(CudaQueue {
            gpu: Arc::clone(gpu),
            kernels: &self.cuda.kernels,
            encoder: Encoder { memory, types: self.cuda.types, multiprocessors: gpu.facts.multiprocessors },
            peers: &self.cuda.ranks,
            rank,
            stream,
            on: GpuStream::new()?,
            standing,
            known: Waits::default(),
            groups: endpoints,
            mailbox: self.hub.mailbox(rank)?,
            inboxes: &self.inboxes,
            found: memory.room(8)?,
            step: 0,
            start: &self.start,
            marks: Vec::new(),
            last_mark: 0,
            prepared: HashMap::new(),
            failure: None,
        }))
    }

    fn restart(&self) {
        self.standings.iter().for_each(Standing::restart);
        let begun = self.cuda.gpu.bind().and_then(|()| self.start.record(&self.begins));
        self.cuda.keep(begun);
    }

    fn guard(
        &self,
        rank: usize,
        work: &mut dyn FnMut() -> Result<(), ExecuteError>,
    ) -> Result<(), ExecuteError> {
        let done = self.hub.guard(rank, work);
        if done.is_err() {
            self.standings[rank].fail();
        }
        done
    }
}

impl From<CudaError> for ExecuteError {
    fn from(error: CudaError) -> Self {
        Self::Cuda(Box::new(error))
    }
}
