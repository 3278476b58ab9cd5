//! Compiles every source that launches ask for, with the compiler and the sources of the shipped program, and writes what
//! registers and memory each kernel takes to `docs/reference/cuda-kernels.md`, and what bytes and FLOPs it needs. Fails if a
//! kernel spills, or moves much more than the least, without a reason, if it computes much more, and if no case launches it.
//!
//! For one architecture all is compiled, for the others what is not known from before; with `--all` for all of them.

mod known;
mod page;
mod roofline;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use gpu::kept::{Cache, Key, key};
use gpu::nvrtc::{NVRTC, Nvrtc, Program};
use gpu::roofline::{Entry, Size};
use gpu::search::Search;
use gpu::sources;
use gpu::{Case, Source, cases, listed};
use known::Known;
use page::{Rows, page, unexplained};
use usage::{Usage, usages};

const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];
/// For this one, sources are compiled although it is known what they take.
const COMPILED: &str = "sm_90";

/// Why a kernel keeps values of a thread in memory: the kernel, what its options contain, the reason.
const REASONS: &[(&str, &str, &str)] = &[];

/// Why a kernel moves much more than its operator needs.
const REASONS_FOR_MORE: roofline::Reasons = &[
    ("attention_forward", KEYS_AGAIN),
    ("attention_backward_queries", KEYS_AGAIN),
    ("attention_backward_keys", QUERIES_AGAIN),
    ("attention_plain_forward", KEYS_AGAIN),
    ("attention_plain_backward_queries", KEYS_AGAIN),
    ("attention_plain_backward_keys", QUERIES_AGAIN),
    ("attention_plain_soft_cap", KEYS_AGAIN),
    (
        "attention_softmax",
        "scores are read for their sum and again for the result, as they may not fit registers",
    ),
    (
        "attention_softmax_backward",
        "both rows are read for their sum and again for the result, as they may not fit registers",
    ),
    ("dropout_rows", NUMBERS_AGAIN),
    ("gemm", TILES_AGAIN),
    ("gemm_fma", TILES_AGAIN),
    (
        "norm_forward",
        "the row is read for its sum of squares and again for the result, as it may not fit registers",
    ),
    (
        "norm_input_gradient",
        "both rows are read for their sums and again for the result, as they may not fit registers",
    ),
    ("residual_forward", NUMBERS_AGAIN),
    (
        "routing_assign",
        "a warp reads its row for the softmax and again for each choice: 256 bytes that stay in L1",
    ),
    ("routing_choose", "a warp reads its row again for each choice: 256 bytes that stay in L1"),
    (
        "routing_place",
        "the block of each expert looks through all choices, so that slots come in the order of tokens",
    ),
    (
        "routing_to_slots",
        "each slot reads its token's row, so that it is read for each of the token's experts",
    ),
];

const KEYS_AGAIN: &str =
    "each tile of queries reads the keys and values that it sees, as a block keeps no more";
const QUERIES_AGAIN: &str = "each tile of keys reads the queries that see it, as a block keeps no more";
const NUMBERS_AGAIN: &str = "each thread reads the step's numbers and its row's place: a broadcast from L1";
const TILES_AGAIN: &str = "each tile of the result reads its rows and columns, as a block keeps no more";

/// By architecture, what the compiler was given and what it said of each kernel.
type Compiled = Vec<(Key, Vec<(String, Usage)>)>;

fn main() -> ExitCode {
    match gate() {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
            ExitCode::FAILURE
        }
    }
}

fn gate() -> Result<String, Vec<String>> {
    let repository = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let nvrtc = Nvrtc::find(&Search::from_environment(&NVRTC)).map_err(|fault| vec![fault.to_string()])?;
    let cache = Cache::new(repository.join("target/gate"));
    let known_path = repository.join("tests/gpu/src/bin/gate/known.txt");
    let everything = std::env::args().any(|argument| argument == "--all");
    let known =
        if everything { String::new() } else { std::fs::read_to_string(&known_path).unwrap_or_default() };
    let (known, mut found_now) = (Known::read(&known), Known::default());
    let listed = listed::sources();
    let unlisted =
        sources::KERNELS.iter().filter(|(file, _)| listed.iter().all(|source| source.file != *file));
    let mut faults: Vec<String> =
        unlisted.map(|(file, _)| format!("{file}: no launch asks for this source")).collect();

    let mut rows = Rows::new();
    for (source, found) in
        listed.iter().zip(all_of(&listed, |source| compiled(&nvrtc, &cache, &known, source)))
    {
        match found {
            Ok(architectures) => {
                for (key, usages) in architectures {
                    for (kernel, usage) in &usages {
                        let row = (source.file, words(&source.options), kernel.clone());
                        rows.entry(row).or_default().push(usage.clone());
                    }
                    found_now.add(&key, usages);
                }
            }
            Err(fault) => faults.push(fault),
        }
    }
    faults.extend(unexplained(&rows, REASONS));
    let cases: Vec<&Case> = cases::all().into_iter().flat_map(|(_, cases)| cases).collect();
    let mut launched = BTreeSet::new();
    for found in all_of(&cases, |case| roofline::launched(case)) {
        match found {
            Ok(kernels) => launched.extend(kernels),
            Err(fault) => faults.push(fault),
        }
    }
    let mut counted = roofline::Rows::new();
    let entries: Vec<Entry> =
        gpu::roofline::all(Size::Small).into_iter().flat_map(|(_, entries)| entries).collect();
    for found in all_of(&entries, roofline::row) {
        match found {
            Ok((name, row)) => drop(counted.insert(name, row)),
            Err(fault) => faults.push(fault.to_string()),
        }
    }
    let kernels: BTreeSet<(&str, &str)> =
        rows.keys().map(|(file, _, kernel)| (*file, kernel.as_str())).collect();
    for (file, kernel) in kernels {
        if !launched.iter().any(|(of, launched)| (of.as_str(), *launched) == (file, kernel)) {
            faults.push(format!("{file}: no case launches {kernel}"));
        }
        if !counted.contains_key(&(file, kernel)) {
            faults.push(format!("{file}: nothing says what {kernel} needs at least"));
        }
    }
    faults.extend(roofline::faults(&counted, REASONS_FOR_MORE));
    if !faults.is_empty() {
        return Err(faults);
    }
    let version = nvrtc.version().to_string();
    let text = page(&rows, REASONS, &version) + &roofline::section(&counted, REASONS_FOR_MORE);
    for (path, text) in
        [(repository.join("docs/reference/cuda-kernels.md"), text), (known_path, found_now.text())]
    {
        std::fs::write(&path, text).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    }
    Ok(format!("{} sources, {} kernels, none spills without a reason", listed.len(), rows.len()))
}

