//! An interrupted run ends with exit code 130 and leaves no half-written file.

use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The documented exit code.
const CODE: i32 = 130;

/// Held while a file is on its way to its place.
static WRITING: Mutex<()> = Mutex::new(());

/// Puts off an interrupt for as long as the guard lives.
pub fn hold() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on an interrupt ends the process in good order.
pub fn install() {
    // Where no handler can be installed, the system's default ends the process as well.
    let _ = ctrlc::set_handler(|| {
        let _guard = hold();
        process::exit(CODE);
    });
}
