//! Counts the calls of each entry point and the threads that made them, writes both at exit where asked, and makes chosen
//! calls fail or do wrong.

use crate::spoil::Spoil;
use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;
use std::sync::{LazyLock, Mutex, PoisonError};

static CALLS: Mutex<BTreeMap<&str, Calls>> = Mutex::new(BTreeMap::new());
/// `FAKE_CUDA_FAIL=cuMemcpyHtoDAsync_v2:3:2`: the third call answers 2. Several stand with commas between.
static FAILING: LazyLock<Vec<Chosen<u32>>> = LazyLock::new(|| chosen("FAKE_CUDA_FAIL", "CODE"));
/// `FAKE_CUDA_SPOIL=cuStreamWaitEvent:3:ignored`: the third call does wrong and says nothing.
static SPOILT: LazyLock<Vec<Chosen<Spoil>>> = LazyLock::new(|| chosen("FAKE_CUDA_SPOIL", Spoil::WORDS));

/// The calls of one entry point.
#[derive(Default)]
struct Calls {
    number: u64,
    threads: HashSet<libc::pid_t>,
}

/// What one call of an entry point is told to do.
struct Chosen<T> {
    entry: String,
    call: u64,
    what: T,
}

/// What is planted in a call.
#[derive(Clone, Copy)]
pub enum Planted {
    /// It answers with this code and does nothing.
    Answer(u32),
    Spoil(Spoil),
}

fn chosen<T: FromStr>(variable: &str, what: &str) -> Vec<Chosen<T>> {
    let text = std::env::var(variable).unwrap_or_default();
    let one = |part: &str| {
        let mut words = part.split(':');
        let (entry, call, what) = (words.next()?.to_owned(), words.next()?, words.next()?);
        Some(Chosen { entry, call: call.parse().ok()?, what: what.parse().ok()? })
    };
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            one(part).unwrap_or_else(|| {
                eprintln!("fake CUDA driver: {variable} must be ENTRY:CALL:{what}, not `{part}`");
                std::process::exit(70)
            })
        })
        .collect()
}

fn find<T: Copy>(all: &[Chosen<T>], entry: &str, number: u64) -> Option<T> {
    all.iter().find(|one| one.entry == entry && one.call == number).map(|one| one.what)
}

/// Counts a call. It gives what is planted in it, if anything.
pub fn count(entry: &'static str) -> Option<Planted> {
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    if calls.is_empty() && std::env::var_os("FAKE_CUDA_COUNTS").is_some() {
        unsafe { libc::atexit(write) };
    }
    let of_entry = calls.entry(entry).or_default();
    of_entry.number += 1;
    of_entry.threads.insert(unsafe { libc::gettid() });
    let number = of_entry.number;
    // A variable that says nothing ends the process, and its end writes the counts.
    drop(calls);
    let answer = find(&FAILING, entry, number).map(Planted::Answer);
    answer.or_else(|| find(&SPOILT, entry, number).map(Planted::Spoil))
}

/// Two lines an entry point: its name and the number of its calls, and how many threads made them.
extern "C" fn write() {
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = |(entry, calls): (&&str, &Calls)| {
        format!("{entry} {}\nthreads_of_{entry} {}\n", calls.number, calls.threads.len())
    };
    let text: String = calls.iter().map(lines).collect();
    if let Some(path) = std::env::var_os("FAKE_CUDA_COUNTS")
        && let Err(error) = std::fs::write(path, text)
    {
        eprintln!("fake CUDA driver: FAKE_CUDA_COUNTS: {error}");
    }
}
