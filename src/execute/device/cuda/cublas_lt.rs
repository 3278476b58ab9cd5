//! Products by NVIDIA's library, where the machine has it: cublasLt, opened when it is needed.
//!
//! The library takes columns as the fast dimension and our matrices have rows, so it is asked for the transposed product:
//! outputᵀ = bᵀ · aᵀ. Its algorithm is chosen once a product, and its workspace is a buffer of the program.

#![expect(unsafe_code, reason = "cublasLt is a C library")]

use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtEpilogue_t, cublasLtMatmulDescAttributes_t as Attribute,
    cublasLtMatmulPreferenceAttributes_t as Preference, cudaDataType,
};
use cudarc::driver::sys::CUstream;

use super::compile::library::Library;
use super::compile::search::Search;
use super::error::CudaError;
use super::launch::gemm::Element;
use super::work::Span;

/// The files of wheels and toolkits, the newest first.
const NAMES: [&str; 3] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];

/// A factor as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub span: Span,
    /// From one line to the next, in elements.
    pub stride: u64,
    /// Its lines are columns of the factor.
    pub transposed: bool,
}

/// output (m, n) (=|+=) left (m, k) · right (k, n) (+ bias).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    /// Of both factors.
    pub element: Element,
    pub left: Side,
    pub right: Side,
    pub output: Side,
    pub output_element: Element,
    pub bias: Option<Span>,
    pub adds: bool,
    pub workspace: Span,
}

impl Product {
    /// Whether the library has such products: both factors of one type, the output of theirs or wider, a bias of the
    /// output's type.
    pub fn is_known(&self) -> bool {
        let types = matches!(
            (self.element, self.output_element),
            (Element::Bf16, _) | (Element::F32, Element::F32)
        );
        types && (self.bias.is_none() || self.element == self.output_element)
    }
}

/// The library.
#[derive(Debug)]
pub struct CublasLt {
    handle: sys::cublasLtHandle_t,
    version: usize,
}

// SAFETY: NVIDIA's documentation lets threads share a handle.
unsafe impl Send for CublasLt {}
// SAFETY: as above.
unsafe impl Sync for CublasLt {}

/// A product whose algorithm is chosen.
#[derive(Debug)]
pub struct Chosen {
    product: Product,
    descriptor: sys::cublasLtMatmulDesc_t,
    left: sys::cublasLtMatrixLayout_t,
    right: sys::cublasLtMatrixLayout_t,
    output: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
}

// SAFETY: the library's descriptors are not bound to threads.
unsafe impl Send for Chosen {}

/// Where the library may lie: as NVRTC, with a folder and a wheel of its own.
pub fn places() -> Search {
    Search::of_library(|name| std::env::var_os(name), "MESHWRIGHT_CUBLASLT", "cublas")
}

/// Opens the library by its path, so that the loader knows it by its name from now on.
fn preload(search: &Search) -> bool {
    // SAFETY: a library of NVIDIA's, which may be opened at any time.
    let opens = |name: &std::ffi::OsStr| unsafe { Library::open(name) }.is_ok();
    (search.loader && NAMES.iter().any(|name| opens(name.as_ref())))
        || search.folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name))).any(|path| {
            path.is_file() && opens(path.as_os_str())
        })
}

impl CublasLt {
    /// The first of `search` that works, for the GPU that is current on this thread.
    pub fn find(search: &Search) -> Option<Self> {
        // SAFETY: as above.
        if !preload(search) || !unsafe { sys::is_culib_present() } {
            return None;
        }
        let handle = result::create_handle().ok()?;
        // SAFETY: a function without arguments.
        let version = unsafe { sys::cublasLtGetVersion() };
        Some(Self { handle, version })
    }

    /// As 130002.
    pub const fn version(&self) -> usize {
        self.version
    }

    /// Chooses the algorithm of `product`; none if the library has none.
    ///
    /// # Errors
    /// What the library says.
    pub fn choose(&self, product: &Product) -> Result<Option<Chosen>, CudaError> {
        let Product { m, n, k, element, output_element, .. } = *product;
        let [m, n, k] = [m, n, k].map(u64::from);
        let compute = cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let descriptor = result::create_matmul_desc(compute, cudaDataType::CUDA_R_32F).map_err(failed)?;
        // The library's factors are ours, transposed and swapped.
        let layout = |rows: u64, columns: u64, side: Side, element| {
            let (rows, columns) = if side.transposed { (columns, rows) } else { (rows, columns) };
            result::create_matrix_layout(data_type(element), rows, columns, side.stride as i64).map_err(failed)
        };
        let chosen = Chosen {
            product: *product,
            descriptor,
            left: layout(n, k, product.right, element)?,
            right: layout(k, m, product.left, element)?,
            output: layout(n, m, product.output, output_element)?,
            algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            workspace: 0,
        };
        chosen.describe()?;
        self.with_algorithm(chosen)
    }

