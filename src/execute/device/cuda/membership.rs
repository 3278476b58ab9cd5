//! The place of a stream's rank in a group that has collectives.

use super::error::CudaError;
use super::stream::{Event, Timing};
use super::work::Span;
use crate::execute::comm::Endpoint;

/// What a stream needs to take part in the collectives of one of its rank's groups.
pub struct Membership {
    pub endpoint: Endpoint,
    /// Where its stream has come when the members meet.
    pub event: Event,
    /// Where contributions are copied to before they are summed.
    pub stage: Span,
}

impl Membership {
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
