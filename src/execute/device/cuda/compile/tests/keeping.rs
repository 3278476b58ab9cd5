//! The cache by itself: no compiler is needed.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::super::cache::key;
use super::super::error::CompileError;
use super::super::{Compiler, Origin};
use super::*;

const KEY: Key = [7; 32];

/// The only entry of a cache in `folder`.
fn entry(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder.join(format!("nvrtc-{NEW}"))).unwrap();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths.into_iter().next().unwrap()
}

#[test]
fn what_was_kept_is_found_under_its_key_and_version() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().join("below/this"));
    assert_eq!(cache.get(NEW, &KEY), None);
    assert!(cache.versions().is_empty());
    cache.put(NEW, &KEY, b"binary").unwrap();
    cache.put(OLD, &KEY, b"older").unwrap();
    assert_eq!(cache.get(NEW, &KEY).unwrap(), b"binary");
    assert_eq!(cache.get(OLD, &KEY).unwrap(), b"older");
    assert_eq!(cache.get(NEW, &[8; 32]), None);
    fs::create_dir(folder.path().join("below/this/nvrtc-other")).unwrap();
    assert_eq!(cache.versions(), [NEW, OLD]);
}

#[test]
fn no_part_of_an_entry_may_change_and_none_may_lack() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().into());
    cache.put(NEW, &KEY, b"binary").unwrap();
    let path = entry(folder.path());
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_eq!(cache.get(NEW, &KEY), None, "byte {at} changed");
        fs::write(&path, &whole[..at]).unwrap();
        assert_eq!(cache.get(NEW, &KEY), None, "cut off at {at}");
    }
    fs::write(&path, [whole.as_slice(), b"!"].concat()).unwrap();
    assert_eq!(cache.get(NEW, &KEY), None, "one byte too many");
    fs::write(&path, &whole).unwrap();
    assert_eq!(cache.get(NEW, &KEY).unwrap(), b"binary");
}

#[test]
fn an_entry_under_another_ones_name_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().into());
    cache.put(NEW, &KEY, b"binary").unwrap();
    let path = entry(folder.path());
    cache.put(NEW, &[8; 32], b"another").unwrap();
    let name: String = [8; 32].iter().map(|byte: &u8| format!("{byte:02x}")).collect();
    fs::rename(path.with_file_name(name + ".cubin"), &path).unwrap();
    assert_eq!(cache.get(NEW, &KEY), None);
}

#[test]
fn readers_see_whole_entries_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let body = |fill: u8| vec![fill; 1 << 18];
    let done = AtomicBool::new(false);
    let cache = Cache::new(folder.path().into());
    cache.put(NEW, &KEY, &body(0)).unwrap();
    thread::scope(|scope| {
        let writers: Vec<_> = (1..=3)
            .map(|fill| {
                // A cache of its own each, as in different processes.
                let cache = Cache::new(folder.path().into());
                scope.spawn(move || (0..20).for_each(|_| cache.put(NEW, &KEY, &body(fill)).unwrap()))
            })
            .collect();
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let found = cache.get(NEW, &KEY).expect("half an entry was seen");
                assert_eq!(found, body(found[0]));
            }
        });
        let wrote = writers.into_iter().map(|writer| writer.join()).filter(|end| end.is_err()).count();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        assert_eq!(wrote, 0);
    });
    assert_eq!(fs::read(entry(folder.path())).unwrap().len(), (1 << 18) + 80);
}

