//! What no program shows of a GPU: launches and copies by themselves, and the memory that a process has of it.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys;

use super::block::{Block, Pinned};
use super::driver::{self, Gpu};
use super::error::{CudaError, Doing};
use super::kernels::Kernels;
use super::launch::elementwise;
use super::launch::runs::Types;
use super::stream::{Event, Stream, Timing};
use super::work::{Kernel, Span};
use crate::execute::error::ExecuteError;
use crate::execute::kernels::dropout::mix;
use crate::units::Bytes;

/// Launches in a row.
const LAUNCHES: usize = 128;
/// Elements of each: a block's worth, so that hardly anything is done.
const ELEMENTS: u64 = 64;
/// How often each is measured; the median counts.
const TURNS: usize = 5;
/// Bytes of a fill that keeps the GPU busy while launches are queued, or an eighth of what is free if that is less, and how
/// many fills at most. An H200 fills so many bytes in 60 us or so (an estimate from its bandwidth), longer than it takes to
/// submit a fill.
const FILL: usize = 256 << 20;
const MOST_FILLS: usize = 400;
/// A copy that takes longer is the largest that is measured.
const LONG_COPY: f64 = 0.05;

/// A GPU by itself.
#[derive(Debug)]
pub struct Bench {
    // Dropped from the first to the last: the GPU goes when nothing of it is left.
    kernels: Kernels,
    stream: Stream,
    gpu: Arc<Gpu>,
    /// What was free when nothing was taken yet but what a process has of a GPU at all.
    pub free_at_first: Bytes,
}

/// What a GPU says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub name: String,
    pub memory: Bytes,
    pub multiprocessors: u32,
    /// The newest CUDA that its driver knows.
    pub driver: String,
}

/// Seconds of a launch of a kernel that does hardly anything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// On a full queue, from the end of one to the end of the next.
    pub on_gpu: f64,
    /// Of the host's thread.
    pub on_host: f64,
}

/// Where the host's side of a copy lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMemory {
    Pinned,
    Pageable,
}

/// Median seconds of a copy each way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copied {
    pub memory: HostMemory,
    pub bytes: Bytes,
    pub to_gpu: f64,
    pub to_host: f64,
}

impl Bench {
    /// The first GPU of this machine.
    ///
    /// # Errors
    /// If there is none that the kernels run on.
    pub fn open() -> Result<Self, ExecuteError> {
        let gpu = Arc::new(Gpu::open(0)?);
        let free_at_first = gpu.free()?;
        Ok(Self { kernels: Kernels::new(Arc::clone(&gpu)), stream: Stream::new()?, gpu, free_at_first })
    }

    pub fn card(&self) -> Card {
        let facts = &self.gpu.facts;
        Card {
            name: facts.name.clone(),
            memory: facts.total,
            multiprocessors: facts.multiprocessors,
            driver: driver::version().map_or_else(|| "unknown".to_owned(), driver::written),
        }
    }

