//! Launches of kernels.

use crate::call::{Session, entries};
use crate::driver::Handle;
use crate::failure::{Answer, Error, refuse};
use crate::kernel::Shape;
use cudarc::driver::sys::CUlaunchConfig_st as Config;
use std::ffi::c_void;

entries! {
    Context fn cuLaunchKernel(
        function: Handle,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: Handle,
        arguments: *const *const c_void,
        extra: *const *const c_void,
    ) |session| {
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared_bytes };
        session.launch_on(function, stream, shape, arguments, extra)
    }

    Context fn cuLaunchKernelEx(
        config: *const Config,
        function: Handle,
        arguments: *const *const c_void,
        extra: *const *const c_void,
    ) |session| {
        let config = config.as_ref().ok_or(Error::CUDA_ERROR_INVALID_VALUE)?;
        if config.numAttrs != 0 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, format!("a launch with {} attributes", config.numAttrs));
        }
        let shape = Shape {
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            block: [config.blockDimX, config.blockDimY, config.blockDimZ],
            shared_bytes: config.sharedMemBytes,
        };
        session.launch_on(function, config.hStream.cast(), shape, arguments, extra)
    }
}

impl Session {
    unsafe fn launch_on(
        &mut self,
        function: Handle,
        stream: Handle,
        shape: Shape,
        arguments: *const *const c_void,
        extra: *const *const c_void,
    ) -> Answer {
        if !extra.is_null() {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, "a launch with `extra` arguments");
        }
        let stream = self.stream(stream)?;
        let work = unsafe { self.launch(function, stream, shape, arguments) }?;
        self.submit(stream, work)
    }
}
