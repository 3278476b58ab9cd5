//! Passes that the host cannot issue as fast as the device would run them.

use crate::cost::{Price, Pricing};
use crate::lower::Stream;
use crate::ops::Op;
use crate::program::Instruction;

/// What a pass takes its host to issue and its device to run, in seconds. A full queue hides a slow launch behind a
/// long kernel, so only the sums count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Issue {
    pub host: f64,
    pub device: f64,
}

impl Issue {
    /// That of `instructions`, which take `prices`.
    pub fn of(instructions: &[Instruction], prices: &[Price], pricing: &dyn Pricing) -> Self {
        let host = instructions.iter().map(|instruction| pricing.host_time(&instruction.op).0).sum();
        let queued = instructions.iter().zip(prices).filter(|(instruction, _)| is_queued(instruction));
        Self { host, device: queued.map(|(_, price)| price.seconds.0).sum() }
    }

    /// Seconds of the device's wait for kernels that are not issued yet.
    pub fn waiting(self) -> f64 {
        if self.device > 0.0 { (self.host - self.device).max(0.0) } else { 0.0 }
    }
}

/// Stretches the kernels of a pass whose host time is longer than its device time, so that both take the same.
pub(super) fn pace(instructions: &[Instruction], prices: &mut [Price], pricing: &dyn Pricing) {
    let issue = Issue::of(instructions, prices, pricing);
    if issue.waiting() <= 0.0 {
        return;
    }
    let stretch = issue.host / issue.device;
    for (_, price) in instructions.iter().zip(prices).filter(|(instruction, _)| is_queued(instruction)) {
        price.seconds = price.seconds * stretch;
        // The same work in more time takes less of everything meanwhile.
        price.demand = price.demand.map(|demand| demand / stretch);
    }
}

fn is_queued(instruction: &Instruction) -> bool {
    // Copies and host work that do not overlap stand on the computing stream too.
    let is_kernel = match instruction.op {
        Op::CopyIn(_) | Op::CopyOut(_) => false,
        Op::AdamW(update) => !update.on_host,
        _ => instruction.message.is_none(),
    };
    matches!(instruction.stream, Stream::Compute | Stream::Model) && is_kernel
}