    fn with_algorithm(&self, mut chosen: Chosen) -> Result<Option<Chosen>, CudaError> {
        let wishes = result::create_matmul_pref().map_err(failed)?;
        let Product { left, right, output, workspace, .. } = chosen.product;
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: a preference just made, and a value of so many bytes.
            unsafe { result::set_matmul_pref_attribute(wishes, attribute, value, bytes) }.map_err(failed)
        };
        let asked = (|| {
            let most = workspace.bytes as usize;
            set(Preference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (&raw const most).cast(), size_of_val(&most))?;
            for (attribute, side) in [
                (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, right),
                (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, left),
                (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, output),
                (Preference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, output),
            ] {
                let alignment = 1u32 << side.span.address.trailing_zeros().min(8);
                set(attribute, (&raw const alignment).cast(), size_of_val(&alignment))?;
            }
            // SAFETY: all of it was made above and lives.
            let found = unsafe {
                result::get_matmul_algo_heuristic(
                    self.handle,
                    chosen.descriptor,
                    chosen.left,
                    chosen.right,
                    chosen.output,
                    chosen.output,
                    wishes,
                )
            };
            match found {
                Ok(found) => Ok(Some(found)),
                Err(error) if error.0 == sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED => Ok(None),
                Err(error) => Err(failed(error)),
            }
        })();
        // SAFETY: made above and used no more.
        let _ = unsafe { result::destroy_matmul_pref(wishes) };
        Ok(asked?.map(|found| {
            (chosen.algorithm, chosen.workspace) = (found.algo, found.workspaceSize);
            chosen
        }))
    }

    /// Does a product behind all that was submitted to `stream`.
    ///
    /// # Safety
    /// Its operands lie where the product says and nobody else uses them until it is done.
    ///
    /// # Errors
    /// What the library says.
    pub unsafe fn submit(&self, chosen: &Chosen, stream: CUstream) -> Result<(), CudaError> {
        let Product { left, right, output, adds, workspace, .. } = chosen.product;
        let (alpha, beta) = (1f32, if adds { 1f32 } else { 0.0 });
        let at = |span: Span| span.address as *mut c_void;
        // SAFETY: as the caller vouches; the descriptors are the product's.
        unsafe {
            result::matmul(
                self.handle,
                chosen.descriptor,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                at(right.span),
                chosen.left,
                at(left.span),
                chosen.right,
                at(output.span),
                chosen.output,
                at(output.span),
                chosen.output,
                &raw const chosen.algorithm,
                at(workspace),
                chosen.workspace,
                stream.cast(),
            )
        }
        .map_err(failed)
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: made by `find`.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl Chosen {
    /// Says of the product what its layouts do not.
    fn describe(&self) -> Result<(), CudaError> {
        let set = |attribute, value: *const c_void, bytes| {
            // SAFETY: a descriptor that lives, and a value of so many bytes.
            unsafe { result::set_matmul_desc_attribute(self.descriptor, attribute, value, bytes) }.map_err(failed)
        };
        // Rows as the fast dimension are columns of the transposed matrix as they lie.
        let transposed = |side: Side| i32::from(side.transposed);
        let [first, second] = [self.product.right, self.product.left].map(transposed);
        set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, (&raw const first).cast(), size_of::<i32>())?;
        set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, (&raw const second).cast(), size_of::<i32>())?;
        let Some(bias) = self.product.bias else { return Ok(()) };
        let epilogue = cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
        set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, (&raw const epilogue).cast(), size_of_val(&epilogue))?;
        let address = bias.address;
        set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, (&raw const address).cast(), size_of_val(&address))
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        // SAFETY: made by `choose`, destroyed once.
        unsafe {
            let _ = result::destroy_matmul_desc(self.descriptor);
            for layout in [self.left, self.right, self.output] {
                let _ = result::destroy_matrix_layout(layout);
            }
        }
    }
}

const fn data_type(element: Element) -> cudaDataType {
    match element {
        Element::Bf16 => cudaDataType::CUDA_R_16BF,
        Element::F32 => cudaDataType::CUDA_R_32F,
    }
}

fn failed(error: CublasError) -> CudaError {
    CudaError::Library { name: "cublasLt", code: error.0 as u32 }
}
