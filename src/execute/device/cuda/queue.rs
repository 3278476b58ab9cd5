//! A stream of a rank on a GPU: each call becomes work once, and the same work is submitted in every step.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::board::{Board, Place};
use super::driver::Gpu;
use super::encode::{Encoder, collectives};
use super::error::CudaError;
use super::graph::Graph;
use super::graph::calls::{is_of_cores, is_own_work, needs_host};
use super::graph::step::StepGraph;
use super::inboxes::Inboxes;
use super::kernels::Kernels;
use super::membership::Membership;
use super::memory::Memory;
use super::nccl::links::Links;
use super::prepared::Prepared;
use super::standing::{End, Standing};
use super::stream::{Event, Stream as GpuStream, Timing};
use super::work::Work;
use crate::execute::call::Call;
use crate::execute::comm::Mailbox;
use crate::execute::device::{Queue, Tracing, Upcoming};
use crate::execute::error::ExecuteError;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;

pub type Done = Result<(), ExecuteError>;

/// Less work than this is not worth a graph.
const LEAST_WORK: usize = 3;

/// How a rank reaches the others.
pub enum Reach<'r> {
    /// They share its GPU: by rank, memory that messages are put into.
    Shared { mailbox: Mailbox, memories: &'r [Memory] },
    /// Each has a GPU of its own.
    Joined(Arc<Links>),
}

/// A stream of a rank.
pub struct CudaQueue<'r> {
    pub gpu: Arc<Gpu>,
    pub kernels: &'r Kernels,
    pub encoder: Encoder<'r>,
    pub rank: usize,
    pub stream: Stream,
    pub on: GpuStream,
    /// Of the CPU device, for what cores do in this stream.
    pub cores: Box<dyn Queue + 'r>,
    pub standing: &'r Standing,
    /// The rank's step as one graph, where it may be one.
    pub whole: Option<&'r StepGraph>,
    pub known: Waits,
    /// By group, where the stream has collectives in it.
    pub groups: [Option<Membership>; Group::COUNT],
    pub reach: Reach<'r>,
    pub inboxes: &'r Inboxes,
    pub step: u64,
    pub pass: u64,
    /// The begin of the step on the GPU.
    pub start: &'r Event,
    /// Both sides of instructions, in steps that are traced.
    pub marks: Vec<Arc<Event>>,
    /// Ends of instructions in steps that are not: a stream records and waits for an event faster if it keeps no time.
    pub ends: Vec<Arc<Event>>,
    pub last_mark: usize,
    /// By address of a call, which stays where it is while queues are open.
    pub prepared: HashMap<*const Call, Box<[Prepared]>>,
    /// By instruction, whether another stream waits for its end.
    pub awaited: Box<[bool]>,
    pub tracing: Tracing,
    pub board: &'r Board,
    pub place: Option<Place>,
    /// Calls that are submitted together, in steps that are not traced.
    pub pending: Vec<*const Call>,
    /// Such calls as graphs, by the first of them and how many they are: in every step the same calls come together.
    pub graphs: HashMap<(*const Call, usize), Graph>,
    pub failure: Option<CudaError>,
}

// SAFETY: the addresses of calls are only keys.
unsafe impl Send for CudaQueue<'_> {}

impl<'r> CudaQueue<'r> {
    fn prepare_call(&mut self, call: &Call) -> Result<*const Call, CudaError> {
        let key = std::ptr::from_ref(call);
        if !self.prepared.contains_key(&key) {
            let works = self.encoder.encode(call)?;
            let works: Result<Box<[Prepared]>, _> =
                works.into_iter().map(|work| Prepared::new(work, self.kernels)).collect();
            self.prepared.insert(key, works?);
        }
        Ok(key)
    }

    /// Submits `call`, or notes it to be submitted with others.
    fn perform(&mut self, call: &Call) -> Result<(), CudaError> {
        let key = self.prepare_call(call)?;
        self.pending.push(key);
        match self.tracing {
            Tracing::On => self.flush(),
            Tracing::Off => Ok(()),
        }
    }

