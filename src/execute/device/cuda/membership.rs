//! The place of a stream's rank in a group that has collectives.

use std::sync::Arc;

use super::error::CudaError;
use super::nccl::communicator::Communicator;
use super::stream::{Event, Timing};
use super::work::Span;
use crate::execute::comm::Endpoint;

/// What a stream needs to take part in the collectives of one of its rank's groups.
pub enum Membership {
    /// The members share this GPU.
    Shared(Shared),
    /// Each member has a GPU of its own.
    Joined(Joined),
}

/// The place of a stream's rank in a group whose members share a GPU.
pub struct Shared {
    pub endpoint: Endpoint,
    /// Where its stream has come when the members meet.
    pub event: Event,
    /// Where contributions are copied to before they are summed.
    pub stage: Span,
}

impl Shared {
    /// # Errors
    /// What the driver says.
    pub fn new(endpoint: Endpoint, stage: Span) -> Result<Self, CudaError> {
        Ok(Self { endpoint, event: Event::new(Timing::None)?, stage })
    }

    /// How many members the group has.
    pub fn members(&self) -> usize {
        self.endpoint.members().len()
    }
}

/// The place of a stream's rank in a group whose members have a GPU each.
pub struct Joined {
    pub communicator: Arc<Communicator>,
    /// Where contributions go to before they are summed, and heads on their way.
    pub stage: Span,
}
