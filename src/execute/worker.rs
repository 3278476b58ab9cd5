//! A stream of a rank as a thread: submits the calls of the stream's instructions in order.

#![expect(unsafe_code, reason = "calls use the memory that their program gives them alone")]

use std::sync::PoisonError;
use std::time::Instant;

use crate::execute::bind::Bound;
use crate::execute::device::{Queue, Tracing, Upcoming};
use crate::execute::error::ExecuteError;
use crate::execute::observe::span::Span;
use crate::execute::observe::words;
use crate::execute::ranks::rank::Rank;
use crate::lower::Stream;

/// What performs one stream of one rank.
pub struct Worker<'r> {
    rank: &'r Rank,
    bound: &'r Bound,
    stream: Stream,
    queue: Box<dyn Queue + 'r>,
}

impl<'r> Worker<'r> {
    /// The worker of `stream` on `rank`, whose instructions are `bound`.
    pub fn new(rank: &'r Rank, bound: &'r Bound, stream: Stream, queue: Box<dyn Queue + 'r>) -> Self {
        Self { rank, bound, stream, queue }
    }

    /// Makes ready what every step will do.
    ///
    /// # Errors
    /// What an instruction cannot do.
    pub fn prepare(&mut self) -> Result<(), ExecuteError> {
        let (rank, placement) = (self.rank.index, &self.rank.placement);
        let awaited = placement.awaited(self.stream);
        let numbers = placement.streams[self.stream as usize].iter().zip(awaited);
        let upcoming = numbers.map(|(&number, is_awaited)| {
            let issue = &placement.issues[number as usize];
            let unit = issue.unit.map_or_else(String::new, |unit| format!(" of unit {unit}"));
            let name =
                format!("{}{unit}, micro-batch {}, on rank {rank}", words::task(issue.task), issue.micro);
            Upcoming { calls: self.bound.of(number as usize), is_awaited, name }
        });
        self.queue.prepare(&upcoming.collect::<Vec<_>>())
    }

    /// Performs the stream's instructions number `part` of step `step`, which began at `began`.
    ///
    /// # Errors
    /// What an instruction could not do.
    pub fn perform(
        &mut self,
        step: u64,
        part: std::ops::Range<usize>,
        (began, tracing): (Instant, Tracing),
    ) -> Result<(), ExecuteError> {
        self.queue.begin(step, began, tracing);
        let rank = self.rank;
        rank.position.reach(self.stream, part.start);
        let mut spans = rank.spans[self.stream as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if part.start == 0 {
            spans.fill(Span::default());
        }
        for position in part.clone() {
            let number = rank.placement.streams[self.stream as usize][position] as usize;
            if !self.queue.wait(&rank.placement.issues[number].waits) {
                return Ok(());
            }
            self.queue.record(2 * position);
            for call in self.bound.of(number) {
                // SAFETY: the program is verified: of two instructions that use the same memory, one of them to write,
                // one waits for the other, and this one's waits are over.
                unsafe { self.queue.submit(call)? };
            }
            self.queue.record(2 * position + 1);
            self.queue.advance();
            rank.position.reach(self.stream, position + 1);
        }
        self.queue.finish()?;
        rank.position.reach(self.stream, part.end);
        if tracing == Tracing::Off {
            return Ok(());
        }
        for position in part {
            let side = |side| self.queue.elapsed(2 * position + side);
            spans[position] = Span { start: side(0)?, end: side(1)? };
        }
        Ok(())
    }

    /// How many of the stream's instructions stand before the optimizer's own work, and how many there are.
    pub fn parts(&self) -> (usize, usize) {
        let stream = &self.rank.placement.streams[self.stream as usize];
        let halt = stream.partition_point(|&issue| (issue as usize) < self.rank.placement.halt);
        (halt, stream.len())
    }
}