    /// Submits what is pending.
    fn flush(&mut self) -> Result<(), CudaError> {
        let Some(&first) = self.pending.first() else { return Ok(()) };
        let works = || self.pending.iter().flat_map(|call| &self.prepared[call]);
        let give = || works().try_for_each(|work| work.submit(&self.on, &self.gpu));
        let key = (first, self.pending.len());
        let in_parts = self.whole.is_none_or(StepGraph::is_in_parts);
        if self.tracing == Tracing::On || !in_parts || works().count() < LEAST_WORK {
            give()?;
        } else if let Some(graph) = self.graphs.get(&key) {
            graph.launch(&self.on)?;
        } else {
            let graph = Graph::capture(&self.on, give)?;
            graph.launch(&self.on)?;
            self.graphs.insert(key, graph);
        }
        self.pending.clear();
        Ok(())
    }

    /// Does `work`, which no call is.
    ///
    /// # Errors
    /// What the driver says.
    pub(super) fn perform_now(&self, work: Work) -> Result<(), CudaError> {
        Prepared::new(work, self.kernels)?.submit(&self.on, &self.gpu)
    }

    fn wait_for(&mut self, waits: &Waits) -> Result<bool, CudaError> {
        if waits.iter().zip(&self.known).any(|(wait, known)| wait > known) {
            self.flush()?;
        }
        let Some(ends) = self.standing.wait(waits, &self.known) else { return Ok(false) };
        for end in ends {
            if let End::Event(event) = end {
                self.on.wait(&event)?;
            }
        }
        self.known.iter_mut().zip(waits).for_each(|(known, wait)| *known = (*known).max(*wait));
        Ok(true)
    }

    /// Waits until all that was submitted is done.
    ///
    /// # Errors
    /// What went wrong with it, or why the job failed meanwhile.
    pub(super) fn settle(&self) -> Done {
        match &self.reach {
            Reach::Shared { .. } => Ok(self.on.synchronize()?),
            Reach::Joined(links) => links.wait(&self.on),
        }
    }

    /// The rank's step, if it is being captured.
    pub(super) fn captured(&self) -> Option<&'r StepGraph> {
        self.whole.filter(|whole| whole.is_captured())
    }

    /// Ends what other GPUs wait for, or this one for them, unless all goes well or nothing is done yet.
    fn end_unless(&self, goes_well: bool) {
        if let (Reach::Joined(links), false, None) = (&self.reach, goes_well, self.captured()) {
            links.abort();
        }
    }

    /// Does `call`, which is not only kernels, or notes it to be submitted with others.
    ///
    /// # Safety
    /// As for [`Queue::submit`].
    unsafe fn submit_call(&mut self, call: &Call) -> Done {
        if !is_own_work(call) {
            self.flush()?;
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
                self.flush()?;
                self.check_weight(weight)
            }
            _ if is_of_cores(call) => {
                self.settle()?;
                // SAFETY: the stream has waited for what the call waits for, and all that is over.
                unsafe { self.cores.submit(call) }
            }
            _ => Ok(self.perform(call)?),
        }
    }

    /// What `instruction` is called, with the kernels that are known.
    fn name(&self, instruction: &Upcoming<'_>) -> String {
        let works = instruction.calls.iter().filter_map(|call| self.prepared.get(&std::ptr::from_ref(call)));
        let mut kernels: Vec<_> = works.flat_map(|works| works.iter().filter_map(Prepared::kernel)).collect();
        kernels.dedup();
        match kernels.as_slice() {
            [] => instruction.name.clone(),
            [one] => format!("{} (kernel {one})", instruction.name),
            several => format!("{} (kernels {})", instruction.name, several.join(", ")),
        }
    }

    fn mark(&mut self, mark: usize) -> Result<(), CudaError> {
        record(&mut self.marks, mark, Timing::Kept, &self.on)
    }

    /// Submits what is pending, and records behind it the end of `instruction`, which others wait for.
    fn end(&mut self, instruction: usize) -> Result<(), CudaError> {
        self.flush()?;
        record(&mut self.ends, instruction, Timing::None, &self.on)
    }

    /// Tells the board that the stream is at `mark`.
    fn tell(&self, mark: usize) -> Result<(), CudaError> {
        self.place.map_or(Ok(()), |place| self.board.tell(place, mark, &self.on))
    }

    /// Keeps the first failure of a call that cannot tell of one; the next that can tells of it.
    fn keep(&mut self, result: Result<(), CudaError>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }
}

