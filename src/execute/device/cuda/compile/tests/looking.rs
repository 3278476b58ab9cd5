//! Where NVRTC and the cache are looked for, and what is said where there is none.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use super::super::cache_folder;
use super::super::nvrtc::Nvrtc;
use super::*;

/// An environment of these variables.
fn variables<'v>(set: &'v [(&str, &Path)]) -> impl Fn(&str) -> Option<OsString> + 'v {
    |name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
}

#[test]
fn only_named_folders_are_looked_in() {
    let set = [("MESHWRIGHT_NVRTC", Path::new("/there:/here")), ("CUDA_HOME", Path::new("/cuda"))];
    let search = Search::from_variables(&NVRTC, variables(&set));
    assert_eq!(
        search,
        Search {
            loader: false,
            folders: vec![PathBuf::from("/there"), PathBuf::from("/here")],
            driver: None
        }
    );
}

#[test]
fn toolkits_come_before_wheels_and_no_place_twice() {
    let home = tempfile::tempdir().unwrap();
    let packages = home.path().join("lib/python3.11/site-packages");
    fs::create_dir_all(&packages).unwrap();
    fs::create_dir_all(home.path().join("lib/ruby")).unwrap();
    let set = [
        ("MESHWRIGHT_NVRTC", Path::new("")),
        ("CUDA_HOME", Path::new("/cuda")),
        ("CUDA_PATH", Path::new("/cuda")),
        ("VIRTUAL_ENV", home.path()),
    ];
    let search = Search::from_variables(&NVRTC, variables(&set));
    assert!(search.loader);
    let wheels = [packages.join("nvidia/cu13/lib"), packages.join("nvidia/cuda_nvrtc/lib")];
    let first = [PathBuf::from("/cuda/lib64"), PathBuf::from("/usr/local/cuda/lib64")];
    assert_eq!(search.folders[..4], [first, wheels].concat());
}

#[test]
fn one_line_says_what_is_missing_and_what_was_wrong_where() {
    let folder = tempfile::tempdir().unwrap();
    let (bare, broken) = (folder.path().join("bare"), folder.path().join("broken"));
    for path in [&bare, &broken] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("libnvrtc.so.13"), "no library").unwrap();
    }
    fs::write(broken.join("libnvrtc-builtins.so.13.0"), "no library").unwrap();
    let search =
        Search { loader: false, folders: vec![PathBuf::from("/nonexistent"), bare, broken], driver: None };
    let text = Nvrtc::find(&search).unwrap_err().to_string();
    let parts = [
        "NVRTC, which compiles CUDA kernels",
        "in /nonexistent,",
        "/bare (unusable: no libnvrtc-builtins.so beside it)",
        "/broken (unusable: ",
        "pip install nvidia-cuda-nvrtc==13.0.88",
        "MESHWRIGHT_NVRTC",
    ];
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// The link that toolkits have beside it may lead to the release that fits.
#[test]
fn what_is_newer_than_the_driver_is_left_for_what_is_not() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libnvrtc.so.13", "libnvrtc.so.12"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let search = Search { loader: false, folders: vec![folder.path().into()], driver: None };
    let release = |name: &OsStr| {
        Path::new(name)
            .extension()
            .and_then(OsStr::to_str)
            .and_then(|release| release.parse().ok())
            .unwrap_or(0)
    };
    let found = |driver| {
        let search = search.clone().for_driver(driver);
        search.first(&NVRTC, |_| Ok(()), |name| search.check(release(name)).map(|()| release(name)))
    };
    assert_eq!(found(None), Ok(13));
    assert_eq!(found(Some(13_000)), Ok(13));
    assert_eq!(found(Some(12_080)), Ok(12));
    let looked = found(Some(11_080)).unwrap_err();
    for release in ["13", "12"] {
        let reason = format!("it is of CUDA {release}, and the driver is of CUDA 11");
        assert!(looked.contains(&reason), "{looked}");
    }
}

#[test]
fn the_cache_lies_where_the_environment_says() {
    let (cache, user, home) = (Path::new("/c"), Path::new("/x"), Path::new("/h"));
    let all = [("MESHWRIGHT_CACHE", cache), ("XDG_CACHE_HOME", user), ("HOME", home)];
    let folder = |set: &[(&str, &Path)]| cache_folder(variables(set));
    assert_eq!(folder(&all).unwrap(), Path::new("/c/kernels"));
    assert_eq!(folder(&all[1..]).unwrap(), Path::new("/x/meshwright/kernels"));
    assert_eq!(folder(&all[2..]).unwrap(), Path::new("/h/.cache/meshwright/kernels"));
    let relative = [("XDG_CACHE_HOME", Path::new("x")), ("HOME", home)];
    assert_eq!(folder(&relative).unwrap(), Path::new("/h/.cache/meshwright/kernels"));
    assert_eq!(folder(&[]), None);
}
