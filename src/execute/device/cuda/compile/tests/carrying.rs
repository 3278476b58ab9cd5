//! The program carries all sources that lie beside the kernels, and knows no others.

use std::fs;
use std::path::Path;

use super::super::error::CompileError;
use super::super::{Compiler, sources};
use super::*;

#[test]
fn all_sources_are_carried() {
    let kernels = Path::new(file!()).parent().unwrap().join("../../../../kernels");
    let mut found = Vec::new();
    let mut folders = vec![kernels.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "cu" || extension == "cuh") {
                found.push(path.strip_prefix(&kernels).unwrap().to_str().unwrap().to_owned());
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    let mut carried: Vec<&str> =
        sources::KERNELS.iter().chain(sources::HEADERS).map(|(name, _)| *name).collect();
    carried.sort_unstable();
    assert_eq!(found, carried);
    let unknown = Compiler::new(nowhere(), None).binary("none.cu", &[], (9, 0)).unwrap_err();
    assert_eq!(unknown, CompileError::Unknown { file: "none.cu".into() });
}
