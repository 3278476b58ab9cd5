//! The interface by which a caller follows a run.

use std::ops::ControlFlow;

use crate::execute::fleet::StepResult;

/// Follows a run as it trains, and can end it.
pub trait Observer {
    /// All ranks are laid out and filled; the highest rank's peak is in bytes.
    fn ready(&mut self, peak: u64);

    /// Something is odd about what the run starts from, or about the machine.
    fn remark(&mut self, what: &str);

    /// Whether it is asked to end the run after this step.
    fn is_asked_to_end(&self) -> bool {
        false
    }

    /// A step is done. Breaking off ends the run in good order.
    fn step(&mut self, result: &StepResult) -> ControlFlow<()>;
}
