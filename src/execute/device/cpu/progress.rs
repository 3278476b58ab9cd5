//! How far each stream of a rank has come, and how its other streams wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::lower::Stream;
use crate::program::issue_order::Waits;

#[derive(Default)]
struct State {
    done: Waits,
    failed: bool,
    waiting: u32,
}

/// Instructions done by each stream of one rank in this step.
#[derive(Default)]
pub struct Progress {
    state: Mutex<State>,
    moved: Condvar,
}

impl Progress {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new step: nothing is done, nothing has failed.
    pub fn restart(&self) {
        let mut state = self.lock();
        (state.done, state.failed) = (Waits::default(), false);
    }

    /// Blocks until every stream has done what `waits` asks for. False if a stream of the rank has failed.
    pub fn wait(&self, waits: &Waits) -> bool {
        let mut state = self.lock();
        loop {
            if state.failed {
                return false;
            }
            if state.done.iter().zip(waits).all(|(done, wait)| done >= wait) {
                return true;
            }
            state.waiting += 1;
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// `stream` has done one more instruction.
    pub fn advance(&self, stream: Stream) {
        let mut state = self.lock();
        state.done[stream as usize] += 1;
        if state.waiting > 0 {
            self.moved.notify_all();
        }
    }

    /// A stream has failed: nobody waits for it any more.
    pub fn fail(&self) {
        self.lock().failed = true;
        self.moved.notify_all();
    }
}
