//! Passes that the host cannot issue as fast as the device would run them.

use crate::cost::{Price, Pricing};
use crate::lower::Stream;
use crate::ops::Op;
use crate::program::Instruction;

/// What a pass takes its host to issue, and its device from the first kernel to the last if none comes late, in seconds.
/// A full queue hides a slow launch behind a long kernel, so only the sums count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Issue {
    pub host: f64,
    pub device: f64,
}

impl Issue {
    /// That of `instructions`, which take `prices`.
    pub fn of(instructions: &[Instruction], prices: &[Price], pricing: &dyn Pricing) -> Self {
        let host = instructions.iter().map(|instruction| pricing.host_time(&instruction.op).0).sum();
        Self { host, device: last_kernel(instructions, prices) }
    }

    /// Seconds of the device's wait for kernels that are not issued yet.
    pub fn waiting(self) -> f64 {
        if self.device > 0.0 { (self.host - self.device).max(0.0) } else { 0.0 }
    }
}

/// When the last kernel ends if nothing competes, and nothing else is waited for.
fn last_kernel(instructions: &[Instruction], prices: &[Price]) -> f64 {
    let mut streams = [0.0_f64; Stream::ALL.len()];
    let mut ends: Vec<f64> = Vec::with_capacity(instructions.len());
    for (instruction, price) in instructions.iter().zip(prices) {
        let waited = instruction.waits.iter().map(|&wait| ends[wait as usize]).fold(0.0, f64::max);
        ends.push(if is_queued(instruction) {
            let clock = &mut streams[instruction.stream as usize];
            *clock = clock.max(waited) + price.seconds.0;
            *clock
        } else {
            waited
        });
    }
    streams[Stream::Compute as usize]
}

/// Stretches the kernels of a pass whose host takes longer than its device, so that both take the same. How many of
/// them run at once makes no difference to the host, so what is hidden saves it nothing.
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
