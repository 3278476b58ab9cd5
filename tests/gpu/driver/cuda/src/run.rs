//! Runs queued work in a seeded random order among the streams whose next work may run.

use crate::call::Session;
use crate::driver::Driver;
use crate::failure::{Answer, Error, Failure, refuse};
use crate::perform::Actor;
use crate::work::{HostFunction, Operation, Work};

/// The most pieces of work that a query makes happen.
const QUERIED: u64 = 3;

impl Session {
    /// Runs work until this holds.
    pub fn run_until(&mut self, done: impl Fn(&Driver) -> bool) -> Answer {
        loop {
            if let Some(code) = self.broken {
                return Err(Failure { code, text: None });
            }
            if done(self) {
                return Ok(());
            }
            match self.choose() {
                Some(stream) => self.step(stream)?,
                None if self.streams.values().any(|stream| stream.busy) => self.wait(),
                None => {
                    return refuse(
                        Error::CUDA_ERROR_LAUNCH_TIMEOUT,
                        "no stream can go on: what is waited for never comes",
                    );
                }
            }
        }
    }

    /// Time passes: some work happens.
    pub fn run_some(&mut self) -> Answer {
        for _ in 0..=self.random.below(QUERIED) {
            if let Some(stream) = self.choose() {
                self.step(stream)?;
            }
        }
        Ok(())
    }

    /// Does the next work of a stream, or of the graph that is its next work.
    fn step(&mut self, stream: u64) -> Answer {
        let state = self.stream_mut(stream);
        let Some(mut operation) = state.queue.pop_front() else {
            return Ok(());
        };
        state.clock.join(&operation.host);
        let mut actor = Actor {
            lane: state.lane,
            clock: std::mem::take(&mut state.clock),
            place: format!("on {}", state.name),
        };
        let result = match &mut operation.work {
            Work::Graph(run) => {
                let node = run.choose(&mut self.random);
                run.begin(&actor.clock);
                let mut inner = run.actor(node, &actor.place);
                let declared = run.graph.nodes[node].declared.clone();
                let work = run.graph.nodes[node].work.clone();
                let result = self.perform(&work, &declared, &mut inner);
                run.finish(node, inner.clock);
                result
            }
            work => {
                let work = work.clone();
                self.perform(&work, &operation.declared, &mut actor)
            }
        };
        let unfinished = match &operation.work {
            Work::Graph(run) => match run.end() {
                Some(clock) => {
                    actor.clock.join(&clock);
                    false
                }
                None => true,
            },
            _ => false,
        };
        self.put_back(stream, actor, unfinished.then_some(operation));
        if let Some(HostFunction { function, data }) = result? {
            self.stream_mut(stream).busy = true;
            // SAFETY: the program has said that the function may be called with its data.
            self.unlocked(|| unsafe { function(data) });
            self.stream_mut(stream).busy = false;
        }
        Ok(())
    }

    fn put_back(&mut self, stream: u64, actor: Actor, operation: Option<Operation>) {
        let state = self.stream_mut(stream);
        state.clock = actor.clock;
        if let Some(operation) = operation {
            state.queue.push_front(operation);
        }
    }
}

impl Driver {
    /// One of the streams that can go on, by chance.
    fn choose(&mut self) -> Option<u64> {
        let ready = |operation: &Operation| match &operation.work {
            Work::Wait(ticket) => ticket.done().is_some(),
            _ => true,
        };
        let able: Vec<u64> = self
            .streams
            .iter()
            .filter(|(_, stream)| !stream.busy && stream.queue.front().is_some_and(ready))
            .map(|(&number, _)| number)
            .collect();
        if able.is_empty() { None } else { Some(able[self.random.below(able.len() as u64) as usize]) }
    }
}
