//! NVIDIA GPUs as a device: ranks are arenas of one GPU's memory, queues are its streams, calls are kernels of ours.
//!
//! ```text
//! call ─► encode ─► work (kernel, product, copy, fill) ─► queue ─► driver
//!                           │        │
//!                           │   cublas_lt
//!                   launch (geometry), compile (NVRTC, cache)
//! ```
//!
//! What a rank keeps and computes on the host is the CPU device's affair; its memory is pinned here. Ranks share one GPU, or
//! each has its own, joined by NCCL to those of this process and of others.

#![expect(unsafe_code, reason = "the driver is a C library")]

mod block;
mod board;
mod collectives;
mod compile;
mod cublas_lt;
mod driver;
mod encode;
pub mod error;
mod finite;
mod graph;
mod host_queue;
mod inboxes;
pub mod joined;
mod kernels;
mod launch;
mod mapped;
pub mod measure;
mod membership;
mod memory;
mod messages;
mod nccl;
mod near;
mod prepared;
mod queue;
mod ranges;
mod span;
mod standing;
mod stream;
pub mod survey;
mod work;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::block::Pinned;
use self::board::Board;
use self::cublas_lt::Products;
use self::driver::Gpu;
use self::encode::{Encoder, kernel_types};
use self::error::CudaError;
use self::graph::step::StepGraph;
use self::host_queue::HostQueue;
use self::inboxes::Inboxes;
use self::kernels::Kernels;
use self::launch::runs::Types as KernelTypes;
use self::membership::{Joined, Membership, Shared};
use self::memory::Memory;
use self::nccl::links::Links;
use self::near::Near;
use self::queue::{CudaQueue, Reach};
use self::standing::Standing;
use self::stream::{Event, Stream as GpuStream, Timing};
use self::work::Span;
use crate::execute::call::{Space, View};
use crate::execute::comm::{Alarm, Channel, Hub, Peers};
use crate::execute::device::cpu::Cpu;
use crate::execute::device::{Device, FreeMemory, Need, Queue, Queues, Submission, Tracing, WholeStep};
use crate::execute::error::ExecuteError;
use crate::execute::limits;
use crate::execute::storage::Types;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;
use crate::trace;
use crate::units::Bytes;

/// That `ranks` ranks do not find a GPU each, or why no GPU is there at all.
pub fn few_devices(ranks: u64) -> ExecuteError {
    let found = match driver::count() {
        Err(error) => return error.into(),
        Ok(0) => return CudaError::NoDevice.into(),
        Ok(1) => "this machine has one".to_owned(),
        Ok(count) => format!("this machine has {count}"),
    };
    CudaError::FewDevices { ranks, found }.into()
}

