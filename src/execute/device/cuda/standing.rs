//! How far each stream of a rank has come in what it submitted, and by which events others wait for it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::stream::Event;
use crate::execute::comm::Alarm;
use crate::lower::Stream;
use crate::program::issue_order::Waits;

/// The end of an instruction.
#[derive(Clone, Debug)]
pub enum End {
    /// The host did it, and it is over.
    Past,
    /// It was submitted to a stream of the GPU.
    Event(Arc<Event>),
}

#[derive(Default)]
struct State {
    /// How often it began.
    pass: u64,
    submitted: Waits,
    /// By stream and instruction.
    ends: [Vec<End>; Stream::ALL.len()],
    failed: bool,
}

/// What the streams of one rank have submitted in this step.
///
/// An event may be waited for only once it was recorded: a thread waits here until that is so. One thread submits all of the
/// GPU's streams, behind what they wait for, so it waits here for the host's stream alone, and the host's for it. The GPU
/// itself may be far behind.
#[derive(Default)]
pub struct Standing {
    state: Mutex<State>,
    moved: Condvar,
    /// Rings when another rank has failed, which may then never do what a stream of this one waits for.
    alarm: Alarm,
}

/// How often a thread that waits looks whether another rank has failed.
const LOOK: Duration = Duration::from_millis(100);

impl Standing {
    /// Of a rank that is told by `alarm` if another fails.
    pub fn new(alarm: Alarm) -> Self {
        Self { alarm, ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new pass, which is a step or its capture: nothing is submitted, nothing has failed.
    pub fn restart(&self) {
        let mut state = self.lock();
        state.pass += 1;
        (state.submitted, state.failed) = (Waits::default(), false);
        state.ends.iter_mut().for_each(Vec::clear);
    }

    /// The number of the pass, from 1 on.
    pub fn pass(&self) -> u64 {
        self.lock().pass
    }

    /// Blocks until every stream has submitted what `waits` asks for. The ends of the last instruction of each that is
    /// asked of more than `known` says; none if a stream of the rank has failed,
    /// or another rank.
    pub fn wait(&self, waits: &Waits, known: &Waits) -> Option<Vec<End>> {
        let mut state = self.lock();
        loop {
            if state.failed || self.alarm.check().is_err() {
                return None;
            }
            if state.submitted.iter().zip(waits).all(|(submitted, wait)| submitted >= wait) {
                break;
            }
            (state, _) = self.moved.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner);
        }
        let asked = waits.iter().zip(known).zip(&state.ends).filter(|((wait, known), _)| wait > known);
        Some(asked.map(|((wait, _), ends)| ends[*wait as usize - 1].clone()).collect())
    }

    /// `stream` has submitted one more instruction, which ends at `end`.
    pub fn advance(&self, stream: Stream, end: End) {
        let mut state = self.lock();
        state.submitted[stream as usize] += 1;
        state.ends[stream as usize].push(end);
        self.moved.notify_all();
    }

    /// A stream has failed: nobody waits for it any more.
    pub fn fail(&self) {
        self.lock().failed = true;
        self.moved.notify_all();
    }
}
