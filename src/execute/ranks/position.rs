//! How far a rank is in its step, for those who look at it meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::execute::observe::words;
use crate::execute::ranks::placement::{Issue, Placement};
use crate::execute::world::control::Doing;
use crate::lower::Stream;

/// How far a rank is in its step.
pub struct Position {
    placement: Arc<Placement>,
    step: AtomicU64,
    is_in_step: AtomicBool,
    /// Its device was given the whole step as one.
    is_whole: AtomicBool,
    /// By stream, how many of its instructions were performed in the last step.
    performed: [AtomicUsize; Stream::ALL.len()],
}

impl Position {
    /// Of a rank that runs `placement` and has not begun.
    pub fn new(placement: Arc<Placement>) -> Self {
        Self {
            placement,
            step: AtomicU64::new(0),
            is_in_step: AtomicBool::new(false),
            is_whole: AtomicBool::new(false),
            performed: Default::default(),
        }
    }

    /// Step `step` begins.
    pub fn begin(&self, step: u64) {
        self.step.store(step, Ordering::Release);
        self.performed.iter().for_each(|performed| performed.store(0, Ordering::Release));
        self.is_whole.store(false, Ordering::Release);
        self.is_in_step.store(true, Ordering::Release);
    }

    /// The device is given the whole step as one.
    pub fn is_given_whole(&self) {
        self.is_whole.store(true, Ordering::Release);
    }

    /// The step is over.
    pub fn end(&self) {
        self.is_in_step.store(false, Ordering::Release);
    }

    /// `stream` has performed `count` of its instructions.
    pub fn reach(&self, stream: Stream, count: usize) {
        self.performed[stream as usize].store(count, Ordering::Release);
    }

    /// How many of the instructions of `stream` were performed in the last step.
    pub fn performed(&self, stream: Stream) -> usize {
        self.performed[stream as usize].load(Ordering::Acquire)
    }

    /// What the rank is at: of the instructions that do not wait for others of the rank, one that computes, or else one for
    /// which the rank waits for its peers.
    pub fn doing(&self) -> Doing {
        let step = self.step.load(Ordering::Acquire);
        let performed = Stream::ALL.map(|stream| self.performed(stream));
        let done = step * self.placement.issues.len() as u64 + performed.iter().sum::<usize>() as u64;
        if !self.is_in_step.load(Ordering::Acquire) {
            return Doing { done, ..Doing::default() };
        }
        if self.is_whole.load(Ordering::Acquire) {
            let at = format!("step {}, which its device does as one graph", step + 1);
            return Doing { done, at, waits: true };
        }
        let next = Stream::ALL.into_iter().filter_map(|stream| {
            let place = self.placement.streams[stream as usize].get(performed[stream as usize])?;
            Some(&self.placement.issues[*place as usize])
        });
        let may_run =
            |issue: &&Issue| performed.iter().zip(&issue.waits).all(|(done, wait)| done >= &(*wait as usize));
        let at = next.filter(may_run).min_by_key(|issue| issue.op.is_communication());
        let Some(issue) = at else { return Doing { done, ..Doing::default() } };
        let unit = issue.unit.map_or_else(String::new, |unit| format!(" of unit {unit}"));
        Doing {
            done,
            at: format!("step {}, {}{unit}, micro-batch {}", step + 1, words::task(issue.task), issue.micro),
            waits: issue.op.is_communication(),
        }
    }
}
