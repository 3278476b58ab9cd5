//! A device without memory that computes nothing: it checks that calls stay inside the memory that ranks would take.

#![expect(unsafe_code, reason = "it implements traits whose functions are unsafe to call")]

use std::time::Instant;

use crate::execute::call::{Call, Space, View};
use crate::execute::device::{Device, FreeMemory, Need, Queue, Queues, Tracing};
use crate::execute::error::ExecuteError;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;
use crate::units::Bytes;

/// Sizes of what ranks would take.
pub struct Null {
    /// The number of the first rank, for errors.
    first: usize,
    ranks: Vec<Need>,
}

impl Null {
    /// For ranks of a run from number `first` on.
    pub const fn new(first: usize) -> Self {
        Self { first, ranks: Vec::new() }
    }
}

impl Device for Null {
    fn free_memory(&self) -> FreeMemory {
        FreeMemory::Shared(Bytes(u64::MAX))
    }

    fn allocate(&mut self, ranks: Vec<Need>) -> Result<(), ExecuteError> {
        self.ranks = ranks;
        Ok(())
    }

    unsafe fn upload(&self, _rank: usize, _view: View, _bytes: &[u8]) {}

    unsafe fn download(&self, _rank: usize, _view: View, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn open<'d>(&'d self) -> Result<Box<dyn Queues + 'd>, ExecuteError> {
        Ok(Box::new(self))
    }
}

impl Queues for &Null {
    fn queue<'q>(
        &'q self,
        rank: usize,
        _stream: Stream,
        _groups: &[(Group, &[usize])],
    ) -> Result<Box<dyn Queue + 'q>, ExecuteError> {
        Ok(Box::new(NullQueue { null: self, rank }))
    }

    fn restart(&self) {}

    fn guard(
        &self,
        _rank: usize,
        work: &mut dyn FnMut() -> Result<(), ExecuteError>,
    ) -> Result<(), ExecuteError> {
        work()
    }
}

struct NullQueue<'n> {
    null: &'n Null,
    rank: usize,
}

impl Queue for NullQueue<'_> {
    fn begin(&mut self, _step: u64, _began: Instant, _tracing: Tracing) {}

    fn wait(&mut self, _waits: &Waits) -> bool {
        true
    }

    unsafe fn submit(&mut self, call: &Call) -> Result<(), ExecuteError> {
        let need = &self.null.ranks[self.rank];
        let outside = call.views().find(|view| {
            let end = view.region.offset + view.region.bytes;
            let room = match view.space {
                Space::Device => need.device,
                Space::Host => need.host,
            };
            end as u64 > room.0
        });
        let Some(view) = outside else { return Ok(()) };
        let message = format!("{view:?} of a call lies outside of its memory; this is a bug of meshwright");
        Err(ExecuteError::Rank { rank: self.null.first + self.rank, message })
    }

    fn record(&mut self, _mark: usize) {}

    fn advance(&mut self) {}

    fn finish(&mut self) -> Result<(), ExecuteError> {
        Ok(())
    }

    fn elapsed(&self, _mark: usize) -> Result<f64, ExecuteError> {
        Ok(0.0)
    }
}