#[test]
fn all_that_a_binary_depends_on_is_in_its_key() {
    let options = [String::from("-DA"), String::from("-DB")];
    let base = program(&options);
    let (joined, fewer) = ([String::from("-DA-DB")], [String::from("-DA")]);
    let other_header = [("cuda/twice.cuh", "#define FACTOR 3.0f\n")];
    let renamed_header = [("cuda/thrice.cuh", HEADERS[0].1)];
    let keys = [
        key(&base, NEW),
        key(&base, OLD),
        key(&Program { file: "twice/other.cu", ..base }, NEW),
        key(&Program { source: "", ..base }, NEW),
        key(&Program { headers: &[], ..base }, NEW),
        key(&Program { headers: &other_header, ..base }, NEW),
        key(&Program { headers: &renamed_header, ..base }, NEW),
        key(&Program { options: &joined, ..base }, NEW),
        key(&Program { options: &fewer, ..base }, NEW),
        key(&Program { architecture: "sm_80", ..base }, NEW),
    ];
    for (index, one) in keys.iter().enumerate() {
        assert!(!keys[..index].contains(one), "number {index} is as one before it");
    }
    assert_eq!(key(&program(&options), NEW), keys[0]);
}

#[test]
fn without_a_compiler_the_newest_ones_entry_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().into());
    let compiler = Compiler::new(nowhere(), Some(folder.path().into()));
    let fault = compiler.binary_of(&program(&[])).unwrap_err();
    assert!(
        matches!(&fault, CompileError::Missing { looked, .. } if looked == "in /nonexistent/nvrtc"),
        "{fault}"
    );
    cache.put(OLD, &key(&program(&[]), OLD), b"older").unwrap();
    assert_eq!(compiler.binary_of(&program(&[])).unwrap().cubin, b"older");
    cache.put(NEW, &key(&program(&[]), NEW), b"newer").unwrap();
    let found = compiler.binary_of(&program(&[])).unwrap();
    assert_eq!((found.cubin.as_slice(), found.origin), (b"newer".as_slice(), Origin::Cache));
    fs::write(entry(folder.path()), b"damaged").unwrap();
    assert_eq!(compiler.binary_of(&program(&[])).unwrap().cubin, b"older");
    compiler.binary_of(&program(&[String::from("-DOTHER")])).unwrap_err();
}

/// Such as a folder of kernels for 8.0 on a card of 8.6.
#[test]
fn without_a_compiler_a_binary_of_an_older_card_will_do() {
    const FILE: &str = "norm/norm.cu";
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().into());
    let compiler = Compiler::new(nowhere(), Some(folder.path().into()));
    let source = super::super::sources::kernel(FILE).unwrap();
    let headers = super::super::sources::HEADERS;
    let keep = |architecture: &str| {
        let program = Program { file: FILE, source, headers, options: &[], architecture };
        cache.put(NEW, &key(&program, NEW), architecture.as_bytes()).unwrap();
    };
    let found = |capability| compiler.binary(FILE, &[], capability).map(|binary| binary.cubin);
    keep("sm_80");
    assert_eq!(found((8, 6)).unwrap(), b"sm_80");
    keep("sm_86");
    assert_eq!(found((8, 6)).unwrap(), b"sm_86");
    assert_eq!(found((8, 9)).unwrap(), b"sm_86");
    assert_eq!(found((8, 0)).unwrap(), b"sm_80");
    for other in [(9, 0), (7, 5)] {
        assert!(matches!(found(other), Err(CompileError::Missing { .. })), "{other:?}");
    }
}

#[test]
fn entries_of_a_compiler_newer_than_the_driver_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().into());
    let on_driver = |version| Compiler::new(nowhere().for_driver(version), Some(folder.path().into()));
    cache.put(NEW, &key(&program(&[]), NEW), b"newer").unwrap();
    assert!(!on_driver(Some(12_090)).has_kept() && on_driver(Some(13_000)).has_kept());
    let fault = on_driver(Some(12_090)).binary_of(&program(&[])).unwrap_err().to_string();
    assert!(fault.contains("pip install nvidia-cuda-nvrtc-cu12`"), "{fault}");
    cache.put(OLD, &key(&program(&[]), OLD), b"older").unwrap();
    for (driver, expected) in [(Some(12_000), "older"), (Some(13_010), "newer"), (None, "newer")] {
        let found = on_driver(driver).binary_of(&program(&[])).unwrap();
        assert_eq!(found.cubin, expected.as_bytes(), "driver {driver:?}");
    }
}
