//! The control connection of a job, apart from its data: what ranks tell one another, whether all of them live, and why the
//! job ends if one does not. It is a star: every rank has one connection, to rank 0.

mod frame;
mod shared;
pub mod star;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::VecDeque;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::frame::Kind;
use self::shared::{Link, Shared, State};
use self::star::Connected;
use crate::execute::comm::Alarm;

/// Bytes of the stack of a thread that reads one connection.
const STACK: usize = 128 << 10;

/// How long a rank that fails waits to be told whether another one failed before.
const VERDICT: Duration = Duration::from_secs(5);

/// How long a rank may take to take in what is written to it.
const SLOW: Duration = Duration::from_secs(20);

/// Why a job failed: the first failure of all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[error("rank {rank} on host {host}: {message}")]
pub struct JobFailure {
    pub rank: usize,
    pub host: String,
    pub message: String,
    /// What the rank's command line makes of it; empty where it could not say so itself.
    pub document: String,
    /// The rank can say nothing any more.
    pub is_gone: bool,
    /// It was not heard of for too long.
    pub is_silent: bool,
}

/// What a rank is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doing {
    /// Instructions done in all steps.
    pub done: u64,
    /// The instruction that it is at, in words; empty between steps.
    pub at: String,
    /// It waits there for other ranks.
    pub waits: bool,
}

/// What a process does once its job has failed.
#[derive(Clone, Copy, Debug)]
pub struct OnFailure {
    /// Says why, at the rank that speaks.
    pub say: fn(&JobFailure),
    /// Ends the process, should it still be there some time later.
    pub end: fn(&JobFailure),
}

/// How long ranks are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A rank that is not heard of for so long is taken for dead.
    pub silence: Duration,
    /// A step in which no rank does another instruction for so long hangs.
    pub standstill: Duration,
}

/// One rank's end of the star.
pub struct JobControl {
    shared: Arc<Shared>,
}

