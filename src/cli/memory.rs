//! A process that gets no memory ends with a sentence and an exit code, wherever it was.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;

use super::error::{CliError, Kind};
use crate::execute::limits;
use crate::execute::threads;
use crate::units::Bytes;

/// Addresses that any command needs.
const LEAST: Bytes = Bytes(48 << 20);

/// Bytes of the main thread's stack.
const STACK: usize = 1 << 20;

/// The system's allocator, which ends the process where there is no memory: Rust would abort it.
#[derive(Debug)]
pub struct Heap;

// SAFETY: every call is handed on to the system's allocator as it came.
#[expect(unsafe_code, reason = "an allocator")]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.realloc(pointer, layout, size) }, size)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn given(pointer: *mut u8, bytes: usize) -> *mut u8 {
    if pointer.is_null() {
        end::without_memory(bytes);
    }
    pointer
}

/// Takes what every command needs before it begins; an error under `--json` is a document.
///
/// # Errors
/// If the limits on this process leave too little.
pub fn prepare(json: bool) -> Result<(), CliError> {
    end::in_json(json);
    let left = limits::addresses();
    if let Some(left) = left {
        if left < LEAST {
            let message =
                format!("the limit on this process (ulimit -v) leaves {left}; it needs {LEAST} at least");
            return Err(lacking(message, left));
        }
        end::with_one_heap();
        // Later there may be no room for it to grow.
        if limits::stack().is_none_or(|most| most.0 >= 4 * STACK as u64) {
            touch_stack();
        }
    }
    // A quarter of what there is for threads leaves the rest for work.
    let most = left.map_or(usize::MAX, |left| (left.0 / 4 / threads::ADDRESSES.0).max(1) as usize);
    let wanted = std::thread::available_parallelism().map_or(1, usize::from);
    let said = std::env::var("RAYON_NUM_THREADS").ok().and_then(|count| count.parse().ok());
    let wanted: usize = said.filter(|count| *count > 0).unwrap_or(wanted).min(most);
    // Rayon makes this pool once, so there is no second try with fewer.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(wanted).stack_size(threads::STACK);
    pool.build_global().map_err(|error| {
        let message =
            format!("the system does not give {wanted} threads: {error}; RAYON_NUM_THREADS asks for fewer");
        CliError {
            kind: Kind::Run,
            ..CliError { field: "threads".to_owned(), ..lacking(message, Bytes::ZERO) }
        }
    })
}

fn lacking(message: String, left: Bytes) -> CliError {
    CliError {
        kind: Kind::Infeasible,
        field: "memory".to_owned(),
        value: left.0.to_string(),
        message,
        nearest: Vec::new(),
    }
}

/// Makes the stack as long as it may get.
#[inline(never)]
fn touch_stack() {
    black_box([0_u8; STACK]);
}

#[cfg(unix)]
mod end {
    //! The end of a process that can take no memory any more, not even to say so.

    #![expect(unsafe_code, reason = "what the standard library does takes memory, or locks that may be held")]

    use std::io::{self, Write};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use crate::cli::error::Kind;

    static JSON: AtomicBool = AtomicBool::new(false);
    static IS_ENDING: AtomicBool = AtomicBool::new(false);

    pub fn in_json(json: bool) {
        JSON.store(json, Ordering::Relaxed);
    }

    /// Says that there is no memory, and ends the process. Of several threads, one does.
    pub fn without_memory(bytes: usize) -> ! {
        if IS_ENDING.swap(true, Ordering::SeqCst) {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        }
        say(libc::STDERR_FILENO, format_args!("error: {}\n", Sentence(bytes)));
        if JSON.load(Ordering::Relaxed) {
            let sentence = Sentence(bytes);
            say(
                libc::STDOUT_FILENO,
                format_args!(
                    "{{\"error\":{{\"kind\":\"infeasible\",\"field\":\"memory\",\"value\":\"{bytes}\",\"message\":\
                     \"{sentence}\",\"nearest\":[]}}}}\n"
                ),
            );
        }
        // SAFETY: it does not return, and runs nothing of this program.
        unsafe { libc::_exit(i32::from(Kind::Infeasible.code())) }
    }

    struct Sentence(usize);

    impl std::fmt::Display for Sentence {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(
                f,
                "there is no memory for {} B more: of this machine or within the limits of this process (ulimit)",
                self.0
            )
        }
    }

    /// Writes to a file that is open, without any memory but this.
    fn say(file: i32, what: std::fmt::Arguments<'_>) {
        let mut text = [0_u8; 512];
        let left = {
            let mut rest = io::Cursor::new(&mut text[..]);
            let _ = rest.write_fmt(what);
            rest.position() as usize
        };
        // SAFETY: the text is there for as long as the call takes.
        unsafe { libc::write(file, text.as_ptr().cast(), left) };
    }

    /// Threads share one heap: each of their own would take 64 MiB of addresses.
    pub fn with_one_heap() {
        #[cfg(target_env = "gnu")]
        // SAFETY: it sets a number, and no other thread is there yet.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

#[cfg(not(unix))]
mod end {
    //! Elsewhere Rust ends the process.

    pub fn in_json(_: bool) {}

    pub fn without_memory(_: usize) {}

    pub fn with_one_heap() {}
}
