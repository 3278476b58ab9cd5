//! Passes that the host cannot issue as fast as the device would run them.

use crate::cost::{Price, Pricing};
use crate::lower::Stream;
use crate::program::Instruction;

/// Stretches the kernels of a pass whose host time is longer than its device time, so that both take the same. A full
/// queue hides a slow launch behind a long kernel, so only the sums count.
pub(super) fn pace(instructions: &[Instruction], prices: &mut [Price], pricing: &dyn Pricing) {
    let is_queued = |instruction: &Instruction| {
        matches!(instruction.stream, Stream::Compute | Stream::Model) && instruction.message.is_none()
    };
    let host: f64 = instructions.iter().map(|instruction| pricing.host_time(&instruction.op).0).sum();
    let queued = instructions.iter().zip(prices.iter()).filter(|(instruction, _)| is_queued(instruction));
    let device: f64 = queued.map(|(_, price)| price.seconds.0).sum();
    if host <= device || device <= 0.0 {
        return;
    }
    let stretch = host / device;
    for (_, price) in instructions.iter().zip(prices).filter(|(instruction, _)| is_queued(instruction)) {
        price.seconds = price.seconds * stretch;
        // The same work in more time takes less of everything meanwhile.
        price.demand = price.demand.map(|demand| demand / stretch);
    }
}