/// The memory of ranks that share one GPU.
pub struct Cuda {
    // Dropped from the first to the last: the GPU goes when nothing of it is left, and memory when no link knows it.
    /// Of its one rank, where each rank has a GPU of its own.
    links: Option<Arc<Links>>,
    kernels: Kernels,
    products: Products,
    ranks: Vec<Memory>,
    pinned: Vec<Pinned>,
    host: Cpu,
    near: Near,
    types: KernelTypes,
    peers: Peers,
    /// By place, the ranks' numbers in the run.
    numbers: Vec<usize>,
    /// Rings when another rank has failed.
    alarm: Alarm,
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
        let near = Near::of(&gpu.address()?, cores);
        Ok(Self {
            kernels: Kernels::new(Arc::clone(&gpu)),
            products: Products::new(&gpu),
            ranks: Vec::new(),
            pinned: Vec::new(),
            host: near.during(|| Cpu::new(types, cores))?,
            near,
            types: kernel_types,
            peers: Peers::Present,
            numbers: Vec::new(),
            links: None,
            alarm: Alarm::default(),
            failure: Mutex::default(),
            gpu,
        })
    }

    /// # Safety
    /// As for [`Memory::copy_now`].
    unsafe fn copy(&self, rank: usize, to: u64, from: u64, bytes: usize) {
        // SAFETY: as the caller vouches.
        let copied = self.gpu.bind().and_then(|()| unsafe { self.ranks[rank].copy_now(to, from, bytes) });
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
    fn free_memory(&self) -> FreeMemory {
        FreeMemory::Apart { device: self.gpu.free().unwrap_or(Bytes::ZERO), host: limits::free_memory() }
    }

    fn taken_memory(&self) -> Result<Option<Bytes>, ExecuteError> {
        Ok(Some(self.gpu.facts.total.saturating_sub(self.gpu.free()?)))
    }

    fn beside(&self, needs: &[Need]) -> Bytes {
        Bytes(needs.iter().map(|need| Memory::beside(&self.gpu, need) as u64).sum())
    }

    fn submission(&self) -> Submission {
        Submission::ThreadPerRank
    }

    fn gpu(&self) -> Option<&str> {
        Some(&self.gpu.facts.name)
    }

    fn products(&self) -> Option<trace::Products> {
        Some(self.products.record())
    }

    fn allocate(&mut self, ranks: Vec<Need>) -> Result<(), ExecuteError> {
        self.gpu.bind()?;
        // Cores do nothing with other ranks where each has a GPU.
        let peers = |need: &Need| if self.links.is_some() { Peers::Absent } else { need.peers };
        let on_host = |need: &Need| Need { device: Bytes::ZERO, peers: peers(need), ..need.clone() };
        let needs = ranks.iter().map(on_host).collect();
        self.near.during(|| self.host.allocate(needs))?;
        let copies = Arc::new(GpuStream::new()?);
        self.peers = ranks.first().map_or(Peers::Present, |need| need.peers);
        self.numbers = ranks.iter().map(|need| need.rank).collect();
        for (rank, need) in ranks.iter().enumerate() {
            let (start, bytes) = self.host.host_memory(rank);
            if bytes > 0 {
                // SAFETY: the CPU device keeps it until it is dropped, which is behind `pinned`.
                let pin = || unsafe { Pinned::new(start, bytes) };
                // Its pages come to be where they are first pinned.
                self.pinned.push(self.near.during(pin)?);
            }
            let host = Span { space: Space::Host, address: start as u64, bytes: bytes as u64 };
            self.ranks.push(Memory::new(&self.gpu, need, host, Arc::clone(&copies))?);
        }
        Ok(())
    }

    unsafe fn upload(&self, rank: usize, view: View, bytes: &[u8]) {
        let at = self.ranks[rank].at(view).address;
        // SAFETY: as the caller vouches.
        unsafe {
            match view.space {
                Space::Host => self.host.upload(rank, view, bytes),
                Space::Device => self.copy(rank, at, bytes.as_ptr() as u64, bytes.len()),
            }
        }
    }

    unsafe fn download(&self, rank: usize, view: View, bytes: &mut [u8]) {
        let at = self.ranks[rank].at(view).address;
        // SAFETY: as the caller vouches.
        unsafe {
            match view.space {
                Space::Host => self.host.download(rank, view, bytes),
                Space::Device => self.copy(rank, bytes.as_mut_ptr() as u64, at, bytes.len()),
            }
        }
    }

    fn failure(&self) -> Option<ExecuteError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone().map(Into::into)
    }

    fn open<'d>(&'d self) -> Result<Box<dyn Queues + 'd>, ExecuteError> {
        let count = self.ranks.len();
        self.gpu.bind()?;
        let standings: Vec<_> = (0..count).map(|_| Arc::new(Standing::new(self.alarm.clone()))).collect();
        let whole = match standings.as_slice() {
            [alone] => Some(StepGraph::new(&self.gpu, self.links.as_ref(), alone)?),
            _ => None,
        };
        Ok(Box::new(CudaQueues {
            cuda: self,
            host: self.host.open()?,
            hub: match self.peers {
                Peers::Present => Hub::new(count),
                Peers::Absent => Hub::alone(),
            },
            stages: (0..count).map(|_| AtomicUsize::new(0)).collect(),
            standings,
            whole,
            inboxes: Inboxes::default(),
            board: Board::new()?,
            start: Event::new(Timing::Kept)?,
            begins: GpuStream::new()?,
        }))
    }
}

