//! Compiling with the real NVRTC.

use std::fs;
use std::thread;

use super::super::cache::key;
use super::super::error::CompileError;
use super::super::nvrtc::Nvrtc;
use super::super::{Compiler, Origin};
use super::*;

const KEPT: Origin = Origin::Compiled { not_kept: None };

#[test]
fn the_second_time_is_from_the_cache() {
    let Some(search) = named() else { return };
    let folder = tempfile::tempdir().unwrap();
    let compiler = || Compiler::new(search.clone(), Some(folder.path().into()));
    let first = compiler().binary_of(&program(&[])).unwrap();
    assert_eq!(first.origin, KEPT);
    assert_eq!(first.cubin[..4], *b"\x7fELF");
    let second = compiler().binary_of(&program(&[])).unwrap();
    assert_eq!((second.origin, second.cubin == first.cubin), (Origin::Cache, true));
    let options = [String::from("-DMORE")];
    assert_eq!(compiler().binary_of(&program(&options)).unwrap().origin, KEPT);
    let without = Compiler::new(nowhere(), Some(folder.path().into()));
    let third = without.binary_of(&program(&[])).unwrap();
    assert_eq!((third.origin, third.cubin == first.cubin), (Origin::Cache, true));
}

#[test]
fn a_virtual_architecture_gives_ptx() {
    let Some(search) = named() else { return };
    let folder = tempfile::tempdir().unwrap();
    let compiler = Compiler::new(search, Some(folder.path().into()));
    let ptx = compiler.binary_of(&Program { architecture: "compute_80", ..program(&[]) }).unwrap().cubin;
    let text = String::from_utf8(ptx).unwrap();
    assert!(text.contains(".target sm_80") && text.contains(".entry twice("), "{text}");
    // Each has an entry of its own.
    assert_eq!(compiler.binary_of(&program(&[])).unwrap().cubin[..4], *b"\x7fELF");
}

#[test]
fn a_damaged_entry_is_made_anew() {
    let Some(search) = named() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (cache, version) = (Cache::new(folder.path().into()), Nvrtc::find(&search).unwrap().version());
    let compiler = Compiler::new(search, Some(folder.path().into()));
    let whole = compiler.binary_of(&program(&[])).unwrap().cubin;
    let below = fs::read_dir(folder.path().join(format!("nvrtc-{version}"))).unwrap();
    let path = below.map(|entry| entry.unwrap().path()).next().unwrap();
    let kept = fs::read(&path).unwrap();
    let mut damaged = kept.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for bytes in [damaged.as_slice(), &kept[..kept.len() / 2], b"", b"of something else"] {
        fs::write(&path, bytes).unwrap();
        let again = compiler.binary_of(&program(&[])).unwrap();
        assert_eq!((again.origin, again.cubin == whole), (KEPT, true));
        assert!(cache.get(version, &key(&program(&[]), version)).is_some());
    }
}

#[test]
fn threads_that_ask_at_once_compile_once() {
    let Some(search) = named() else { return };
    let folder = tempfile::tempdir().unwrap();
    let compiler = Compiler::new(search, Some(folder.path().into()));
    let origins: Vec<Origin> = thread::scope(|scope| {
        let asking: Vec<_> =
            (0..4).map(|_| scope.spawn(|| compiler.binary_of(&program(&[])).unwrap().origin)).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(origins.iter().filter(|origin| **origin == KEPT).count(), 1, "{origins:?}");
}

#[test]
fn a_fault_names_file_and_line() {
    let Some(search) = named() else { return };
    let compiler = Compiler::new(search, None);
    let source = "extern \"C\" __global__ void wrong(float* x) {\n    x[0] = nothing;\n}\n";
    let options = [String::from("-DA=1")];
    let text = compiler.binary_of(&Program { source, ..program(&options) }).unwrap_err().to_string();
    for part in ["`twice/twice.cu`", "sm_90", "-DA=1", "twice/twice.cu(2): error", "\"nothing\" is undefined"]
    {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    let text = compiler.binary_of(&Program { headers: &[], ..program(&[]) }).unwrap_err().to_string();
    assert!(text.contains("twice/twice.cu(1)") && text.contains("cuda/twice.cuh"), "{text}");
    let headers = [("cuda/twice.cuh", "#define FACTOR\n#error \"planted\"\n")];
    let text = compiler.binary_of(&Program { headers: &headers, ..program(&[]) }).unwrap_err().to_string();
    assert!(text.contains("cuda/twice.cuh(2): ") && text.contains("planted"), "{text}");
    let text = compiler.binary_of(&Program { architecture: "sm_1", ..program(&[]) }).unwrap_err().to_string();
    assert!(text.contains("gpu-architecture"), "{text}");
    let fault = compiler.binary_of(&Program { source: "\0", ..program(&[]) }).unwrap_err();
    assert_eq!(fault, CompileError::ZeroByte { file: "twice/twice.cu".into() });
}

/// As where toolkits of several releases lie in one folder.
#[test]
fn built_in_functions_of_another_release_do_no_harm() {
    let Some(search) = named() else { return };
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(&search.folders[0]).unwrap().map(Result::unwrap) {
        std::os::unix::fs::symlink(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    for release in ["0", "12.9", "99"] {
        fs::write(folder.path().join(format!("libnvrtc-builtins.so.{release}")), "no library").unwrap();
    }
    let search = Search { folders: vec![folder.path().into()], ..search };
    Compiler::new(search, None).binary_of(&program(&[])).unwrap();
}

#[test]
fn the_compiler_tells_what_it_compiles_for() {
    let Some(search) = named() else { return };
    let known = Nvrtc::find(&search).unwrap().architectures();
    assert!(known.contains(&80) && known.contains(&90), "{known:?}");
}

#[test]
fn where_nothing_can_be_written_all_is_compiled() {
    let Some(search) = named() else { return };
    // A file where the folder should be: not even root writes below it.
    let file = tempfile::NamedTempFile::new().unwrap();
    for folder in [Some(file.path().join("cache")), None] {
        let compiler = Compiler::new(search.clone(), folder);
        for _ in 0..2 {
            let origin = compiler.binary_of(&program(&[])).unwrap().origin;
            assert!(matches!(origin, Origin::Compiled { not_kept: Some(_) }), "{origin:?}");
        }
    }
}
