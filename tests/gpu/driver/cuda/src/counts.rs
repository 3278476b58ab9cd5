//! Counts the calls of each entry point, writes them at exit where asked, and makes chosen calls fail.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

static CALLS: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());
static PLANTED: LazyLock<Vec<Planted>> = LazyLock::new(planted);

/// `FAKE_CUDA_FAIL=cuMemcpyHtoDAsync_v2:3:2`: the third call answers 2. Several stand with commas between.
struct Planted {
    entry: String,
    call: u64,
    code: u32,
}

fn planted() -> Vec<Planted> {
    let text = std::env::var("FAKE_CUDA_FAIL").unwrap_or_default();
    let one = |part: &str| {
        let mut words = part.split(':');
        let (entry, call, code) = (words.next()?.to_owned(), words.next()?, words.next()?);
        Some(Planted { entry, call: call.parse().ok()?, code: code.parse().ok()? })
    };
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            one(part).unwrap_or_else(|| {
                eprintln!("fake CUDA driver: FAKE_CUDA_FAIL must be ENTRY:CALL:CODE, not `{part}`");
                std::process::exit(70)
            })
        })
        .collect()
}

/// Counts a call. It gives the code with which the call must fail, if any.
pub fn count(entry: &'static str) -> Option<u32> {
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    if calls.is_empty() && std::env::var_os("FAKE_CUDA_COUNTS").is_some() {
        unsafe { libc::atexit(write) };
    }
    let number = calls.entry(entry).or_default();
    *number += 1;
    PLANTED
        .iter()
        .find(|planted| planted.entry == entry && planted.call == *number)
        .map(|planted| planted.code)
}

/// A line an entry point: its name and the number of its calls.
extern "C" fn write() {
    let calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let text: String = calls.iter().map(|(entry, number)| format!("{entry} {number}\n")).collect();
    if let Some(path) = std::env::var_os("FAKE_CUDA_COUNTS")
        && let Err(error) = std::fs::write(path, text)
    {
        eprintln!("fake CUDA driver: FAKE_CUDA_COUNTS: {error}");
    }
}
