//! The host's stream of a rank on a GPU: what the CPU device does, behind the events of the GPU's streams.

#![expect(unsafe_code, reason = "it implements a trait whose functions are unsafe to call")]

use std::sync::Arc;
use std::time::Instant;

use super::driver::Gpu;
use super::memory::Memory;
use super::standing::{End, Standing};
use super::stream::Stream as GpuStream;
use crate::execute::call::Call;
use crate::execute::device::{Queue, Tracing};
use crate::execute::error::ExecuteError;
use crate::lower::Stream;
use crate::program::issue_order::Waits;

type Done = Result<(), ExecuteError>;

/// Waits like a stream of the GPU and works like one of the CPU.
pub struct HostQueue<'q> {
    pub gpu: Arc<Gpu>,
    pub memory: &'q Memory,
    pub standing: &'q Standing,
    /// Waits for events and copies. A thread that waits for a stream sleeps; for an event it would spin.
    pub on: GpuStream,
    /// Of the CPU device, which has the rank's host memory and nothing else.
    pub cpu: Box<dyn Queue + 'q>,
    pub known: Waits,
    pub failure: Option<ExecuteError>,
}

impl HostQueue<'_> {
    fn wait_for(&mut self, waits: &Waits) -> Result<bool, ExecuteError> {
        let Some(ends) = self.standing.wait(waits, &self.known) else { return Ok(false) };
        let mut waits_for_gpu = false;
        for end in ends {
            if let End::Event(event) = end {
                self.on.wait(&event)?;
                waits_for_gpu = true;
            }
        }
        if waits_for_gpu {
            self.on.synchronize()?;
        }
        self.known.iter_mut().zip(waits).for_each(|(known, wait)| *known = (*known).max(*wait));
        Ok(true)
    }
}

impl Queue for HostQueue<'_> {
    fn begin(&mut self, step: u64, began: Instant, tracing: Tracing) {
        self.known = Waits::default();
        self.failure = self.gpu.bind().err().map(Into::into);
        self.cpu.begin(step, began, tracing);
    }

    fn wait(&mut self, waits: &Waits) -> bool {
        self.wait_for(waits).unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            true
        })
    }

    unsafe fn submit(&mut self, call: &Call) -> Done {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match call {
            // The numbers of the step that the host's update reads.
            Call::Copy { from, to } if from.space != to.space => {
                let [to, from] = [to, from].map(|view| self.memory.at(*view));
                // SAFETY: as the caller vouches; all that was waited for is over.
                Ok(unsafe { self.on.copy_now(to.address, from.address, from.bytes as usize) }?)
            }
            // SAFETY: as above.
            _ => unsafe { self.cpu.submit(call) },
        }
    }

    fn record(&mut self, mark: usize) {
        self.cpu.record(mark);
    }

    fn advance(&mut self) {
        self.standing.advance(Stream::Host, End::Past);
    }

    fn finish(&mut self) -> Done {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.cpu.finish(),
        }
    }

    fn elapsed(&self, mark: usize) -> Result<f64, ExecuteError> {
        self.cpu.elapsed(mark)
    }
}
