//! The functions of cublasLt, looked up in the very library that was found, and its objects, destroyed when dropped.
//!
//! cudarc's own table would take the first library that the loader knows and panics where there is none, and its
//! functions answer with an enumeration, which must not hold a code that is newer than it.

#![expect(unsafe_code, reason = "cublasLt is a C library")]

use std::ffi::{OsStr, c_int, c_void};
use std::ptr::null_mut;

use cudarc::cublaslt::sys::{
    cublasComputeType_t, cublasLtHandle_t, cublasLtMatmulAlgo_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
    cublasLtMatrixLayout_t, cudaDataType,
};
use cudarc::driver::sys::CUstream;

use super::super::compile::library::Library;
use super::super::compile::search::{Search, Wanted};
use super::super::error::{CudaError, full};

pub const CUBLAS_LT: Wanted = Wanted {
    variable: "MESHWRIGHT_CUBLASLT",
    folder: "cublas",
    wheels: ["nvidia-cublas", "nvidia-cublas-cu12"],
    files: &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
};

/// `cublasStatus_t`, whatever number it is.
pub type Status = c_int;

/// An algorithm that the library proposes: `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Proposal {
    pub algorithm: cublasLtMatmulAlgo_t,
    pub workspace: usize,
    pub state: Status,
    pub waves: f32,
    pub reserved: [c_int; 4],
}

impl Default for Proposal {
    /// A place for one.
    fn default() -> Self {
        let algorithm = cublasLtMatmulAlgo_t { data: [0; 8] };
        Self { algorithm, workspace: 0, state: -1, waves: 0.0, reserved: [0; 4] }
    }
}

type Create<T> = unsafe extern "C" fn(*mut T) -> Status;
type Destroy<T> = unsafe extern "C" fn(T) -> Status;
type Set<T, A> = unsafe extern "C" fn(T, A, *const c_void, usize) -> Status;
type Propose = unsafe extern "C" fn(
    cublasLtHandle_t,
    cublasLtMatmulDesc_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatrixLayout_t,
    cublasLtMatmulPreference_t,
    c_int,
    *mut Proposal,
    *mut c_int,
) -> Status;
type Multiply = unsafe extern "C" fn(
    cublasLtHandle_t,
    cublasLtMatmulDesc_t,
    *const c_void,
    *const c_void,
    cublasLtMatrixLayout_t,
    *const c_void,
    cublasLtMatrixLayout_t,
    *const c_void,
    *const c_void,
    cublasLtMatrixLayout_t,
    *mut c_void,
    cublasLtMatrixLayout_t,
    *const cublasLtMatmulAlgo_t,
    *mut c_void,
    usize,
    CUstream,
) -> Status;

#[derive(Clone, Copy, Debug)]
pub struct Functions {
    /// As 130002.
    pub version: usize,
    create: Create<cublasLtHandle_t>,
    destroy: Destroy<cublasLtHandle_t>,
    create_product:
        unsafe extern "C" fn(*mut cublasLtMatmulDesc_t, cublasComputeType_t, cudaDataType) -> Status,
    set_product: Set<cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t>,
    destroy_product: Destroy<cublasLtMatmulDesc_t>,
    create_layout: unsafe extern "C" fn(*mut cublasLtMatrixLayout_t, cudaDataType, u64, u64, i64) -> Status,
    destroy_layout: Destroy<cublasLtMatrixLayout_t>,
    create_preference: Create<cublasLtMatmulPreference_t>,
    set_preference: Set<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t>,
    destroy_preference: Destroy<cublasLtMatmulPreference_t>,
    pub propose: Propose,
    pub multiply: Multiply,
}

/// An object of the library's.
#[derive(Debug)]
pub struct Owned<T: Copy> {
    pub object: T,
    destroy: Destroy<T>,
}

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: made by the library, destroyed once. That it fails is of no use to anyone.
        let _ = unsafe { (self.destroy)(self.object) };
    }
}

impl Functions {
    /// Those of the first library of `search` of which `start` makes what it wants.
    ///
    /// # Errors
    /// All places, and what was wrong with what lay there.
    pub fn find<T>(search: &Search, start: impl Fn(Self) -> Result<T, CudaError>) -> Result<T, String> {
        search.first(
            &CUBLAS_LT,
            |_| Ok(()),
            |name| {
                let functions = Self::open(name)?;
                search.check((functions.version / 10_000) as i32)?;
                start(functions).map_err(|error| error.to_string())
            },
        )
    }

