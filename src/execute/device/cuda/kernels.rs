//! Kernels that are compiled and loaded, each source once for all ranks of a GPU.

#![expect(unsafe_code, reason = "the driver is a C library")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{result, sys};
use smallvec::SmallVec;

use super::compile::Compiler;
use super::driver::{self, Gpu};
use super::error::{CudaError, Doing, failure};
use super::launch::{Launch, Source};
use super::ranges;
use super::work::{Argument, Kernel};

/// Drivers from this version on tell what arguments a kernel takes.
const TELLS_ARGUMENTS: i32 = 12_040;
/// Shared memory of a block that need not be asked for.
const SHARED_WITHOUT_ASKING: u32 = 48 << 10;

/// A kernel that can be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function(pub sys::CUfunction);

// SAFETY: only a number to the driver.
unsafe impl Send for Function {}

impl Function {
    /// Launches `kernel`, whose function this is, behind all that was submitted to `stream`.
    ///
    /// # Safety
    /// Its arguments point to memory that is there, and whose users are kept apart, until it is done.
    ///
    /// # Errors
    /// What the driver says.
    pub unsafe fn launch(self, kernel: &Kernel, stream: sys::CUstream) -> Result<(), CudaError> {
        ranges::tell(stream, &kernel.touches);
        let bits = |argument: &Argument| (&raw const argument.bits).cast_mut().cast::<c_void>();
        let mut pointers: SmallVec<[*mut c_void; 32]> = kernel.arguments.iter().map(bits).collect();
        let Launch { kernel: name, grid, block, shared_bytes } = kernel.launch;
        // SAFETY: the arguments are as many and as large as the kernel's, which was checked where the driver can tell; as
        // the caller vouches for the rest.
        unsafe {
            result::launch_kernel(self.0, grid.into(), block.into(), shared_bytes, stream, &mut pointers)
        }
        .map_err(|error| failure(error, || format!("kernel {name}")))
    }
}

/// A loaded source.
#[derive(Debug)]
struct Module {
    handle: sys::CUmodule,
    /// By name, with the dynamic shared memory that each may have.
    functions: HashMap<&'static str, (Function, u32)>,
}

// SAFETY: handles are only numbers to the driver.
unsafe impl Send for Module {}

/// The kernels of one GPU.
#[derive(Debug)]
pub struct Kernels {
    gpu: Arc<Gpu>,
    compiler: Compiler,
    modules: Mutex<HashMap<Source, Module>>,
}

impl Kernels {
    pub fn new(gpu: Arc<Gpu>) -> Self {
        let compiler = Compiler::from_environment(Some(gpu.driver));
        Self { gpu, compiler, modules: Mutex::default() }
    }

    /// The function of `kernel`, compiled and loaded if it is not yet.
    ///
    /// # Errors
    /// If it cannot be compiled or loaded, or takes other arguments.
    pub fn function(&self, kernel: &Kernel) -> Result<Function, CudaError> {
        check_grid(kernel)?;
        let (name, shared_bytes) = (kernel.launch.kernel, kernel.launch.shared_bytes);
        let mut modules = self.modules();
        let Module { handle, functions } = self.module(&mut modules, &kernel.source)?;
        match functions.get(name) {
            Some((function, allowed)) if shared_bytes <= *allowed => return Ok(*function),
            _ => {}
        }
        let c_name = CString::new(name).unwrap_or_default();
        // SAFETY: a module that stays loaded.
        let function =
            unsafe { result::module::get_function(*handle, c_name) }.doing(&format!("kernel {name}"))?;
        if shared_bytes > SHARED_WITHOUT_ASKING {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: a function of a loaded module.
            unsafe { result::function::set_function_attribute(function, attribute, shared_bytes as i32) }
                .doing(&format!("shared memory of kernel {name}"))?;
        }
        if self.gpu.driver >= TELLS_ARGUMENTS {
            check_arguments(function, kernel)?;
        }
        let allowed = shared_bytes.max(SHARED_WITHOUT_ASKING);
        functions.insert(name, (Function(function), allowed));
        Ok(Function(function))
    }

    /// Compiles and loads `source`, if that is not done yet.
    ///
    /// # Errors
    /// If it cannot be compiled or loaded.
    pub fn prepare(&self, source: &Source) -> Result<(), CudaError> {
        self.module(&mut self.modules(), source).map(|_| ())
    }

    fn modules(&self) -> MutexGuard<'_, HashMap<Source, Module>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn module<'m>(
        &self,
        modules: &'m mut HashMap<Source, Module>,
        source: &Source,
    ) -> Result<&'m mut Module, CudaError> {
        Ok(match modules.entry(source.clone()) {
            Entry::Occupied(loaded) => loaded.into_mut(),
            Entry::Vacant(place) => place.insert(self.load(source)?),
        })
    }

    fn load(&self, source: &Source) -> Result<Module, CudaError> {
        let binary = self.compiler.binary(source.file, &source.options, self.gpu.facts.capability)?;
        // SAFETY: a whole binary of the compiler's.
        let loaded = unsafe { result::module::load_data(binary.cubin.as_ptr().cast()) };
        let handle = loaded.map_err(|error| failure(error, || self.loading(source.file)))?;
        Ok(Module { handle, functions: HashMap::new() })
    }
}

impl Kernels {
    /// What was tried: an older driver may not take what a newer compiler makes.
    fn loading(&self, file: &str) -> String {
        let driver = driver::written(self.gpu.driver);
        match self.compiler.nvrtc() {
            Ok(nvrtc) => {
                format!("loading {file}, which NVRTC {} made, on a driver of CUDA {driver}", nvrtc.version())
            }
            Err(_) => format!("loading {file} from the cache, on a driver of CUDA {driver}"),
        }
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        if self.gpu.bind().is_err() {
            return;
        }
        for module in self.modules.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
            // SAFETY: loaded once, and nothing is launched any more.
            let _ = unsafe { result::module::unload(module.handle) };
        }
    }
}

/// What every GPU takes in the second and third dimension of a grid.
fn check_grid(kernel: &Kernel) -> Result<(), CudaError> {
    const MOST: u32 = 65_535;
    let blocks = kernel.launch.grid;
    match blocks[1..].iter().all(|blocks| (1..=MOST).contains(blocks)) {
        true => Ok(()),
        false => Err(CudaError::Grid { kernel: kernel.launch.kernel.to_owned(), blocks, most: MOST }),
    }
}

/// A launch that passes too few arguments reads what lies behind them, and nobody says so.
fn check_arguments(function: sys::CUfunction, kernel: &Kernel) -> Result<(), CudaError> {
    let name = || kernel.launch.kernel.to_owned();
    let given = kernel.arguments.len();
    for index in 0..=given {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: a function of a loaded module, places for two numbers.
        let code = unsafe { sys::cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut size) };
        let found = (code == sys::CUresult::CUDA_SUCCESS).then_some(size);
        match (found, kernel.arguments.get(index)) {
            (None, None) => {}
            (Some(found), Some(argument)) if found == usize::from(argument.bytes) => {}
            (Some(found), Some(argument)) => {
                let given = usize::from(argument.bytes);
                return Err(CudaError::ArgumentSize { kernel: name(), index, found, given });
            }
            (None, Some(_)) => return Err(CudaError::Arguments { kernel: name(), found: index, given }),
            (Some(_), None) => return Err(CudaError::Arguments { kernel: name(), found: index + 1, given }),
        }
    }
    Ok(())
}
