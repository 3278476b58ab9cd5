//! Products by NVIDIA's library, cublasLt, where the machine has it. Products that it does not know, and all where it is
//! missing, are our own kernels'.

#![expect(unsafe_code, reason = "handles of a C library are passed between threads")]

mod chosen;
mod functions;
mod product;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::cublaslt::sys::cublasLtHandle_t;

pub use self::chosen::Chosen;
use self::chosen::{Answer, Described};
use self::functions::{CUBLAS_LT, Functions, Owned};
use self::product::Question;
pub use self::product::{Matrix, Product};
use super::compile::library::file_of;
use super::compile::search::Search;
use super::driver::Gpu;
use super::error::CudaError;
use crate::trace;

/// The library with what it keeps for one GPU.
#[derive(Debug)]
pub struct CublasLt {
    functions: Functions,
    /// Threads take turns: NVIDIA advises against a handle that several use at a time.
    handle: Mutex<Owned<cublasLtHandle_t>>,
    gpu: Arc<Gpu>,
}

// SAFETY: a handle is bound to a GPU and to no thread.
unsafe impl Send for CublasLt {}
// SAFETY: the handle is behind a lock.
unsafe impl Sync for CublasLt {}

impl CublasLt {
    /// The first library that works with `gpu`, which is current on this thread.
    fn find(gpu: &Arc<Gpu>) -> Result<Self, String> {
        let search = Search::from_environment(&CUBLAS_LT).for_driver(Some(gpu.driver));
        Functions::find(&search, |functions| {
            let handle = Mutex::new(functions.handle()?);
            Ok(Self { functions, handle, gpu: Arc::clone(gpu) })
        })
    }

    fn handle(&self) -> MutexGuard<'_, Owned<cublasLtHandle_t>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CublasLt {
    /// The handle goes with its GPU current.
    fn drop(&mut self) {
        let _ = self.gpu.bind();
    }
}

/// The library of this machine, before it is used.
#[derive(Clone, Copy, Debug)]
pub struct Installed(Functions);

impl Installed {
    pub fn version(&self) -> String {
        written(self.0.version)
    }

    /// The file that it was opened from.
    pub fn file(&self) -> Option<PathBuf> {
        file_of(self.0.multiply as *const c_void)
    }
}

/// The library of this machine, whose driver is of this version, as 13000, if there is one.
///
/// # Errors
/// Where it was looked for, in one line.
pub fn installed(driver: Option<i32>) -> Result<Installed, String> {
    let search = Search::from_environment(&CUBLAS_LT).for_driver(driver);
    let found = Functions::find(&search, |functions| Ok(Installed(functions)));
    found.map_err(|looked| missing(&search, &looked))
}

fn missing(search: &Search, looked: &str) -> String {
    let wheel = search.wheel(&CUBLAS_LT);
    format!(
        "cublasLt, which computes products of matrices, was not found: slower kernels do without. Looked for libcublasLt \
         {looked}. `pip install {wheel}` brings it; MESHWRIGHT_CUBLASLT names the folder it lies in"
    )
}

/// 130002 is 13.0.2.
fn written(version: usize) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

/// Who computes which product on one GPU: decided once for products that are alike.
#[derive(Debug)]
pub struct Products {
    library: Option<Arc<CublasLt>>,
    /// None where our own kernels do it.
    answers: Mutex<HashMap<Question, Option<Answer>>>,
}

impl Products {
    /// With the library for `gpu`, which is current on this thread, if it is there.
    pub fn new(gpu: &Arc<Gpu>) -> Self {
        Self { library: CublasLt::find(gpu).ok().map(Arc::new), answers: Mutex::default() }
    }

    /// `asked` as the library does it; none where our own kernels must, because it has no algorithm or refuses.
    ///
    /// # Errors
    /// If the GPU has failed, or its memory is full.
    pub fn choose(&self, asked: &Product) -> Result<Option<Chosen>, CudaError> {
        let question = asked.question();
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let library = self.library.as_ref().filter(|_| asked.is_known());
        let (Some(library), Some(Some(_)) | None) = (library, answers.get(&question)) else {
            answers.insert(question, None);
            return Ok(None);
        };
        let known = answers.get(&question).copied();
        let described = Described::new(&library.functions, asked).and_then(|described| {
            let answer = known.map_or_else(|| described.ask(library, &question), Ok)?;
            Ok((described, answer))
        });
        let (described, answer) = match described {
            Ok(found) => found,
            // What this release of the library does not take, our own kernels do, if the GPU still works.
            Err(CudaError::CublasLt { .. }) => {
                library.gpu.free()?;
                answers.insert(question, None);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        answers.insert(question, answer);
        Ok(answer.map(|answer| Chosen::new(Arc::clone(library), *asked, described, answer)))
    }

    /// For the trace: the library, and how many products are whose.
    pub fn record(&self) -> trace::Products {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let of_library = answers.values().flatten().count();
        trace::Products {
            library: self
                .library
                .as_ref()
                .map(|library| format!("cublasLt {}", written(library.functions.version))),
            of_library: of_library as u64,
            of_kernels: (answers.len() - of_library) as u64,
        }
    }
}