impl Queue for CudaQueue<'_> {
    fn prepare(&mut self, instructions: &[Upcoming<'_>]) -> Done {
        self.gpu.bind()?;
        if let Some(whole) = self.whole
            && instructions.iter().any(|one| one.calls.iter().any(needs_host))
        {
            whole.refuse();
        }
        self.awaited = instructions.iter().map(|instruction| instruction.is_awaited).collect();
        for call in instructions.iter().flat_map(|one| one.calls) {
            match call {
                Call::Collective { exchange, .. } => {
                    if let Some(source) = collectives::source(exchange, self.encoder.types)? {
                        self.kernels.prepare(&source)?;
                    }
                }
                _ if is_own_work(call) => {
                    self.prepare_call(call)?;
                }
                _ => {}
            }
        }
        self.place = self.board.enter(instructions.iter().map(|one| self.name(one)).collect());
        Ok(())
    }

    fn begin(&mut self, step: u64, began: Instant, tracing: Tracing) {
        self.cores.begin(step, began, tracing);
        if let Some(place) = self.place {
            self.board.clear(place);
        }
        (self.step, self.known, self.tracing) = (step, Waits::default(), tracing);
        (self.pass, self.failure) = (self.standing.pass(), None);
        self.pending.clear();
        let bound = self.gpu.bind();
        self.keep(bound.and_then(|()| self.captured().map_or(Ok(()), |whole| whole.enter(&self.on))));
    }

    fn wait(&mut self, waits: &Waits) -> bool {
        match self.wait_for(waits) {
            Ok(goes_on) => {
                self.end_unless(goes_on);
                goes_on
            }
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
        // SAFETY: as the caller vouches.
        let done = unsafe { self.submit_call(call) };
        self.end_unless(done.is_ok());
        done
    }

    /// Where nothing is traced, an event is recorded only for others to wait for.
    fn record(&mut self, mark: usize) {
        self.last_mark = mark;
        if self.tracing == Tracing::On {
            // What telling costs is to be in no instruction's time.
            let is_end = mark % 2 == 1;
            let recorded = match is_end {
                true => self.mark(mark).and_then(|()| self.tell(mark)),
                false => self.tell(mark).and_then(|()| self.mark(mark)),
            };
            self.keep(recorded);
        }
    }

    /// The event behind the instruction's calls is what others wait for.
    fn advance(&mut self) {
        let instruction = self.last_mark / 2;
        let is_awaited = self.awaited.get(instruction).is_none_or(|awaited| *awaited);
        let end = match self.tracing {
            Tracing::On => self.marks.get(self.last_mark),
            Tracing::Off => {
                if is_awaited {
                    let recorded = self.end(instruction);
                    self.keep(recorded);
                }
                self.ends.get(instruction)
            }
        };
        let end = end.filter(|_| is_awaited);
        let end = end.map_or(End::Past, |event| End::Event(Arc::clone(event)));
        self.standing.advance(self.stream, end);
    }

    fn post(&mut self, call: &Call) -> Done {
        let (Reach::Joined(links), Call::Receive { from, inbox, .. }) = (&self.reach, call) else {
            return Ok(());
        };
        let posted = self.post_to(links, *from, *inbox);
        self.end_unless(posted.is_ok());
        posted
    }

    fn hand_over(&mut self) -> Done {
        Ok(self.flush()?)
    }

    fn finish(&mut self) -> Done {
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        self.flush()?;
        match self.captured() {
            Some(whole) => Ok(whole.leave(&self.on)?),
            None => self.settle(),
        }
    }

    fn elapsed(&self, mark: usize) -> Result<f64, ExecuteError> {
        // What was never recorded took no time.
        let Some(event) = self.marks.get(mark) else { return Ok(0.0) };
        Ok(event.seconds_since(self.start)?)
    }
}

/// Records event number `place` of `events`, all of which keep time as `timing` says, as the end of what `stream` was given.
fn record(
    events: &mut Vec<Arc<Event>>,
    place: usize,
    timing: Timing,
    stream: &GpuStream,
) -> Result<(), CudaError> {
    while events.len() <= place {
        events.push(Arc::new(Event::new(timing)?));
    }
    events[place].record(stream)
}
