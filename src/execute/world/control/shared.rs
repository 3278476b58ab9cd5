//! What the threads of one end of the control connection share: its links, what came over them, and whether the job has
//! failed.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::frame::{self, Kind};
use super::{Doing, JobFailure, OnFailure, Patience, VERDICT};
use crate::execute::comm::Alarm;

/// How long what has come over a connection may take to be read.
const READING: Duration = Duration::from_secs(1);

/// What the threads of one end share.
pub(super) struct Shared {
    pub rank: usize,
    pub host: String,
    /// At rank 0 those of the others, in their order; elsewhere that of rank 0.
    pub links: Vec<Link>,
    pub state: Mutex<State>,
    /// Held while a failure is made known.
    pub failing: Mutex<()>,
    pub moved: Condvar,
    pub alarm: Alarm,
    pub on_failure: OnFailure,
}

/// A connection, and who is at its other end.
pub(super) struct Link {
    pub rank: usize,
    pub host: String,
    /// What its clock shows more than that of rank 0, in seconds.
    pub clock: f64,
    pub stream: TcpStream,
    pub writing: Mutex<()>,
}

/// What is known of the others.
pub(super) struct State {
    /// By link, what came and was not taken yet.
    pub arrived: Vec<VecDeque<Vec<u8>>>,
    /// By link, when it was last heard of, what it did then, and since when it does that.
    pub heard: Vec<Instant>,
    pub doing: Vec<Doing>,
    pub since: Vec<Instant>,
    /// By link, whether it has gone in good order.
    pub left: Vec<bool>,
    pub failure: Option<JobFailure>,
    pub patience: Patience,
    /// What this rank is doing; none between runs.
    pub own: Option<Arc<dyn Fn() -> Doing + Send + Sync>>,
    /// When this process last looked around.
    pub looked: Instant,
    /// It stood still: until then others have said why the job failed.
    pub hushed_until: Instant,
    /// This rank has gone.
    pub is_over: bool,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next contribution of link `index`.
    pub fn take(&self, index: usize) -> Result<Vec<u8>, JobFailure> {
        let mut state = self.lock();
        loop {
            if let Some(bytes) = state.arrived[index].pop_front() {
                return Ok(bytes);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn write(&self, index: usize, kind: Kind, bytes: &[u8]) -> std::io::Result<()> {
        let link = &self.links[index];
        let _alone = link.writing.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&mut &link.stream, kind, bytes)
    }

    /// Why the job failed, if that is known within `limit`.
    pub fn verdict(&self, limit: Duration) -> Option<JobFailure> {
        let goes_on = |state: &mut State| state.failure.is_none();
        let wait = self.moved.wait_timeout_while(self.lock(), limit, goes_on);
        let (state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        state.failure.clone()
    }

    /// Writes to link `index`; a connection that fails is a rank that is gone.
    pub fn send(&self, index: usize, kind: Kind, bytes: &[u8]) -> Result<(), JobFailure> {
        if let Some(failure) = &self.lock().failure {
            return Err(failure.clone());
        }
        self.write(index, kind, bytes).map_err(|error| {
            // What it said before it went may be there and not read yet.
            self.verdict(READING).unwrap_or_else(|| {
                let reason = format!("it is gone: its control connection fails: {error}");
                self.failed(self.gone(index, &reason))
            })
        })
    }

    /// Takes in what comes over link `index` until it ends.
    pub fn listen(&self, index: usize) {
        let mut stream = &self.links[index].stream;
        loop {
            let Ok((kind, bytes)) = frame::read(&mut stream) else {
                let state = self.lock();
                if !state.left[index] && !state.is_over && state.failure.is_none() {
                    drop(state);
                    self.failed(self.gone(index, "it is gone: its control connection has closed"));
                }
                return;
            };
            let mut state = self.lock();
            state.heard[index] = Instant::now();
            match kind {
                Kind::Data => state.arrived[index].push_back(bytes),
                Kind::Left => state.left[index] = true,
                Kind::Beat => {
                    if let Ok(doing) = serde_json::from_slice::<Doing>(&bytes) {
                        if doing.done != state.doing[index].done {
                            state.since[index] = Instant::now();
                        }
                        state.doing[index] = doing;
                    }
                }
                Kind::Failed => {
                    drop(state);
                    if let Ok(failure) = serde_json::from_slice(&bytes) {
                        self.failed(failure);
                    }
                }
            }
            self.moved.notify_all();
        }
    }

    /// Rank of link `index` that can say nothing any more.
    pub fn gone(&self, index: usize, reason: &str) -> JobFailure {
        let link = &self.links[index];
        let doing = self.lock().doing[index].at.clone();
        let at = if doing.is_empty() { String::new() } else { format!("; it was last seen at {doing}") };
        JobFailure {
            rank: link.rank,
            host: link.host.clone(),
            message: format!("{reason}{at}"),
            document: String::new(),
            is_gone: true,
            is_silent: false,
        }
    }

    /// The job has failed: the first failure is kept, rank 0 tells all others. The one that is kept.
    ///
    /// The rank that speaks does so before the others are told: once one of them has ended, a launcher ends all. The others
    /// are told before this process's own threads: these may end it at once, and the others would take it for the rank that
    /// is gone.
    pub fn failed(&self, failure: JobFailure) -> JobFailure {
        let _one = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = &self.lock().failure {
            return first.clone();
        }
        // Telling others may take time, in which this process does not stand still.
        {
            let mut state = self.lock();
            if failure.is_gone && state.looked.elapsed() > state.patience.silence / 2 {
                state.hushed_until = Instant::now() + state.patience.silence;
            }
        }
        if self.speaks(&failure) {
            (self.on_failure.say)(&failure);
        }
        self.alarm.ring(failure.rank, failure.message.clone());
        if self.rank == 0 {
            let text = serde_json::to_vec(&failure).unwrap_or_default();
            for index in 0..self.links.len() {
                // Who cannot be told finds out by the connection's end.
                let _ = self.write(index, Kind::Failed, &text);
            }
        }
        self.lock().failure = Some(failure.clone());
        self.moved.notify_all();
        failure
    }

    /// Rank 0 says it, unless it is gone: then the next does.
    pub fn speaks(&self, failure: &JobFailure) -> bool {
        let speaker = usize::from(failure.rank == 0 && failure.is_gone);
        self.rank == speaker && Instant::now() >= self.lock().hushed_until
    }

    /// Waits for a failure, then for the process to end in good order, and ends it otherwise.
    pub fn resort(&self) {
        let waits = |state: &mut State| state.failure.is_none() && !state.is_over;
        let state = self.moved.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        let Some(failure) = state.failure.clone() else { return };
        drop(state);
        thread::sleep(VERDICT + VERDICT);
        if !self.lock().is_over {
            (self.on_failure.end)(&failure);
        }
    }
}
