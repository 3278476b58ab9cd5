//! A thread of a rank: submits the calls of the instructions of one stream, or of several, in order.

#![expect(unsafe_code, reason = "calls use the memory that their program gives them alone")]

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

use crate::execute::bind::Bound;
use crate::execute::device::{Queue, Readiness, Tracing, Upcoming, WholeStep};
use crate::execute::error::ExecuteError;
use crate::execute::observe::span::Span;
use crate::execute::observe::words;
use crate::execute::ranks::rank::Rank;
use crate::lower::Stream;
use crate::program::instruction::{Message, Task};
use crate::program::submission::Submitted;

/// By stream, a queue where the worker submits to one.
type ByStream<Q> = [Option<Q>; Stream::ALL.len()];

/// What performs one stream of one rank, or several.
pub struct Worker<'r> {
    rank: &'r Rank,
    bound: &'r Bound,
    queues: ByStream<Box<dyn Queue + 'r>>,
    /// What it submits, in order. Instructions of a stream are in the stream's order, and what is before the optimizer's own
    /// work comes first.
    order: Vec<Submitted>,
    /// The step as one, where the device could do so.
    whole: Option<&'r dyn WholeStep>,
    /// By message that room is posted for, the number of the instruction that receives it.
    receivers: HashMap<(Message, u32), u32>,
}

impl<'r> Worker<'r> {
    /// The worker of `stream` on `rank`, whose instructions are `bound`.
    pub fn new(rank: &'r Rank, bound: &'r Bound, stream: Stream, queue: Box<dyn Queue + 'r>) -> Self {
        let mut queues = ByStream::default();
        queues[stream as usize] = Some(queue);
        let numbers = rank.placement.streams[stream as usize].iter();
        let order = numbers.map(|&number| Submitted::Instruction(number)).collect();
        Self { rank, bound, queues, order, whole: None, receivers: HashMap::new() }
    }

    /// The worker of all streams of `rank` on its device, which submits their instructions in `order`: no instruction waits
    /// for one of them that comes behind it.
    pub(super) fn of_device(
        rank: &'r Rank,
        bound: &'r Bound,
        (queues, whole): (ByStream<Box<dyn Queue + 'r>>, Option<&'r dyn WholeStep>),
        order: Vec<Submitted>,
    ) -> Self {
        let issues = (0..).zip(&rank.placement.issues);
        let received = issues.filter(|(_, issue)| issue.task == Task::Receive);
        let receivers =
            received.filter_map(|(number, issue)| Some(((issue.message?, issue.micro), number))).collect();
        Self { rank, bound, queues, order, whole, receivers }
    }

