//! The place of a stream's rank in a group that has collectives.

use super::driver::{Block, Event, Gpu, Timing};
use super::error::CudaError;
use super::work::Span;
use crate::execute::comm::Endpoint;

/// Bytes that what is summed is copied to, piece by piece.
pub const STAGE: usize = 4 << 20;

/// What a stream needs to take part in the collectives of one of its rank's groups.
pub struct Membership {
    pub endpoint: Endpoint,
    /// Where its stream has come when the members meet.
    pub event: Event,
    stage: Block,
}

impl Membership {
    /// Takes memory of `gpu` beside the program's.
    ///
    /// # Errors
    /// If there is not so much.
    pub fn new(gpu: &Gpu, endpoint: Endpoint) -> Result<Self, CudaError> {
        Ok(Self { endpoint, event: Event::new(Timing::None)?, stage: Block::zeroed(gpu, STAGE)? })
    }

    /// How many members the group has.
    pub fn members(&self) -> usize {
        self.endpoint.members().len()
    }

    /// Where contributions are copied to before they are summed.
    pub fn stage(&self) -> Span {
        Span::device(self.stage.address, self.stage.bytes as u64)
    }
}
