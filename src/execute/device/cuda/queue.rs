//! A stream of a rank on a GPU: each call becomes work once, and the same work is submitted in every step.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys;

use super::driver::{Event, Gpu, Stream as GpuStream, Timing};
use super::encode::Encoder;
use super::error::{CudaError, Doing};
use super::inboxes::Inboxes;
use super::kernels::{Function, Kernels};
use super::membership::Membership;
use super::memory::Memory;
use super::ranges;
use super::standing::{End, Standing};
use super::work::{Access, Work};
use crate::execute::call::Call;
use crate::execute::comm::Mailbox;
use crate::execute::device::Queue;
use crate::execute::error::ExecuteError;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;

pub type Done = Result<(), ExecuteError>;

/// A stream of a rank.
pub struct CudaQueue<'r> {
    pub gpu: Arc<Gpu>,
    pub kernels: &'r Kernels,
    pub encoder: Encoder<'r>,
    /// By rank, memory that messages are put into.
    pub peers: &'r [Memory],
    pub rank: usize,
    pub stream: Stream,
    pub on: GpuStream,
    pub standing: &'r Standing,
    pub known: Waits,
    /// By group, where the stream has collectives in it.
    pub groups: [Option<Membership>; Group::COUNT],
    pub mailbox: Mailbox,
    pub inboxes: &'r Inboxes,
    pub step: u64,
    /// The begin of the step on the GPU.
    pub start: &'r Event,
    pub marks: Vec<Arc<Event>>,
    pub last_mark: usize,
    /// By address of a call, which stays where it is while queues are open.
    pub prepared: HashMap<*const Call, Box<[Prepared]>>,
    pub failure: Option<CudaError>,
}

// SAFETY: the addresses of calls are only keys.
unsafe impl Send for CudaQueue<'_> {}

/// Work with the function of its kernel, if it is one.
#[derive(Debug)]
pub struct Prepared {
    work: Work,
    function: Option<Function>,
}

impl CudaQueue<'_> {
    fn prepare(&self, work: Work) -> Result<Prepared, CudaError> {
        let function = match &work {
            Work::Kernel(kernel) => Some(self.kernels.function(kernel)?),
            Work::Copy { .. } | Work::Fill { .. } => None,
        };
        Ok(Prepared { work, function })
    }

    /// Does `work` behind all that was submitted before.
    fn put(&self, Prepared { work, function }: &Prepared) -> Result<(), CudaError> {
        let stream = self.on.handle;
        match work {
            Work::Copy { from, to } => {
                debug_assert_eq!(from.bytes, to.bytes, "a copy's sides");
                ranges::tell(stream, &[(*from, Access::Read), (*to, Access::Write)]);
                // SAFETY: both lie in memory of ranks, and the program keeps their users apart.
                unsafe { sys::cuMemcpyAsync(to.address, from.address, to.bytes as usize, stream) }
                    .result()
                    .doing("a copy")
            }
            Work::Fill { to, value } => {
                ranges::tell(stream, &[(*to, Access::Write)]);
                // SAFETY: as above.
                unsafe { sys::cuMemsetD8Async(to.address, *value, to.bytes as usize, stream) }
                    .result()
                    .doing("a fill")
            }
            Work::Kernel(kernel) => {
                let Some(function) = function else {
                    unreachable!("kernels are prepared with theirs")
                };
                // SAFETY: as above.
                unsafe { function.launch(kernel, stream) }
            }
        }
    }

    fn perform(&mut self, call: &Call) -> Result<(), CudaError> {
        let key = std::ptr::from_ref(call);
        if !self.prepared.contains_key(&key) {
            let works = self.encoder.encode(call)?;
            let works: Result<Box<[Prepared]>, _> =
                works.into_iter().map(|work| self.prepare(work)).collect();
            self.prepared.insert(key, works?);
        }
        self.prepared[&key].iter().try_for_each(|work| self.put(work))
    }

    /// Does `work`, which no call is.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn perform_now(&self, work: Work) -> Result<(), CudaError> {
        self.put(&self.prepare(work)?)
    }

    fn wait_for(&mut self, waits: &Waits) -> Result<bool, CudaError> {
        let Some(ends) = self.standing.wait(waits, &self.known) else { return Ok(false) };
        for end in ends {
            if let End::Event(event) = end {
                self.on.wait(&event)?;
            }
        }
        self.known.iter_mut().zip(waits).for_each(|(known, wait)| *known = (*known).max(*wait));
        Ok(true)
    }

    fn mark(&mut self, mark: usize) -> Result<(), CudaError> {
        while self.marks.len() <= mark {
            self.marks.push(Arc::new(Event::new(Timing::Kept)?));
        }
        self.last_mark = mark;
        self.marks[mark].record(&self.on)
    }

    /// Keeps the first failure of a call that cannot tell of one; the next that can tells of it.
    fn keep(&mut self, result: Result<(), CudaError>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }
}

impl Queue for CudaQueue<'_> {
    fn begin(&mut self, step: u64, _began: Instant) {
        (self.step, self.known) = (step, Waits::default());
        let bound = self.gpu.bind();
        self.keep(bound);
    }

    fn wait(&mut self, waits: &Waits) -> bool {
        match self.wait_for(waits) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                self.keep(Err(error));
                true
            }
        }
    }

    unsafe fn submit(&mut self, call: &Call) -> Done {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        match call {
            Call::Collective { group, exchange } => self.collective(*group, exchange),
            Call::Send { to, message, micro, from, inbox } => {
                self.send(*to, (*message, *micro), *from, *inbox)
            }
            Call::Receive { from, message, micro, inbox, to } => {
                self.receive(*from, (*message, *micro), *inbox, *to)
            }
            Call::Check { values, kernel, layer } => self.check(*values, *kernel, layer),
            Call::LossWeight(weight) => {
                self.perform(call)?;
                self.check_weight(weight)
            }
            _ => Ok(self.perform(call)?),
        }
    }

    fn record(&mut self, mark: usize) {
        let recorded = self.mark(mark);
        self.keep(recorded);
    }

    /// The mark behind the instruction's calls is what others wait for.
    fn advance(&mut self) {
        let end = self.marks.get(self.last_mark).map_or(End::Past, |event| End::Event(Arc::clone(event)));
        self.standing.advance(self.stream, end);
    }

    fn finish(&mut self) -> Done {
        match self.failure.take() {
            Some(failure) => Err(failure.into()),
            None => Ok(self.on.synchronize()?),
        }
    }

    /// An event that was not recorded has no time.
    fn elapsed(&self, mark: usize) -> f64 {
        self.marks.get(mark).and_then(|event| event.seconds_since(self.start).ok()).unwrap_or_default()
    }
}
