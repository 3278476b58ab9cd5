//! `libnccl`: groups, questions to communicators, and their ends. How they begin and what they do is in other files.

use super::give;
use crate::call::{Need, Session, call, entries, notify};
use crate::counts;
use crate::driver::Handle;
use crate::failure::{Answer, Failure};
use crate::nccl::communicator::SLOW_QUESTIONS;
use crate::nccl::users::{self, Use};
use crate::nccl::{Code, WORDS, group, refuse};
use std::ffi::{c_char, c_int};

/// Writes an answer to where the program wants it.
pub unsafe fn tell<T>(to: *mut T, value: T) -> Answer {
    unsafe { give(to, value) }.or_else(|_| refuse(Code::InvalidArgument, "a null pointer"))
}

/// A call on a communicator, of which one thread makes one at a time.
pub fn call_on(
    entry: &'static str,
    handle: Handle,
    what: Use,
    work: impl FnOnce(&mut Session) -> Answer,
) -> u32 {
    let inside = users::enter(handle as u64, what);
    let code = call(entry, Need::Nothing, |session| {
        let result = match &inside {
            Ok(_) => work(session),
            Err(failure) => Err(Failure { code: failure.code, text: failure.text.clone() }),
        };
        session.remember(result)
    });
    if group::is_open() {
        match &inside {
            Ok(inside) if code == Code::Success as u32 && what == Use::Launch => users::hold(inside),
            _ if code != Code::Success as u32 && code != Code::InProgress as u32 => group::spoil(code),
            _ => {}
        }
    }
    code
}

entries! {
    Nothing fn ncclGetVersion(version: *mut c_int) |session| { tell(version, session.settings.nccl.version) }

    Nothing fn ncclGroupStart() |_session| {
        group::start();
        Ok(())
    }

    Nothing fn ncclCommCount(communicator: Handle, count: *mut c_int) |session| {
        let size = session.nccl.communicator(communicator).map(|known| known.seat.size);
        session.remember(size.and_then(|size| tell(count, size as c_int)))
    }

    Nothing fn ncclCommUserRank(communicator: Handle, rank: *mut c_int) |session| {
        let own = session.nccl.communicator(communicator).map(|known| known.seat.rank);
        session.remember(own.and_then(|own| tell(rank, own as c_int)))
    }

    // Any thread may ask.
    Nothing fn ncclCommGetAsyncError(communicator: Handle, code: *mut u32) |session| {
        let asked = session.ask(communicator);
        session.remember(asked.and_then(|answer| tell(code, answer as u32)))
    }
}

/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGroupEnd() -> u32 {
    let mut ended = false;
    let code = call("ncclGroupEnd", Need::Nothing, |session| {
        ended = true;
        let result = session.end_group();
        session.remember(result)
    });
    // A planted fault ends the group as well.
    if !ended {
        group::give_up();
    }
    code
}

/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommFinalize(communicator: Handle) -> u32 {
    call_on("ncclCommFinalize", communicator, Use::Change, |session| {
        let slow = session.settings.nccl.slow;
        let known = session.nccl.communicator(communicator)?;
        known.allow()?;
        known.finalised = true;
        if known.blocking {
            return session.finish_work(communicator);
        }
        known.questions = if slow { SLOW_QUESTIONS } else { 0 };
        known.answer()
    })
}

/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommDestroy(communicator: Handle) -> u32 {
    call_on("ncclCommDestroy", communicator, Use::Change, |session| {
        let known = session.nccl.communicator(communicator)?;
        known.look();
        if !known.ready || known.questions > 0 {
            let text = format!("communicator {} is destroyed before its earlier call has ended", known.name);
            return refuse(Code::InvalidArgument, text);
        }
        known.failure()?;
        session.finish_work(communicator)?;
        session.leave(communicator as u64);
        Ok(())
    })
}

/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommAbort(communicator: Handle) -> u32 {
    call_on("ncclCommAbort", communicator, Use::Abort, |session| {
        let known = session.nccl.communicator(communicator)?;
        known.aborted = true;
        known.late.clear();
        session.leave(communicator as u64);
        notify();
        Ok(())
    })
}

/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetErrorString(code: u32) -> *const c_char {
    counts::count("ncclGetErrorString");
    WORDS.get(code as usize).unwrap_or(&WORDS[WORDS.len() - 1]).as_ptr()
}

/// The words of the communicator's failure, or else of the process's latest.
///
/// # Safety
/// None is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetLastError(communicator: Handle) -> *const c_char {
    counts::count("ncclGetLastError");
    let mut session = Session::lock();
    let known = session.nccl.communicators.get(&(communicator as u64));
    if let Some((_, text)) = known.and_then(|known| known.failed.clone()) {
        session.nccl.remember(&text);
    }
    session.nccl.latest.as_ptr()
}

impl Session {
    /// Keeps the words of a failure.
    pub fn remember(&mut self, result: Answer) -> Answer {
        if let Err(Failure { text: Some(text), .. }) = &result {
            self.nccl.remember(text);
        }
        result
    }

    /// Whether a communicator has failed, or is in progress.
    fn ask(&mut self, handle: Handle) -> Answer<Code> {
        let communicator = self.nccl.communicator(handle)?;
        communicator.look();
        if communicator.ready && communicator.questions > 0 {
            communicator.questions -= 1;
            if communicator.questions == 0 {
                let late = std::mem::take(&mut communicator.late);
                if let Err(failure) = self.queue(handle as u64, late) {
                    let text = failure.text.unwrap_or_default();
                    self.nccl.communicator(handle)?.fail(Code::UnhandledCudaError, &text);
                }
            }
        }
        let communicator = self.nccl.communicator(handle)?;
        Ok(match communicator.failed {
            Some((code, _)) => code,
            None if communicator.is_in_progress() => Code::InProgress,
            None => Code::Success,
        })
    }

    /// Waits until all that the communicator was given is done.
    fn finish_work(&mut self, handle: Handle) -> Answer {
        let key = handle as u64;
        let done = self.run_until(|driver| {
            driver.nccl.communicators.get(&key).is_none_or(|known| known.has_ended() || !known.is_working())
        });
        done.map_err(|failure| self.nccl_failed(failure))?;
        self.nccl.communicator(handle)?.failure()
    }
}
