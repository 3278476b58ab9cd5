//! Queues that compute nothing and note which thread submits what. Their collectives and messages hold a thread up until the
//! other ranks are there too, as those of a library may.

#![expect(unsafe_code, reason = "it implements traits whose functions are unsafe to call")]

use std::sync::{Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Instant;

use crate::execute::call::Call;
use crate::execute::comm::{Channel, Endpoint, Hub, Mailbox, Tag};
use crate::execute::device::{Queue, Queues, Tracing};
use crate::execute::error::ExecuteError;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;
use crate::units::ElementType;

/// An instruction that was submitted: by whom, and its place in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub thread: ThreadId,
    pub stream: Stream,
    pub place: usize,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    submitted: Waits,
    failed: bool,
}

#[derive(Default)]
struct WatchedRank {
    state: Mutex<State>,
    moved: Condvar,
}

/// What ranks submit.
pub struct Watched {
    hub: Hub,
    ranks: Vec<WatchedRank>,
}

impl Watched {
    pub fn new(ranks: usize) -> Self {
        Self { hub: Hub::new(ranks), ranks: (0..ranks).map(|_| WatchedRank::default()).collect() }
    }

    /// Lets nobody wait any more.
    pub fn stop(&self, why: &str) {
        self.hub.abort(0, why);
        for rank in &self.ranks {
            rank.state.lock().unwrap().failed = true;
            rank.moved.notify_all();
        }
    }

    /// What `rank` has submitted, in order.
    pub fn seen(&self, rank: usize) -> Vec<Seen> {
        self.ranks[rank].state.lock().unwrap().seen.clone()
    }
}

impl Queues for Watched {
    fn queue<'q>(
        &'q self,
        rank: usize,
        stream: Stream,
        groups: &[(Group, &[usize])],
    ) -> Result<Box<dyn Queue + 'q>, ExecuteError> {
        let endpoint = |&(group, members): &(Group, &[usize])| {
            Ok((group, self.hub.endpoint(rank, Channel { group, stream }, members)?))
        };
        let groups = groups.iter().map(endpoint).collect::<Result<_, ExecuteError>>()?;
        let mailbox = self.hub.mailbox(rank)?;
        Ok(Box::new(WatchedQueue { rank: &self.ranks[rank], stream, groups, mailbox, step: 0 }))
    }

    fn restart(&self) {}

    fn guard(
        &self,
        rank: usize,
        work: &mut dyn FnMut() -> Result<(), ExecuteError>,
    ) -> Result<(), ExecuteError> {
        let done = self.hub.guard(rank, work);
        if done.is_err() {
            self.ranks[rank].state.lock().unwrap().failed = true;
            self.ranks[rank].moved.notify_all();
        }
        done
    }
}

struct WatchedQueue<'w> {
    rank: &'w WatchedRank,
    stream: Stream,
    groups: Vec<(Group, Endpoint)>,
    mailbox: Mailbox,
    step: u64,
}

impl Queue for WatchedQueue<'_> {
    fn begin(&mut self, step: u64, _began: Instant, _tracing: Tracing) {
        self.step = step;
    }

    /// Other streams of the device are there already; between these and the host's stream threads wait.
    fn wait(&mut self, waits: &Waits) -> bool {
        let is_there =
            |state: &State, stream: Stream| state.submitted[stream as usize] >= waits[stream as usize];
        let mut state = self.rank.state.lock().unwrap();
        if self.stream != Stream::Host {
            let missing = Stream::ALL.into_iter().find(|stream| !is_there(&state, *stream));
            drop(state);
            assert!(
                missing.is_none_or(|stream| stream == Stream::Host),
                "{:?} is submitted before {missing:?} that it waits for",
                self.stream
            );
            state = self.rank.state.lock().unwrap();
        }
        while !state.failed && !Stream::ALL.into_iter().all(|stream| is_there(&state, stream)) {
            state = self.rank.moved.wait(state).unwrap();
        }
        !state.failed
    }

    unsafe fn submit(&mut self, call: &Call) -> Result<(), ExecuteError> {
        let nothing = (0, ElementType::Fp32);
        match call {
            Call::Collective { group, .. } => {
                let (_, endpoint) = self.groups.iter_mut().find(|(own, _)| own == group).unwrap();
                endpoint.barrier()?;
            }
            Call::Send { to, message, micro, .. } => {
                self.mailbox.send(*to, Tag::new((*message, *micro), self.step), nothing, || ())?;
            }
            Call::Receive { from, message, micro, .. } => {
                self.mailbox.receive(*from, Tag::new((*message, *micro), self.step), nothing, || ())?;
            }
            _ => {}
        }
        Ok(())
    }

    fn record(&mut self, mark: usize) {
        if mark.is_multiple_of(2) {
            let seen = Seen { thread: thread::current().id(), stream: self.stream, place: mark / 2 };
            self.rank.state.lock().unwrap().seen.push(seen);
        }
    }

    fn advance(&mut self) {
        self.rank.state.lock().unwrap().submitted[self.stream as usize] += 1;
        self.rank.moved.notify_all();
    }

    fn finish(&mut self) -> Result<(), ExecuteError> {
        Ok(())
    }

    fn elapsed(&self, _mark: usize) -> Result<f64, ExecuteError> {
        Ok(0.0)
    }
}