    /// Measures launches.
    ///
    /// # Errors
    /// What the driver says, or that the kernel cannot be compiled.
    pub fn launch(&self) -> Result<Launch, ExecuteError> {
        self.gpu.bind()?;
        let [from, to] = [0, 1].map(|_| Block::zeroed(&self.gpu, 4 * ELEMENTS as usize));
        let room = self.gpu.free()?.0 as usize / 8;
        let (from, to, fill) = (from?, to?, Block::zeroed(&self.gpu, FILL.min(room))?);
        let span = |block: &Block| Span::device(block.address, block.bytes as u64);
        let kernel = Kernel::new((elementwise::source(Types::F32), elementwise::add(ELEMENTS)))
            .reads(span(&from))
            .updates(span(&to))
            .number(ELEMENTS);
        let function = self.kernels.function(&kernel)?;
        let launches = || -> Result<f64, CudaError> {
            let began = Instant::now();
            for _ in 0..LAUNCHES {
                // SAFETY: its blocks live until the stream is waited for, and only this stream uses them.
                unsafe { function.launch(&kernel, self.stream.handle) }?;
            }
            Ok(began.elapsed().as_secs_f64())
        };
        let fills = |count: usize| -> Result<(), CudaError> {
            for _ in 0..count {
                // SAFETY: as above.
                unsafe { sys::cuMemsetD8Async(fill.address, 0, fill.bytes, self.stream.handle) }
                    .result()
                    .doing("a fill")?;
            }
            Ok(())
        };
        // Loads the kernel.
        launches()?;
        self.stream.synchronize()?;
        let [start, end] = [0, 1].map(|_| Event::new(Timing::Kept));
        let (start, end) = (start?, end?);
        let (mut on_gpu, mut on_host, mut busy) = (Vec::new(), Vec::new(), 1);
        while on_gpu.len() < TURNS {
            fills(busy)?;
            start.record(&self.stream)?;
            let host = launches()?;
            // Where the first of the launches has begun before the last was submitted, the GPU may have waited for the host.
            let was_full = !start.is_past()?;
            end.record(&self.stream)?;
            self.stream.synchronize()?;
            if was_full || busy == MOST_FILLS {
                on_gpu.push(end.seconds_since(&start)?);
                on_host.push(host);
            } else {
                busy = (2 * busy).min(MOST_FILLS);
            }
        }
        let each = |times: Vec<f64>| median(times) / LAUNCHES as f64;
        Ok(Launch { on_gpu: each(on_gpu), on_host: each(on_host) })
    }

    /// Measures copies of `sizes`, ascending, between the GPU and `memory`; none behind one that takes long, or of more than
    /// a quarter of what is free.
    ///
    /// # Errors
    /// What the driver says.
    pub fn copies(&self, memory: HostMemory, sizes: &[Bytes]) -> Result<Vec<Copied>, ExecuteError> {
        self.gpu.bind()?;
        let room = self.gpu.free()?.0 / 4;
        let sizes: Vec<Bytes> = sizes.iter().copied().filter(|bytes| bytes.0 <= room).collect();
        let most = sizes.last().map_or(0, |bytes| bytes.0 as usize);
        let block = Block::zeroed(&self.gpu, most)?;
        let mut host: Vec<u64> = (0..most.div_ceil(8) as u64).map(mix).collect();
        let host_bytes = host.len() * size_of::<u64>();
        // SAFETY: the vector is neither moved nor freed before what pins it, which is declared behind it.
        let _pinned = match memory {
            HostMemory::Pinned => Some(unsafe { Pinned::new(host.as_mut_ptr().cast(), host_bytes) }?),
            HostMemory::Pageable => None,
        };
        let host = host.as_mut_ptr() as u64;
        let mut found = Vec::new();
        for bytes in sizes {
            let copy = |to: u64, from: u64| {
                let times: Result<Vec<f64>, _> = (0..TURNS)
                    .map(|_| {
                        self.timed(|| {
                            // SAFETY: both sides hold so many bytes, and are used by this stream alone, which is waited for.
                            unsafe { sys::cuMemcpyAsync(to, from, bytes.0 as usize, self.stream.handle) }
                                .result()
                                .doing("a copy")
                        })
                    })
                    .collect();
                times.map(median)
            };
            let (to_gpu, to_host) = (copy(block.address, host)?, copy(host, block.address)?);
            found.push(Copied { memory, bytes, to_gpu, to_host });
            if to_gpu.max(to_host) > LONG_COPY {
                break;
            }
        }
        Ok(found)
    }

    /// Seconds on the GPU of what `work` submits to the stream, which is waited for.
    fn timed(&self, work: impl FnOnce() -> Result<(), CudaError>) -> Result<f64, CudaError> {
        let [start, end] = [0, 1].map(|_| Event::new(Timing::Kept));
        let (start, end) = (start?, end?);
        start.record(&self.stream)?;
        work()?;
        end.record(&self.stream)?;
        self.stream.synchronize()?;
        end.seconds_since(&start)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
