//! Memory of hosts between ranks that are processes with a GPU each, by way of the GPUs: for what is rare, such as a save.

#![expect(unsafe_code, reason = "bytes go from and to memory that callers name")]

use std::sync::{Arc, Mutex, PoisonError};

use super::super::block::Block;
use super::super::driver::Gpu;
use super::super::stream::Stream as GpuStream;
use super::super::work::Span;
use super::links::Links;
use crate::execute::comm::{Carrier, Channel, CommError, Received, Sent, Wire};
use crate::execute::error::ExecuteError;

/// Bytes that go at a time.
const PIECE: usize = 4 << 20;

/// What carries memory of hosts over the link of all ranks.
pub struct NcclCarrier {
    links: Arc<Links>,
    gpu: Arc<Gpu>,
}

impl NcclCarrier {
    pub const fn new(links: Arc<Links>, gpu: Arc<Gpu>) -> Self {
        Self { links, gpu }
    }
}

impl Carrier for NcclCarrier {
    fn wire(&self, _channel: Channel, members: &[usize]) -> Result<Box<dyn Wire>, CommError> {
        let made = || -> Result<_, ExecuteError> {
            self.gpu.bind()?;
            Ok((Block::zeroed(&self.gpu, PIECE)?, GpuStream::new()?))
        };
        let (room, stream) = made().map_err(|error| failure(&error))?;
        let (links, gpu) = (Arc::clone(&self.links), Arc::clone(&self.gpu));
        Ok(Box::new(NcclWire { links, gpu, members: members.into(), room, stream: Mutex::new(stream) }))
    }
}

struct NcclWire {
    links: Arc<Links>,
    gpu: Arc<Gpu>,
    members: Box<[usize]>,
    room: Block,
    stream: Mutex<GpuStream>,
}

/// A transfer of this rank, and the ranks at both ends.
struct Transfer {
    from: usize,
    to: usize,
    address: u64,
    bytes: usize,
    is_sent: bool,
}

fn failure(error: &ExecuteError) -> CommError {
    match error {
        ExecuteError::Communication(error) => error.clone(),
        other => CommError::Network { what: "NCCL".to_owned(), reason: other.to_string() },
    }
}

impl NcclWire {
    /// Moves all of `transfer`, piece by piece.
    ///
    /// # Safety
    /// As for [`Wire::exchange`].
    unsafe fn perform(&self, transfer: &Transfer) -> Result<(), ExecuteError> {
        let Some(all) = self.links.all() else { return Ok(()) };
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        for start in (0..transfer.bytes).step_by(PIECE) {
            let bytes = PIECE.min(transfer.bytes - start);
            let (room, host) =
                (Span::device(self.room.address, bytes as u64), transfer.address + start as u64);
            if transfer.is_sent {
                // SAFETY: the piece is inside what the caller names, and the room is this wire's.
                unsafe { stream.copy_now(room.address, host, bytes) }?;
                all.send(&stream, transfer.to, room)?;
                self.links.wait(&stream)?;
            } else {
                all.receive(&stream, transfer.from, room)?;
                self.links.wait(&stream)?;
                // SAFETY: as above.
                unsafe { stream.copy_now(host, room.address, bytes) }?;
            }
        }
        Ok(())
    }
}

impl Wire for NcclWire {
    /// One transfer after another, in an order that all ranks have.
    unsafe fn exchange(&mut self, sent: &[Sent], received: &[Received]) -> Result<(), CommError> {
        let own = self.links.all().map_or(0, |all| all.member);
        let out = sent.iter().map(|sent| Transfer {
            from: own,
            to: self.members[sent.member],
            address: sent.from as u64,
            bytes: sent.bytes,
            is_sent: true,
        });
        let into = received.iter().map(|received| Transfer {
            from: self.members[received.member],
            to: own,
            address: received.to as u64,
            bytes: received.bytes,
            is_sent: false,
        });
        let mut transfers: Vec<Transfer> = out.chain(into).collect();
        transfers.sort_by_key(|transfer| (transfer.from, transfer.to));
        self.gpu.bind().map_err(|error| failure(&error.into()))?;
        // SAFETY: as the caller vouches.
        transfers
            .iter()
            .try_for_each(|transfer| unsafe { self.perform(transfer) })
            .map_err(|error| failure(&error))
    }
}
