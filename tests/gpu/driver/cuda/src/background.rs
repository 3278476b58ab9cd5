//! The device goes on by itself where others wait for it: a thread does work while there is communication.

use crate::call::{Pause, Session};
use crate::driver::Driver;
use crate::failure::{Answer, is_sticky, log};
use crate::work::Operation;
use std::ffi::c_void;
use std::sync::Once;
use std::time::Duration;

/// How long work is left to who waits for it.
const PATIENCE: Duration = Duration::from_millis(5);

/// Starts the thread, once.
pub fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        stay();
        std::thread::spawn(|| Session::lock().go_on_for_ever());
    });
}

/// The library may not be closed while its thread runs.
fn stay() {
    // SAFETY: the answer is only read if there is one, and the library that it names is open.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(start as *const c_void, &raw mut found) != 0 {
            libc::dlopen(found.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

impl Session {
    fn go_on_for_ever(&mut self) -> ! {
        let mut pause = Pause::always(PATIENCE);
        loop {
            if self.broken.is_some() || !self.nccl.communicates() {
                self.wait();
                continue;
            }
            self.pause(&mut pause);
            if let Err(failure) = self.settle() {
                if let Some(text) = &failure.text {
                    log("the device", text);
                }
                if is_sticky(failure.code) {
                    self.broken.get_or_insert(failure.code);
                }
            }
        }
    }

    /// Does what can be done without another process.
    pub fn settle(&mut self) -> Answer {
        self.run_until(|driver| driver.is_idle() || driver.waits_for_members())
    }
}

impl Driver {
    /// Nothing can go on before another member of a communicator does.
    pub fn waits_for_members(&self) -> bool {
        self.communicates() && self.streams.values().all(|stream| !stream.busy) && self.able().is_empty()
    }

    /// Whether a stream's next work may have to wait for another member.
    pub fn communicates(&self) -> bool {
        self.streams.values().any(|stream| stream.queue.front().is_some_and(Operation::communicates))
    }
}
