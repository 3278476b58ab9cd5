//! Threads that work together: all of them start, or none does anything.

use std::io;
use std::sync::mpsc;
use std::thread::{self, Builder};

use crate::execute::limits;
use crate::units::Bytes;

/// Bytes of each thread's stack.
pub const STACK: usize = 2 << 20;

/// Addresses that a thread takes: its stack and what guards it, the one that signals have, and the first of its memory.
pub const ADDRESSES: Bytes = Bytes((STACK + (256 << 10)) as u64);

/// The work of one thread.
pub type Work<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Does each of `others` on a thread of its own while this one does `own`; ends when all have ended.
///
/// # Errors
/// If the system gives too few threads. Then nothing was done.
pub fn together<R>(others: Vec<Work<'_>>, own: impl FnOnce() -> R) -> io::Result<R> {
    // A thread that finds no memory for its signals' stack cannot say so: it ends the process.
    let needed = Bytes(others.len() as u64 * ADDRESSES.0);
    if limits::addresses().is_some_and(|left| left < needed) {
        return Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            "the limit on its memory leaves no room for them",
        ));
    }
    thread::scope(|scope| {
        let mut starts = Vec::with_capacity(others.len());
        for work in others {
            let (start, started) = mpsc::sync_channel::<()>(1);
            let wait = move || {
                if started.recv().is_ok() {
                    work();
                }
            };
            // Where one is not to be had, those before it hear that there is no start, and end.
            Builder::new().stack_size(STACK).spawn_scoped(scope, wait)?;
            starts.push(start);
        }
        for start in &starts {
            // It waits for this.
            let _ = start.send(());
        }
        Ok(own())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn all_of_them_work_at_the_same_time() {
        let (gate, done) = (Barrier::new(5), AtomicUsize::new(0));
        let work = || -> Work<'_> {
            Box::new(|| {
                gate.wait();
                done.fetch_add(1, Ordering::Relaxed);
            })
        };
        let own = together((0..4).map(|_| work()).collect(), || gate.wait().is_leader());
        assert!(own.is_ok());
        assert_eq!(done.into_inner(), 4);
    }
}