impl JobControl {
    /// The end of `rank`, on `host`, with connections to all others at rank 0, and to rank 0 elsewhere. `alarm` rings when a
    /// rank fails.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub fn new(
        (rank, host): (usize, &str),
        connected: Vec<Connected>,
        (patience, alarm): (Patience, Alarm),
        on_failure: OnFailure,
    ) -> std::io::Result<Self> {
        let now = Instant::now();
        let count = connected.len();
        let link = |connected: Connected| Link {
            rank: connected.rank,
            host: connected.host,
            clock: connected.clock,
            stream: connected.stream,
            writing: Mutex::default(),
        };
        let links: Vec<Link> = connected.into_iter().map(link).collect();
        for link in &links {
            link.stream.set_write_timeout(Some(SLOW))?;
        }
        let state = State {
            arrived: vec![VecDeque::new(); count],
            heard: vec![now; count],
            doing: vec![Doing::default(); count],
            since: vec![now; count],
            left: vec![false; count],
            failure: None,
            patience,
            own: None,
            looked: now,
            hushed_until: now,
            is_over: false,
        };
        let shared = Arc::new(Shared {
            rank,
            host: host.to_owned(),
            links,
            state: Mutex::new(state),
            failing: Mutex::default(),
            moved: Condvar::new(),
            alarm,
            on_failure,
        });
        for index in 0..count {
            let shared = shared.clone();
            Builder::new().stack_size(STACK).spawn(move || shared.listen(index))?;
        }
        let watcher = shared.clone();
        Builder::new().stack_size(STACK).spawn(move || watch::watch(&watcher))?;
        let resort = shared.clone();
        Builder::new().stack_size(STACK).spawn(move || resort.resort())?;
        Ok(Self { shared })
    }

    /// All ranks' `bytes` in their order, at rank 0; nothing elsewhere.
    ///
    /// # Errors
    /// Why the job failed.
    pub fn gather(&self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, JobFailure> {
        let shared = &self.shared;
        if shared.rank > 0 {
            shared.send(0, Kind::Data, bytes)?;
            return Ok(None);
        }
        let others = (0..shared.links.len()).map(|index| shared.take(index));
        let all: Result<Vec<_>, _> = std::iter::once(Ok(bytes.to_vec())).chain(others).collect();
        all.map(Some)
    }

    /// What rank 0 has as `bytes`, at all ranks; the others have none.
    ///
    /// # Errors
    /// Why the job failed.
    pub fn broadcast(&self, bytes: Option<&[u8]>) -> Result<Vec<u8>, JobFailure> {
        let shared = &self.shared;
        let Some(bytes) = bytes.filter(|_| shared.rank == 0) else { return shared.take(0) };
        for index in 0..shared.links.len() {
            shared.send(index, Kind::Data, bytes)?;
        }
        Ok(bytes.to_vec())
    }

    /// Rings when a rank has failed.
    pub fn alarm(&self) -> &Alarm {
        &self.shared.alarm
    }

    /// By rank, what its clock shows more than that of rank 0, in seconds; known at rank 0.
    pub fn clocks(&self) -> Vec<f64> {
        std::iter::once(0.0).chain(self.shared.links.iter().map(|link| link.clock)).collect()
    }

    /// By rank, its host; known at rank 0.
    pub fn hosts(&self) -> Vec<String> {
        let others = self.shared.links.iter().map(|link| link.host.clone());
        std::iter::once(self.shared.host.clone()).chain(others).collect()
    }

    /// From here on others are told what `doing` says, and a step of `step_seconds` that stands still ends the job; none
    /// between runs.
    pub fn follow(&self, doing: Option<Arc<dyn Fn() -> Doing + Send + Sync>>, step_seconds: f64) {
        let mut state = self.shared.lock();
        state.own = doing;
        let ten_steps = Duration::try_from_secs_f64(10.0 * step_seconds).unwrap_or(Duration::MAX);
        state.patience.standstill = state.patience.standstill.max(ten_steps);
        state.since.fill(Instant::now());
    }

    /// This rank failed with `message`, which its command line puts as `document`: all others are told. The failure that came
    /// first, which all ranks end with.
    pub fn fail(&self, message: &str, document: &str) -> JobFailure {
        let shared = &self.shared;
        let own = JobFailure {
            rank: shared.rank,
            host: shared.host.clone(),
            message: message.to_owned(),
            document: document.to_owned(),
            is_gone: false,
            is_silent: false,
        };
        if shared.rank == 0 {
            return shared.failed(own);
        }
        let known = shared.lock().failure.clone();
        if let Some(failure) = known {
            return failure;
        }
        let text = serde_json::to_vec(&own).unwrap_or_default();
        if shared.write(0, Kind::Failed, &text).is_err() {
            return shared.failed(own);
        }
        shared.verdict(VERDICT).unwrap_or_else(|| shared.failed(own))
    }

    /// Why the job failed, once it is known to have failed at another rank.
    pub fn failed_elsewhere(&self) -> JobFailure {
        let verdict = self.shared.verdict(VERDICT);
        verdict.unwrap_or_else(|| self.fail("another rank failed, and did not say why", ""))
    }

    /// Whether this rank says why the job failed: one does.
    pub fn speaks(&self, failure: &JobFailure) -> bool {
        self.shared.speaks(failure)
    }

    /// Goes in good order, once all ranks do.
    ///
    /// # Errors
    /// Why the job failed.
    pub fn leave(&self) -> Result<(), JobFailure> {
        let shared = &self.shared;
        if shared.rank > 0 {
            shared.send(0, Kind::Left, &[])?;
        }
        // However long others take: who dies meanwhile is noticed.
        let waits = |state: &mut State| state.failure.is_none() && state.left.contains(&false);
        let wait = shared.moved.wait_while(shared.lock(), waits);
        let mut state = wait.unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        state.is_over = true;
        shared.moved.notify_all();
        drop(state);
        if shared.rank == 0 {
            for index in 0..shared.links.len() {
                shared.send(index, Kind::Left, &[])?;
            }
        }
        Ok(())
    }
}

impl Drop for JobControl {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.moved.notify_all();
        for link in &self.shared.links {
            // Its reader ends.
            let _ = link.stream.shutdown(Shutdown::Both);
        }
    }
}