/// What the kernels of `source` take on each architecture.
fn compiled(nvrtc: &Nvrtc, cache: &Cache, known: &Known, source: &Source) -> Result<Compiled, String> {
    let file = source.file;
    let text =
        sources::kernel(file).ok_or_else(|| format!("{file}: a launch asks for it, and it is not there"))?;
    let options = [source.options.as_slice(), &["--ptxas-options=-v".into()]].concat();
    let on = |architecture| {
        let program =
            Program { file, source: text, headers: sources::HEADERS, options: &options, architecture };
        let key = key(&program, nvrtc.version());
        if let Some(usages) = known.get(&key).filter(|_| architecture != COMPILED) {
            return Ok((key, usages.to_vec()));
        }
        let usages = usages(&log_of(nvrtc, cache, &program, &key)?);
        Ok((key, usages.map_err(|fault| format!("{source:?} for {architecture}: {fault}"))?))
    };
    ARCHITECTURES.into_iter().map(on).collect()
}

/// What the assembler says. It is kept in the target folder, because compiling everything takes minutes.
fn log_of(nvrtc: &Nvrtc, cache: &Cache, program: &Program, key: &Key) -> Result<String, String> {
    let version = nvrtc.version();
    if let Some(log) = cache.get(version, key).and_then(|log| String::from_utf8(log).ok()) {
        return Ok(log);
    }
    let (_, log) = nvrtc.compile(program).map_err(|fault| fault.to_string())?;
    cache.put(version, key, log.as_bytes()).map_err(|error| format!("target/gate: {error}"))?;
    Ok(log)
}

/// `work` of each of `jobs`, in order, on all cores.
fn all_of<J: Sync, R: Send>(jobs: &[J], work: impl Fn(&J) -> R + Sync) -> Vec<R> {
    let (queue, done) = (Mutex::new(jobs.iter().enumerate()), Mutex::new(BTreeMap::new()));
    let worker = || {
        loop {
            let Some((index, job)) = queue.lock().expect("no worker panics").next() else { return };
            let result = work(job);
            done.lock().expect("no worker panics").insert(index, result);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    done.into_inner().expect("no worker panics").into_values().collect()
}

/// Options as words of the table.
fn words(options: &[String]) -> String {
    options.iter().map(|option| option.strip_prefix("-D").unwrap_or(option)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Sixty-four sums that are needed all the time, other ones in each thread, and registers for half of them.
    const SPILLING: &str =
        "extern \"C\" __global__ void __launch_bounds__(1024, 2) spilling(float* x, int n) {
        float sums[64];
        x += threadIdx.x;
        for (int i = 0; i < 64; i++) sums[i] = x[i * n];
        for (int step = 0; step < n; step++)
            for (int i = 0; i < 64; i++) sums[i] = sums[i] * x[step] + sums[(i + 1) % 64];
        for (int i = 0; i < 64; i++) x[i * n] = sums[i];
    }";

    #[test]
    fn a_planted_spill_is_seen() {
        if std::env::var_os("MESHWRIGHT_NVRTC").is_none() {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: MESHWRIGHT_NVRTC names no folder, so nothing is compiled here"
            );
            return;
        }
        let nvrtc = Nvrtc::find(&Search::from_environment(&NVRTC)).unwrap();
        let options = [String::from("--ptxas-options=-v")];
        for architecture in ARCHITECTURES {
            let file = "spilling.cu";
            let program = Program { file, source: SPILLING, headers: &[], options: &options, architecture };
            let found = usages(&nvrtc.compile(&program).unwrap().1).unwrap();
            assert!(found.len() == 1 && found[0].0 == "spilling" && found[0].1.local > 0, "{found:?}");
            let rows = Rows::from([((file, String::new(), found[0].0.clone()), vec![found[0].1.clone()])]);
            assert_eq!(unexplained(&rows, &[]).len(), 1);
        }
    }
}