struct CudaQueues<'d> {
    cuda: &'d Cuda,
    host: Box<dyn Queues + 'd>,
    hub: Hub,
    /// By rank, how many of its stages have a user.
    stages: Vec<AtomicUsize>,
    standings: Vec<Arc<Standing>>,
    /// Of a rank that is alone on the GPU: ranks that share it meet on the host.
    whole: Option<StepGraph>,
    inboxes: Inboxes,
    board: Board,
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
        let (gpu, standing, number) = (&self.cuda.gpu, &self.standings[rank], self.cuda.numbers[rank]);
        gpu.bind()?;
        if stream == Stream::Host {
            return Ok(Box::new(HostQueue {
                gpu: Arc::clone(gpu),
                memory: &self.cuda.ranks[rank],
                standing,
                on: GpuStream::new()?,
                cpu: self.host.queue(rank, stream, groups)?,
                known: Waits::default(),
                failure: None,
            }));
        }
        let memory = &self.cuda.ranks[rank];
        let mut memberships: [Option<Membership>; Group::COUNT] = Default::default();
        for &(group, members) in groups {
            let stage = memory.stage(self.stages[rank].fetch_add(1, Ordering::Relaxed))?;
            memberships[group as usize] = Some(match &self.cuda.links {
                None => {
                    let endpoint = self.hub.endpoint(number, Channel { group, stream }, members)?;
                    Membership::Shared(Shared::new(endpoint, stage)?)
                }
                Some(links) => {
                    Membership::Joined(Joined { communicator: links.group(group, members)?, stage })
                }
            });
        }
        let is_for_others = matches!(stream, Stream::Model | Stream::Data | Stream::Send | Stream::Receive);
        let (reach, on) = match &self.cuda.links {
            None => {
                let (mailbox, memories) = (self.hub.mailbox(number)?, self.cuda.ranks.as_slice());
                (Reach::Shared { mailbox, memories }, GpuStream::new()?)
            }
            Some(links) if is_for_others => (Reach::Joined(Arc::clone(links)), GpuStream::urgent()?),
            Some(links) => (Reach::Joined(Arc::clone(links)), GpuStream::new()?),
        };
        Ok(Box::new(CudaQueue {
            gpu: Arc::clone(gpu),
            kernels: &self.cuda.kernels,
            encoder: Encoder {
                memory,
                types: self.cuda.types,
                products: &self.cuda.products,
                multiprocessors: gpu.facts.multiprocessors,
            },
            rank: number,
            stream,
            on,
            cores: self.host.queue(rank, stream, &[])?,
            standing,
            whole: self.whole.as_ref(),
            known: Waits::default(),
            groups: memberships,
            reach,
            inboxes: &self.inboxes,
            step: 0,
            pass: 0,
            start: &self.start,
            marks: Vec::new(),
            ends: Vec::new(),
            last_mark: 0,
            prepared: HashMap::new(),
            awaited: Box::default(),
            tracing: Tracing::On,
            board: &self.board,
            place: None,
            pending: Vec::new(),
            graphs: HashMap::new(),
            failure: None,
        }))
    }

    fn whole_step(&self, _rank: usize) -> Option<&dyn WholeStep> {
        self.whole.as_ref().map(|whole| whole as _)
    }

    fn restart(&self) {
        self.standings.iter().for_each(|standing| standing.restart());
        let begin = || {
            self.cuda.gpu.bind()?;
            self.start.record(&self.begins)?;
            // Times are asked for from here, by streams that do not wait for this one.
            self.begins.synchronize()
        };
        self.cuda.keep(begin());
    }

    fn guard(
        &self,
        rank: usize,
        work: &mut dyn FnMut() -> Result<(), ExecuteError>,
    ) -> Result<(), ExecuteError> {
        let explained = || work().map_err(|error| self.board.explain(error));
        let done = self.hub.guard(self.cuda.numbers[rank], explained);
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