    fn open(name: &OsStr) -> Result<Self, String> {
        // SAFETY: the library may be initialised at any time, and the types are those of its header.
        unsafe {
            let library = Library::open(name)?;
            let version: unsafe extern "C" fn() -> usize = library.function(c"cublasLtGetVersion")?;
            Ok(Self {
                version: version(),
                create: library.function(c"cublasLtCreate")?,
                destroy: library.function(c"cublasLtDestroy")?,
                create_product: library.function(c"cublasLtMatmulDescCreate")?,
                set_product: library.function(c"cublasLtMatmulDescSetAttribute")?,
                destroy_product: library.function(c"cublasLtMatmulDescDestroy")?,
                create_layout: library.function(c"cublasLtMatrixLayoutCreate")?,
                destroy_layout: library.function(c"cublasLtMatrixLayoutDestroy")?,
                create_preference: library.function(c"cublasLtMatmulPreferenceCreate")?,
                set_preference: library.function(c"cublasLtMatmulPreferenceSetAttribute")?,
                destroy_preference: library.function(c"cublasLtMatmulPreferenceDestroy")?,
                propose: library.function(c"cublasLtMatmulAlgoGetHeuristic")?,
                multiply: library.function(c"cublasLtMatmul")?,
            })
        }
    }

    /// A handle for the GPU that is current on this thread.
    ///
    /// # Errors
    /// What the library says.
    pub fn handle(&self) -> Result<Owned<cublasLtHandle_t>, CudaError> {
        made(self.destroy, "a handle", |handle| {
            // SAFETY: a place for the handle.
            unsafe { (self.create)(handle) }
        })
    }

    /// A product of f32 sums.
    ///
    /// # Errors
    /// What the library says.
    pub fn product(&self) -> Result<Owned<cublasLtMatmulDesc_t>, CudaError> {
        made(self.destroy_product, "a product", |product| {
            let sums = cublasComputeType_t::CUBLAS_COMPUTE_32F;
            // SAFETY: a place for the product.
            unsafe { (self.create_product)(product, sums, cudaDataType::CUDA_R_32F) }
        })
    }

    /// # Errors
    /// What the library says.
    pub fn set_product<T>(
        &self,
        product: &Owned<cublasLtMatmulDesc_t>,
        attribute: cublasLtMatmulDescAttributes_t,
        value: &T,
    ) -> Result<(), CudaError> {
        let from = std::ptr::from_ref(value).cast();
        // SAFETY: a product that lives, and a value of so many bytes.
        let status = unsafe { (self.set_product)(product.object, attribute, from, size_of::<T>()) };
        checked(status, "what a product is like")
    }

    /// A matrix whose columns of `rows` elements begin every `stride` elements.
    ///
    /// # Errors
    /// What the library says.
    pub fn layout(
        &self,
        element: cudaDataType,
        (rows, columns): (u64, u64),
        stride: u64,
    ) -> Result<Owned<cublasLtMatrixLayout_t>, CudaError> {
        made(self.destroy_layout, "a matrix", |layout| {
            // SAFETY: a place for the layout.
            unsafe { (self.create_layout)(layout, element, rows, columns, stride as i64) }
        })
    }

    /// # Errors
    /// What the library says.
    pub fn preference(&self) -> Result<Owned<cublasLtMatmulPreference_t>, CudaError> {
        made(self.destroy_preference, "a preference", |preference| {
            // SAFETY: a place for the preference.
            unsafe { (self.create_preference)(preference) }
        })
    }

    /// # Errors
    /// What the library says.
    pub fn set_preference<T>(
        &self,
        preference: &Owned<cublasLtMatmulPreference_t>,
        attribute: cublasLtMatmulPreferenceAttributes_t,
        value: &T,
    ) -> Result<(), CudaError> {
        let from = std::ptr::from_ref(value).cast();
        // SAFETY: a preference that lives, and a value of so many bytes.
        let status = unsafe { (self.set_preference)(preference.object, attribute, from, size_of::<T>()) };
        checked(status, "what is preferred of an algorithm")
    }
}

/// What `create` writes.
fn made<T: Copy>(
    destroy: Destroy<*mut T>,
    action: &'static str,
    create: impl FnOnce(*mut *mut T) -> Status,
) -> Result<Owned<*mut T>, CudaError> {
    let mut object = null_mut();
    checked(create(&raw mut object), action)?;
    Ok(Owned { object, destroy })
}

/// # Errors
/// If it is not that of success.
pub fn checked(status: Status, action: &'static str) -> Result<(), CudaError> {
    match status {
        0 => Ok(()),
        ALLOC_FAILED => Err(full(format!("cublasLt, {action}"))),
        code => Err(CudaError::CublasLt { action, code, meaning: meaning(code) }),
    }
}

/// `CUBLAS_STATUS_ALLOC_FAILED`.
const ALLOC_FAILED: Status = 3;

/// `cublasStatus_t` in NVIDIA's words.
const fn meaning(code: Status) -> &'static str {
    match code {
        1 => "CUBLAS_STATUS_NOT_INITIALIZED",
        7 => "CUBLAS_STATUS_INVALID_VALUE",
        8 => "CUBLAS_STATUS_ARCH_MISMATCH",
        11 => "CUBLAS_STATUS_MAPPING_ERROR",
        13 => "CUBLAS_STATUS_EXECUTION_FAILED",
        14 => "CUBLAS_STATUS_INTERNAL_ERROR",
        15 => "CUBLAS_STATUS_NOT_SUPPORTED",
        16 => "CUBLAS_STATUS_LICENSE_ERROR",
        _ => "unknown",
    }
}
