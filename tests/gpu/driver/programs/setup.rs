//! What scenarios share: a context, a shipped kernel compiled by NVRTC, launches, and comparisons.

use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaStream, result, sys};
use cudarc::nvrtc::{Ptx, sys as nvrtc};
use std::ffi::{CString, c_void};
use std::path::Path;
use std::sync::Arc;

pub const COUNT: usize = 1000;

/// Text of any error of cudarc.
pub fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

pub struct Setup {
    pub context: Arc<CudaContext>,
    /// `to += from`, of f32 numbers.
    pub add: CudaFunction,
    _module: Arc<CudaModule>,
}

impl Setup {
    pub fn new(device: usize) -> Result<Setup, String> {
        let context = CudaContext::new(device).map_err(text)?;
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(elementwise()?).map_err(text)?;
        let add = module.load_function("elementwise_add").map_err(text)?;
        Ok(Setup { context, add, _module: module })
    }

    pub fn stream(&self) -> Result<Arc<CudaStream>, String> {
        self.context.new_stream().map_err(text)
    }

    /// Device memory of this many numbers.
    pub fn allocate(&self, count: usize) -> Result<u64, String> {
        unsafe { result::malloc_sync(count * 4) }.map_err(text)
    }

    /// Device memory with these numbers, which everything sees.
    pub fn upload(&self, values: &[f32]) -> Result<u64, String> {
        let memory = self.allocate(values.len())?;
        unsafe { result::memcpy_htod_sync(memory, values) }.map_err(text)?;
        self.context.synchronize().map_err(text)?;
        Ok(memory)
    }

    pub fn download(&self, memory: u64) -> Result<Vec<f32>, String> {
        let mut values = vec![0f32; COUNT];
        unsafe { result::memcpy_dtoh_sync(&mut values, memory) }.map_err(text)?;
        Ok(values)
    }

    /// Adds `count` numbers on a stream.
    pub fn add(&self, stream: &CudaStream, from: u64, to: u64, count: usize) -> Result<(), String> {
        let count = count as u64;
        let mut arguments = [pointer(&from), pointer(&to), pointer(&count), std::ptr::null_mut()];
        self.launch(stream.cu_stream(), &mut arguments)
    }

    /// The same with pointers to arguments as they are.
    pub fn launch(&self, stream: sys::CUstream, arguments: &mut [*mut c_void]) -> Result<(), String> {
        let launch = gpu::launch::elementwise::add(COUNT as u64);
        let ([x, y, z], block) = (launch.grid, launch.block);
        let function = self.add.cu_function();
        let block = (block[0], block[1], block[2]);
        unsafe { result::launch_kernel(function, (x, y, z), block, 0, stream, arguments) }.map_err(text)
    }
}

pub fn pointer<T>(value: &T) -> *mut c_void {
    std::ptr::from_ref(value).cast_mut().cast()
}

pub fn numbers() -> Vec<f32> {
    (0..COUNT).map(|index| index as f32).collect()
}

pub fn expect(values: &[f32], times: f32) -> Result<(), String> {
    match values.iter().zip(numbers()).position(|(value, number)| *value != times * number) {
        None => Ok(()),
        Some(at) => Err(format!("number {at} is {}, not {times} times {at}", values[at])),
    }
}

/// What the real NVRTC would give for a real device.
fn elementwise() -> Result<Ptx, String> {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../src/execute/kernels");
    let source = std::fs::read_to_string(kernels.join("elementwise/elementwise.cu")).map_err(text)?;
    let options = [
        CString::new(format!("--include-path={}", kernels.display())).map_err(text)?,
        CString::from(c"-DSTORAGE_F32"),
        CString::from(c"--gpu-architecture=sm_80"),
    ];
    let source = CString::new(source).map_err(text)?;
    let program = cudarc::nvrtc::result::create_program(&source, Some(c"elementwise.cu")).map_err(text)?;
    let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
    unsafe {
        nvrtc::nvrtcCompileProgram(program, pointers.len() as i32, pointers.as_ptr())
            .result()
            .map_err(text)?;
        let mut bytes = 0;
        nvrtc::nvrtcGetCUBINSize(program, &mut bytes).result().map_err(text)?;
        let mut binary = vec![0u8; bytes];
        nvrtc::nvrtcGetCUBIN(program, binary.as_mut_ptr().cast()).result().map_err(text)?;
        Ok(Ptx::from_binary(binary))
    }
}
