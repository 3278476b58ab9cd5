//! Runs queued work in a seeded random order among the streams whose next work may run.

use crate::call::{Pause, Session};
use crate::driver::Driver;
use crate::failure::{Answer, Error, Failure, refuse};
use crate::graph::{Node, Run};
use crate::perform::Actor;
use crate::stream::Stream;
use crate::work::{HostFunction, Operation, Work};

/// The most pieces of work that a query makes happen.
const QUERIED: u64 = 3;

impl Session {
    /// Runs work until this holds.
    pub fn run_until(&mut self, done: impl Fn(&Driver) -> bool) -> Answer {
        let mut pause = Pause::new();
        loop {
            if let Some(code) = self.broken {
                return Err(Failure { code, text: None });
            }
            if done(self) {
                return Ok(());
            }
            match self.choose() {
                Some(stream) => {
                    self.step(stream)?;
                    pause = Pause::new();
                }
                None if self.streams.values().any(|stream| stream.busy) => self.wait(),
                None if self.communicates() => self.pause(&mut pause),
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
        let (result, finished) = match &mut operation.work {
            Work::Graph(run) => {
                let result = self.step_of_graph(run, &actor);
                let end = run.end();
                end.iter().for_each(|clock| actor.clock.join(clock));
                (result, end.is_some())
            }
            Work::Communication(communication) => match self.go_on(communication, &mut actor) {
                Ok(finished) => (Ok(None), finished),
                Err(failure) => (Err(failure), true),
            },
            work => (self.perform(work, &operation.declared, &mut actor), true),
        };
        self.put_back(stream, actor, (!finished).then_some(operation));
        if let Some(HostFunction { function, data }) = result? {
            self.stream_mut(stream).busy = true;
            // SAFETY: the program has said that the function may be called with its data.
            self.unlocked(|| unsafe { function(data) });
            self.stream_mut(stream).busy = false;
        }
        Ok(())
    }

    /// Does a node of a graph that may be done, or a step of it.
    fn step_of_graph(&mut self, run: &mut Run, actor: &Actor) -> Answer<Option<HostFunction>> {
        let able = run.able(|communication| self.is_able(communication));
        let node = able[self.random.below(able.len() as u64) as usize];
        run.begin(&actor.clock);
        let mut inner = run.actor(node, &actor.place);
        if let Some(communication) = run.communications.get_mut(&node) {
            if self.go_on(communication, &mut inner)? {
                run.finish(node, inner.clock);
            }
            return Ok(None);
        }
        let Node { work, declared, .. } = &run.graph.nodes[node];
        let result = self.perform(work, declared, &mut inner);
        run.finish(node, inner.clock);
        result
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
        let able = self.able();
        if able.is_empty() { None } else { Some(able[self.random.below(able.len() as u64) as usize]) }
    }

    /// The streams that can go on.
    pub fn able(&self) -> Vec<u64> {
        let ready = |operation: &Operation| match &operation.work {
            Work::Wait(ticket) => ticket.done().is_some(),
            Work::Communication(communication) => self.is_able(communication),
            Work::Graph(run) => {
                !run.communicates() || !run.able(|communication| self.is_able(communication)).is_empty()
            }
            _ => true,
        };
        let is_able = |stream: &Stream| !stream.busy && stream.queue.front().is_some_and(ready);
        self.streams.iter().filter(|(_, stream)| is_able(stream)).map(|(&number, _)| number).collect()
    }
}
