//! Where a rank's memory lies: its arena on the GPU, its host memory, its lists, constants that kernels read, and room for sums.

#![expect(unsafe_code, reason = "copies are unsafe to make")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::block::Block;
use super::driver::Gpu;
use super::error::CudaError;
use super::stream::Stream as GpuStream;
use super::work::Span;
use crate::execute::call::{List, Lists, Space, View};
use crate::execute::device::Need;
use crate::lower::Stream;
use crate::units::Bytes;

/// Room for what kernels read that no buffer of the program holds, beside the lists: frequencies.
const CONSTANTS: usize = 64 << 10;
/// Bytes of what a look at a tensor finds: a place.
const FOUND: usize = size_of::<u64>();
const ALL_FOUND: usize = FOUND * Stream::ALL.len();
/// Bytes that what is summed is copied to, piece by piece.
pub const STAGE: usize = 4 << 20;
/// Constants start at multiples of it.
const ALIGNMENT: usize = 256;

/// The memory of a rank on a GPU.
#[derive(Debug)]
pub struct Memory {
    arena: Block,
    host: Span,
    /// Scratch of kernels on the compute stream: a buffer of the program.
    workspace: Span,
    /// A place by stream where a look at a tensor leaves its result.
    found: Block,
    constants: Constants,
    stages: Block,
    lists: Lists,
    /// For copies that the host waits for.
    copies: Arc<GpuStream>,
}

/// A block that is filled from its start, each content once.
#[derive(Debug)]
struct Constants {
    block: Block,
    filled: Mutex<(usize, HashMap<Vec<u8>, Span>)>,
}

/// Bytes of the lists of a rank, and room for its constants.
fn constants(need: &Need) -> usize {
    let Lists { positions, all_positions, stream_positions, stream_rows } = &need.lists;
    let lists = [all_positions, stream_positions, stream_rows].into_iter().chain(positions);
    lists.map(|list| (list.len() * 4).next_multiple_of(ALIGNMENT)).sum::<usize>() + CONSTANTS
}

impl Memory {
    /// Bytes of `gpu` that it takes beside the arena, and by rounding the arena up.
    pub fn beside(gpu: &Gpu, need: &Need) -> usize {
        let (arena, stages) = (need.device.0 as usize, need.channels.len() * STAGE);
        let taken = |bytes| Block::shareable_bytes(gpu, bytes);
        constants(need) + ALL_FOUND + taken(stages) + taken(arena) - arena
    }

    /// Its blocks that other GPUs may read and write.
    pub fn registrable(&self) -> Vec<(u64, usize)> {
        [&self.arena, &self.stages].into_iter().filter_map(Block::registrable).collect()
    }

    /// Takes what `need` says from `gpu`; the rank's host memory is `host`.
    ///
    /// # Errors
    /// If the GPU has less.
    pub fn new(gpu: &Gpu, need: &Need, host: Span, copies: Arc<GpuStream>) -> Result<Self, CudaError> {
        let arena = Block::shareable(gpu, need.device.0 as usize)?;
        let block = Block::zeroed(gpu, constants(need))?;
        let workspace = need.workspace.region;
        let workspace = Span::device(arena.address + workspace.offset as u64, workspace.bytes as u64);
        Ok(Self {
            arena,
            host,
            workspace,
            found: Block::zeroed(gpu, ALL_FOUND)?,
            constants: Constants { block, filled: Mutex::default() },
            stages: Block::shareable(gpu, need.channels.len() * STAGE)?,
            lists: need.lists.clone(),
            copies,
        })
    }

    pub const fn at(&self, view: View) -> Span {
        let base = match view.space {
            Space::Device => self.arena.address,
            Space::Host => self.host.address,
        };
        let (offset, bytes) = (view.region.offset as u64, view.region.bytes as u64);
        Span { space: view.space, address: base + offset, bytes }
    }

    pub const fn workspace(&self) -> Span {
        self.workspace
    }

    /// Where a look at a tensor on `stream` leaves its result.
    pub const fn found(&self, stream: Stream) -> Span {
        Span::device(self.found.address + (stream as usize * FOUND) as u64, FOUND as u64)
    }

    /// Where what is summed in a group is copied to: for one stream and group each.
    ///
    /// # Errors
    /// If the rank has fewer.
    pub fn stage(&self, place: usize) -> Result<Span, CudaError> {
        let start = place * STAGE;
        if start + STAGE > self.stages.bytes {
            let (needed, scratch) = (Bytes((start + STAGE) as u64), Bytes(self.stages.bytes as u64));
            return Err(CudaError::Scratch { what: "sums of several ranks", needed, scratch });
        }
        Ok(Span::device(self.stages.address + start as u64, STAGE as u64))
    }

    /// Copies between this rank's memory and anywhere; done when it returns.
    ///
    /// # Safety
    /// As for [`GpuStream::copy_now`].
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn copy_now(&self, to: u64, from: u64, bytes: usize) -> Result<(), CudaError> {
        // SAFETY: as the caller vouches.
        unsafe { self.copies.copy_now(to, from, bytes) }
    }

    pub fn indices(&self, list: List) -> &[u32] {
        self.lists.get(list)
    }

    /// Where the indices of `list` lie.
    ///
    /// # Errors
    /// What the driver says.
    pub fn list(&self, list: List) -> Result<Span, CudaError> {
        let bytes: Vec<u8> = self.indices(list).iter().flat_map(|index| index.to_le_bytes()).collect();
        self.constant(bytes)
    }

    /// Where `bytes` lie, which are copied there if they do not yet.
    ///
    /// # Errors
    /// If there is no room, or what the driver says.
    pub fn constant(&self, bytes: Vec<u8>) -> Result<Span, CudaError> {
        let mut filled = self.constants.filled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(span) = filled.1.get(&bytes) {
            return Ok(*span);
        }
        let span = self.constants.take(&mut filled.0, bytes.len())?;
        // SAFETY: the span is in the block and nobody else's.
        unsafe { self.copy_now(span.address, bytes.as_ptr() as u64, bytes.len()) }?;
        filled.1.insert(bytes, span);
        Ok(span)
    }
}

impl Constants {
    fn take(&self, filled: &mut usize, bytes: usize) -> Result<Span, CudaError> {
        let free = Bytes((self.block.bytes - *filled) as u64);
        let needed = bytes.next_multiple_of(ALIGNMENT);
        if needed as u64 > free.0 {
            let needed = Bytes(needed as u64);
            return Err(CudaError::Scratch {
                what: "what kernels read beside tensors",
                needed,
                scratch: free,
            });
        }
        let span = Span::device(self.block.address + *filled as u64, bytes as u64);
        *filled += needed;
        Ok(span)
    }
}
