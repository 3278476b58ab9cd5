//! A real GPU through the CUDA driver: the same cases, with guard bytes around every buffer.

use crate::arguments;
use crate::compile::target::Capability;
use crate::fault::{Fault, fault};
use crate::gpu::Argument;
use crate::launch::Launch;
use crate::ptx::{self, Kernel};
use cudarc::driver::{CudaContext, result, sys};
use std::ffi::{CString, c_void};
use std::sync::Arc;
use std::time::Instant;

/// Bytes before and behind each buffer that no kernel may change.
const GUARD: usize = 256;
const PATTERN: u8 = 0xa5;

struct Program {
    module: sys::CUmodule,
    kernels: Vec<Kernel>,
}

struct Memory {
    start: sys::CUdeviceptr,
    bytes: usize,
}

pub struct Real {
    context: Arc<CudaContext>,
    name: String,
    capability: Capability,
    programs: Vec<Program>,
    memory: Vec<Memory>,
}

fn driver(error: result::DriverError) -> Fault {
    Fault(format!("CUDA driver: {error:?}"))
}

impl Real {
    pub fn open() -> Result<Real, Fault> {
        if !unsafe { sys::is_culib_present() } {
            return fault("this machine has no CUDA driver");
        }
        let context = CudaContext::new(0).map_err(driver)?;
        let capability = context.compute_capability().map_err(driver)?;
        let name = context.name().map_err(driver)?;
        Ok(Real { context, name, capability, programs: vec![], memory: vec![] })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn capability(&self) -> Capability {
        self.capability
    }

    /// The newest CUDA that its driver knows, as 13000.
    pub fn driver(&self) -> Result<i32, Fault> {
        let mut version = 0;
        unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(driver)?;
        Ok(version)
    }

    pub fn restart(&mut self) -> Result<(), Fault> {
        for memory in self.memory.drain(..) {
            unsafe { result::free_sync(memory.start) }.map_err(driver)?;
        }
        Ok(())
    }

    /// Loads machine code; PTX of the same source says which parameters kernels have.
    pub fn load(&mut self, ptx: &str, code: &[u8]) -> Result<usize, Fault> {
        let kernels = ptx::parse(ptx)?.kernels;
        let module = unsafe { result::module::load_data(code.as_ptr().cast()) }.map_err(driver)?;
        self.programs.push(Program { module, kernels });
        Ok(self.programs.len() - 1)
    }

    /// A failure here leaves the device unusable, so that nothing but a stop makes sense.
    pub fn add(&mut self, bytes: &[u8]) -> usize {
        let mut guarded = vec![PATTERN; bytes.len() + 2 * GUARD];
        guarded[GUARD..GUARD + bytes.len()].copy_from_slice(bytes);
        let start = unsafe { result::malloc_sync(guarded.len()) }.expect("device memory for a case");
        unsafe { result::memcpy_htod_sync(start, &guarded) }.expect("a copy to the device");
        self.memory.push(Memory { start, bytes: bytes.len() });
        self.memory.len() - 1
    }

    pub fn download(&mut self, buffer: usize) -> Vec<u8> {
        let Memory { start, bytes } = self.memory[buffer];
        let mut guarded = vec![0; bytes + 2 * GUARD];
        unsafe { result::memcpy_dtoh_sync(&mut guarded, start) }.expect("a copy from the device");
        guarded[GUARD..GUARD + bytes].to_vec()
    }

    pub fn launch(&mut self, module: usize, launch: &Launch, arguments: &[Argument]) -> Result<(), Fault> {
        self.enqueue(module, launch, arguments, 1)?;
        self.context.synchronize().map_err(|error| {
            Fault(format!("kernel {}: CUDA driver: {error:?}; the device takes no more work", launch.kernel))
        })?;
        for (index, argument) in arguments.iter().enumerate() {
            let (Argument::Buffer(buffer) | Argument::Part(buffer, _)) = argument else {
                continue;
            };
            let Memory { start, bytes } = self.memory[buffer.0];
            for (place, at) in [("before", 0), ("behind", GUARD + bytes)] {
                let mut guard = [0u8; GUARD];
                unsafe { result::memcpy_dtoh_sync(&mut guard, start + at as u64) }.map_err(driver)?;
                if guard.iter().any(|&byte| byte != PATTERN) {
                    return fault(format!("kernel {}: writes {place} argument {index}", launch.kernel));
                }
            }
        }
        Ok(())
    }

    /// Wall time of a full queue, which hides the cost of each launch; the first launch isn't counted.
    pub fn time(
        &mut self,
        module: usize,
        launch: &Launch,
        arguments: &[Argument],
        repeats: u32,
    ) -> Result<f64, Fault> {
        self.enqueue(module, launch, arguments, 1)?;
        self.context.synchronize().map_err(driver)?;
        let start = Instant::now();
        self.enqueue(module, launch, arguments, repeats)?;
        self.context.synchronize().map_err(driver)?;
        Ok(start.elapsed().as_secs_f64() / f64::from(repeats.max(1)))
    }

    fn enqueue(
        &mut self,
        module: usize,
        launch: &Launch,
        arguments: &[Argument],
        repeats: u32,
    ) -> Result<(), Fault> {
        let program = &self.programs[module];
        let Some(kernel) = program.kernels.iter().find(|kernel| kernel.name == launch.kernel) else {
            return fault(format!("the module has no kernel {}", launch.kernel));
        };
        let address = |buffer: usize| self.memory[buffer].start + GUARD as u64;
        let packed = arguments::pack(launch.kernel, &kernel.parameters, arguments, address)?;
        let mut pointers: Vec<*mut c_void> = kernel
            .parameters
            .iter()
            .map(|parameter| packed[parameter.offset as usize..].as_ptr().cast_mut().cast())
            .collect();
        let name = CString::new(launch.kernel).map_err(|error| Fault(error.to_string()))?;
        let function = unsafe { result::module::get_function(program.module, name) }.map_err(driver)?;
        // More than 48 KiB, static ones included, must be allowed first.
        if launch.shared_bytes > 0 {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            unsafe {
                result::function::set_function_attribute(function, attribute, launch.shared_bytes as i32)
            }
            .map_err(driver)?;
        }
        let [x, y, z] = launch.grid;
        let block = launch.block;
        for _ in 0..repeats {
            unsafe {
                result::launch_kernel(
                    function,
                    (x, y, z),
                    (block[0], block[1], block[2]),
                    launch.shared_bytes,
                    std::ptr::null_mut(),
                    &mut pointers,
                )
            }
            .map_err(|error| Fault(format!("kernel {}: CUDA driver: {error:?}", launch.kernel)))?;
        }
        Ok(())
    }
}
