//! Where the library is looked for, which products are asked of it, and that NVIDIA's takes what they are described by.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::functions::{CUBLAS_LT, Functions};
use super::*;
use crate::execute::device::cuda::launch::gemm::Element;
use crate::execute::device::cuda::work::Span;

fn matrix(address: u64, element: Element, stride: u64, transposed: bool) -> Matrix {
    Matrix { span: Span::device(address, 1 << 16), element, stride, transposed }
}

/// A forward product of bf16 with a bias, its workspace at some place.
fn product() -> Product {
    Product {
        m: 32,
        n: 48,
        k: 64,
        left: matrix(0x1_0000, Element::Bf16, 64, false),
        right: matrix(0x2_0000, Element::Bf16, 64, true),
        output: matrix(0x3_0000, Element::Bf16, 56, false),
        bias: Some((Span::device(0x4_0040, 96), Element::Bf16)),
        adds: false,
        workspace: Span::device(0x5_0040, 1 << 20),
    }
}

#[test]
fn its_own_folder_and_wheel_are_looked_in() {
    let home = tempfile::tempdir().unwrap();
    let packages = home.path().join("lib/python3.12/site-packages");
    fs::create_dir_all(&packages).unwrap();
    let named = |name: &str| (name == "MESHWRIGHT_CUBLASLT").then(|| OsString::from("/there"));
    let search = Search::from_variables(&CUBLAS_LT, named);
    assert_eq!(search, Search { loader: false, folders: vec![PathBuf::from("/there")], driver: None });
    let in_python = |name: &str| (name == "VIRTUAL_ENV").then(|| OsString::from(home.path()));
    let search = Search::from_variables(&CUBLAS_LT, in_python);
    let wheels = [packages.join("nvidia/cu13/lib"), packages.join("nvidia/cublas/lib")];
    assert!(search.loader && search.folders[1..].starts_with(&wheels), "{search:?}");
}

#[test]
fn one_line_says_what_is_missing_and_what_was_wrong_where() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("libcublasLt.so.13"), "no library").unwrap();
    let search =
        Search { loader: false, folders: vec!["/nonexistent".into(), folder.path().into()], driver: None };
    let text = missing(&search, &Functions::find(&search, |_| Ok(())).unwrap_err());
    for part in ["in /nonexistent,", "(unusable: ", "pip install nvidia-cublas`", "MESHWRIGHT_CUBLASLT"] {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(missing(&search.for_driver(Some(12_040)), "").contains("pip install nvidia-cublas-cu12`"));
}

#[test]
fn versions_are_written_as_nvidia_does() {
    assert_eq!([130_002, 120_805].map(written), ["13.0.2", "12.8.5"]);
}

#[test]
fn mixed_types_and_empty_sums_are_for_our_kernels() {
    let known = product();
    assert!(known.is_known());
    let f32 = |address| matrix(address, Element::F32, 64, false);
    let sums = Product { output: f32(0x3_0000), bias: None, ..known };
    assert!(sums.is_known());
    let unknown = [
        Product { k: 0, ..known },
        Product { left: f32(0x1_0000), ..known },
        Product { right: f32(0x1_0000), ..sums },
        Product { left: f32(0x1_0000), right: f32(0x2_0000), ..known },
        Product { output: f32(0x3_0000), ..known },
    ];
    for product in unknown {
        assert!(!product.is_known(), "{product:?}");
    }
}

#[test]
fn products_are_alike_wherever_they_lie_as_far_as_they_lie_alike() {
    let one = product();
    let moved = |product: Product, by: u64| {
        let output =
            Matrix { span: product.output.span.moved(product.output.span.address + by), ..product.output };
        Product { output, ..product }
    };
    assert_eq!(moved(one, 512).question(), one.question());
    assert_ne!(moved(one, 16).question(), one.question());
    let elsewhere = Span::device(one.workspace.address + 64, one.workspace.bytes);
    assert_eq!(Product { workspace: elsewhere, ..one }.question(), one.question());
    assert_eq!(Product { adds: true, ..one }.question(), one.question());
    assert_ne!(Product { bias: None, ..one }.question(), one.question());
    assert_ne!(Product { left: Matrix { stride: 72, ..one.left }, ..one }.question(), one.question());
    assert_ne!(Product { k: 56, ..one }.question(), one.question());
    assert_ne!(Product { left: Matrix { transposed: true, ..one.left }, ..one }.question(), one.question());
}

/// Descriptions need no GPU.
#[test]
fn the_true_library_takes_what_products_are_described_by() {
    if std::env::var_os(CUBLAS_LT.variable).is_none() {
        // Past the capture of tests, which shows only what failing ones say.
        let _ = writeln!(std::io::stderr(), "SKIPPED: MESHWRIGHT_CUBLASLT names no folder of cublasLt");
        return;
    }
    let Installed(functions) = installed(None).unwrap();
    assert!(functions.version >= 120_000, "{}", functions.version);
    for asked in [product(), Product { bias: None, output: matrix(64, Element::F32, 48, false), ..product() }]
    {
        Described::new(&functions, &asked).unwrap();
        asked.question().preference(&functions).unwrap();
    }
}