    /// Makes ready what every step will do.
    ///
    /// # Errors
    /// What an instruction cannot do.
    pub fn prepare(&mut self) -> Result<(), ExecuteError> {
        let (rank, placement) = (self.rank.index, &self.rank.placement);
        for (stream, queue) in open(&mut self.queues) {
            let numbers = placement.streams[stream as usize].iter().zip(placement.awaited(stream));
            let upcoming = numbers.map(|(&number, is_awaited)| {
                let issue = &placement.issues[number as usize];
                let unit = issue.unit.map_or_else(String::new, |unit| format!(" of unit {unit}"));
                let name =
                    format!("{}{unit}, micro-batch {}, on rank {rank}", words::task(issue.task), issue.micro);
                Upcoming { calls: self.bound.of(number as usize), is_awaited, name }
            });
            queue.prepare(&upcoming.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// How far its rank is from having its device do the step as one, as far as this thread knows.
    pub fn readiness(&self) -> Readiness {
        self.whole.map_or(Readiness::Never, WholeStep::readiness)
    }

    /// Makes step `step`, which began at `began`. The least ready rank of all is `ready`, if any has said so: all ranks were
    /// told the same with the result of the step before, so all do the same. NCCL asks that a collective is captured on all of
    /// its ranks or on none.
    ///
    /// # Errors
    /// What an instruction could not do.
    pub fn step(
        &mut self,
        step: u64,
        (began, tracing): (Instant, Tracing),
        ready: Option<Readiness>,
    ) -> Result<(), ExecuteError> {
        if let Some(whole) = self.whole {
            match (ready, tracing) {
                (Some(Readiness::Never), _) => whole.forget(),
                (Some(Readiness::Able), Tracing::Off) => self.prepare_whole(whole, (step, began)),
                (Some(Readiness::Ready), Tracing::Off) => return self.perform_whole(whole, step),
                _ => {}
            }
        }
        self.perform(step, 0..self.order.len(), (began, tracing))
    }

    /// Tells the device the whole step, of which it does nothing yet. Where that fails, the step is submitted as before.
    fn prepare_whole(&mut self, whole: &dyn WholeStep, (step, began): (u64, Instant)) {
        let all = 0..self.order.len();
        let given = whole.begin().and_then(|()| self.give((step, began, Tracing::Off), all));
        if !given.and_then(|is_all| whole.end().map(|()| is_all)).unwrap_or(false) {
            whole.give_up();
        }
    }

    fn perform_whole(&self, whole: &dyn WholeStep, step: u64) -> Result<(), ExecuteError> {
        let Rank { position, placement, .. } = self.rank;
        position.is_given_whole();
        whole.perform(step)?;
        let streams = Stream::ALL.into_iter().zip(&placement.streams);
        streams.for_each(|(stream, instructions)| position.reach(stream, instructions.len()));
        Ok(())
    }

    /// Performs the instructions number `part` of its order, in step `step`, which began at `began`.
    ///
    /// # Errors
    /// What an instruction could not do.
    pub fn perform(
        &mut self,
        step: u64,
        part: Range<usize>,
        (began, tracing): (Instant, Tracing),
    ) -> Result<(), ExecuteError> {
        let first = self.before(part.start);
        if !self.give((step, began, tracing), part)? || tracing == Tracing::Off {
            return Ok(());
        }
        for (stream, queue) in open(&mut self.queues) {
            let mut spans = spans(self.rank, stream);
            let ends = self.rank.position.performed(stream);
            for position in first[stream as usize]..ends {
                let side = |side| queue.elapsed(2 * position + side);
                spans[position] = Span { start: side(0)?, end: side(1)? };
            }
        }
        Ok(())
    }

    /// Submits the instructions number `part` of its order, and waits until they are done. False if another thread of the rank
    /// has failed.
    fn give(
        &mut self,
        (step, began, tracing): (u64, Instant, Tracing),
        part: Range<usize>,
    ) -> Result<bool, ExecuteError> {
        let first = self.before(part.start);
        for (stream, queue) in open(&mut self.queues) {
            queue.begin(step, began, tracing);
            self.rank.position.reach(stream, first[stream as usize]);
            if part.start == 0 {
                spans(self.rank, stream).fill(Span::default());
            }
        }
        if !self.submit(part, first)? {
            return Ok(false);
        }
        // All streams end at the same time.
        self.hand_over()?;
        open(&mut self.queues).try_for_each(|(_, queue)| queue.finish())?;
        Ok(true)
    }

    /// Submits the instructions number `part` of its order, before which each stream has submitted `done`. False if another
    /// thread of the rank has failed.
    fn submit(
        &mut self,
        part: Range<usize>,
        mut done: [usize; Stream::ALL.len()],
    ) -> Result<bool, ExecuteError> {
        let rank = self.rank;
        let mut host = 0;
        for place in part {
            let number = match self.order[place] {
                Submitted::Instruction(number) => number as usize,
                Submitted::Post { message, micro } => {
                    self.post(message, micro)?;
                    continue;
                }
            };
            let issue = &rank.placement.issues[number];
            let (stream, waits) = (issue.stream as usize, &issue.waits);
            // The thread may sleep until the host's stream is there. Meanwhile the device does all that it was given.
            if waits[Stream::Host as usize] > host {
                host = waits[Stream::Host as usize];
                self.hand_over()?;
            }
            let Some(queue) = &mut self.queues[stream] else {
                unreachable!("a worker has the queues of its instructions")
            };
            if !queue.wait(waits) {
                return Ok(false);
            }
            queue.record(2 * done[stream]);
            for call in self.bound.of(number) {
                // SAFETY: the program is verified: of two instructions that use the same memory, one of them to write,
                // one waits for the other, and this one's waits are over.
                unsafe { queue.submit(call)? };
            }
            queue.record(2 * done[stream] + 1);
            queue.advance();
            done[stream] += 1;
            rank.position.reach(issue.stream, done[stream]);
        }
        Ok(true)
    }

    /// Posts room for a message that one of its instructions receives.
    fn post(&mut self, message: Message, micro: u32) -> Result<(), ExecuteError> {
        let Some(&receiver) = self.receivers.get(&(message, micro)) else { return Ok(()) };
        let stream = self.rank.placement.issues[receiver as usize].stream as usize;
        let Some(queue) = &mut self.queues[stream] else { return Ok(()) };
        self.bound.of(receiver as usize).iter().try_for_each(|call| queue.post(call))
    }

    fn hand_over(&mut self) -> Result<(), ExecuteError> {
        open(&mut self.queues).try_for_each(|(_, queue)| queue.hand_over())
    }

    /// How many of the first `count` instructions of its order are each stream's.
    fn before(&self, count: usize) -> [usize; Stream::ALL.len()] {
        let mut before = [0; Stream::ALL.len()];
        for submitted in &self.order[..count] {
            if let Submitted::Instruction(number) = *submitted {
                before[self.rank.placement.issues[number as usize].stream as usize] += 1;
            }
        }
        before
    }

    /// How much of what it submits is before the optimizer's own work, and how much there is.
    pub fn parts(&self) -> (usize, usize) {
        let placement = &self.rank.placement;
        let halt = self.order.partition_point(|submitted| placement.is_before_optimizer(*submitted));
        (halt, self.order.len())
    }
}

/// The queues that there are.
fn open<Q>(queues: &mut ByStream<Q>) -> impl Iterator<Item = (Stream, &mut Q)> {
    Stream::ALL.into_iter().zip(queues).filter_map(|(stream, queue)| Some((stream, queue.as_mut()?)))
}

fn spans(rank: &Rank, stream: Stream) -> MutexGuard<'_, Vec<Span>> {
    rank.spans[stream as usize].lock().unwrap_or_else(PoisonError::into_inner)
}
