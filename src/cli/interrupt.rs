//! A command that is interrupted, by Ctrl-C or SIGTERM, ends with exit code 130 and leaves no half-written file; a run ends
//! after its step.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::search::Stop;

/// The documented exit code.
pub const CODE: u8 = 130;

/// Held while a file is on its way to its place.
static WRITING: Mutex<()> = Mutex::new(());

/// Somebody looks at [`INTERRUPTED`] and will end the process in good order.
static HEEDED: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// This process is one of a job, which ends together: after a step, or with what one of its ranks says.
static OF_A_JOB: AtomicBool = AtomicBool::new(false);

/// Puts off an interrupt for as long as the guard lives.
pub fn hold() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on an interrupt ends the process in good order.
pub fn install() {
    let hangup = hangup::ignored();
    // Where no handler can be installed, the system's default ends the process as well.
    let _ = ctrlc::set_handler(|| {
        // Who interrupts twice does not want to wait.
        let is_second = INTERRUPTED.swap(true, Ordering::SeqCst);
        if OF_A_JOB.load(Ordering::SeqCst) || HEEDED.load(Ordering::SeqCst) && !is_second {
            return;
        }
        let _guard = hold();
        process::exit(i32::from(CODE));
    });
    if hangup {
        hangup::ignore();
    }
}

/// Under `nohup` a run outlives its terminal.
#[cfg(unix)]
mod hangup {
    #![expect(unsafe_code, reason = "the standard library has no signals")]

    pub fn ignored() -> bool {
        // SAFETY: an action may be all zeros, and the call fills it.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut action) == 0
                && action.sa_sigaction == libc::SIG_IGN
        }
    }

    pub fn ignore() {
        // SAFETY: it replaces the handler that ctrlc has just set, and ignoring a signal runs no code.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
}

#[cfg(not(unix))]
mod hangup {
    pub const fn ignored() -> bool {
        false
    }

    pub const fn ignore() {}
}

/// This process is one of a job: from here on interrupts are only noted. The launcher kills who is too slow.
pub fn of_a_job() {
    OF_A_JOB.store(true, Ordering::SeqCst);
}

/// From here on, until [`ignore`], the first interrupt is only noted.
pub fn heed() {
    HEEDED.store(true, Ordering::SeqCst);
}

/// From here on an interrupt ends the process again.
pub fn ignore() {
    HEEDED.store(false, Ordering::SeqCst);
}

/// Asks a search to stop at the first interrupt.
pub fn stop() -> Stop {
    Stop::once(&INTERRUPTED)
}

/// Whether there was an interrupt.
pub fn came() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
