//! The place of a stream's rank in a group that has collectives.

use super::driver::{Block, Event, Gpu, Timing};
use super::error::CudaError;
use super::work::Span;
use crate::execute::comm::Endpoint;

/// Bytes that what is summed is copied to, piece by piece.
pub const STAGE: usize = 4 << 20;

/// One group of a stream's rank.
pub struct Group {
    pub endpoint: Endpoint,
    /// Where its stream has come when the members meet.
    pub event: Event,
    stage: Block,
}

impl Group {
    /// Takes memory of `gpu` beside the program's.
    ///
    /// # Errors
    /// If there is not so much.
    pub fn new(gpu: &Gpu, endpoint: Endpoint) -> Result<Self, CudaError> {
        Ok(Self { endpoint, event: Event::new(Timing::None)?, stage: Block::zeroed(gpu, STAGE)? })
    }

    /// How many there are.
    pub fn members(&self) -> usize {
        self.endpoint.members().len()
    }

    /// Where contributions are copied to before they are summed.
    pub fn stage(&self) -> Span {
        Span::device(self.stage.address, self.stage.bytes as u64)
    }
}
