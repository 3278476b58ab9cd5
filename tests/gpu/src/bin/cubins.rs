//! Compiles every source that launches ask for: `cubins FOLDER sm_80 sm_90`. The folder is as the shipped program keeps its
//! kernels, so that a machine with a GPU and this folder needs no NVRTC.

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use gpu::kept::{Cache, key};
use gpu::nvrtc::{NVRTC, Nvrtc, Program};
use gpu::search::Search;
use gpu::{Source, listed, sources};

/// Heads of the models that the main crate's tests of CUDA and its oracles train.
const SMALL_HEADS: [u32; 5] = [2, 4, 8, 12, 16];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (folder, architectures) = (words.next(), words.collect::<Vec<_>>());
    let (Some(folder), false) = (folder, architectures.is_empty()) else {
        eprintln!("usage: cubins FOLDER ARCHITECTURE…");
        return ExitCode::from(2);
    };
    match filled(&Cache::new(folder.into()), &architectures) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles what is not there yet, on all cores.
fn filled(cache: &Cache, architectures: &[String]) -> Result<String, String> {
    let nvrtc = Nvrtc::find(&Search::from_environment(&NVRTC)).map_err(|fault| fault.to_string())?;
    let mut sources = listed::sources();
    sources.extend(listed::same_code());
    sources.extend(SMALL_HEADS.into_iter().flat_map(listed::small_attention));
    let mut jobs: Vec<(&Source, &str)> =
        sources.iter().flat_map(|source| architectures.iter().map(move |of| (source, of.as_str()))).collect();
    let count = jobs.len();
    jobs.reverse();
    let (queue, faults) = (Mutex::new(jobs), Mutex::new(Vec::new()));
    let worker = || {
        while let Some((source, architecture)) = { queue.lock().expect("no worker panics").pop() } {
            if let Err(fault) = keep(&nvrtc, cache, source, architecture) {
                faults.lock().expect("no worker panics").push(fault);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    match faults.into_inner().expect("no worker panics").first() {
        None => Ok(format!("{count} binaries by NVRTC {}", nvrtc.version())),
        Some(fault) => Err(fault.clone()),
    }
}

fn keep(nvrtc: &Nvrtc, cache: &Cache, source: &Source, architecture: &str) -> Result<(), String> {
    let file = source.file;
    let text = sources::kernel(file).ok_or_else(|| format!("{file}: no such source"))?;
    let program =
        Program { file, source: text, headers: sources::HEADERS, options: &source.options, architecture };
    let (version, key) = (nvrtc.version(), key(&program, nvrtc.version()));
    if cache.get(version, &key).is_some() {
        return Ok(());
    }
    let (binary, _) = nvrtc.compile(&program).map_err(|fault| fault.to_string())?;
    cache.put(version, &key, &binary).map_err(|error| format!("{file}: cannot be kept: {error}"))
}
