//! Modules, which are PTX here, their functions, and how many blocks of one fit.

use super::devices::{
    BLOCKS_OF_PROCESSOR, RESERVED_SHARED, SHARED_OF_BLOCK, SHARED_OF_PROCESSOR, THREADS_OF_PROCESSOR,
};
use super::give;
use crate::call::{Session, entries};
use crate::driver::Handle;
use crate::failure::{Answer, Error, refuse};
use crate::kernel::{Function, Module};
use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;
use std::ffi::{CStr, CString, c_char, c_void};

entries! {
    Context fn cuModuleLoadData(module: *mut Handle, image: *const c_void) |session| {
        give(module, session.load(image)?)
    }

    Context fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        _options: u32,
        _names: *const u32,
        _values: *const *const c_void,
    ) |session| { give(module, session.load(image)?) }

    Context fn cuModuleUnload(module: Handle) |session| {
        match session.modules.remove(&(module as u64)) {
            Some(_) => Ok(()),
            None => refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{module:?} is no module")),
        }
    }

    Context fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) |session| {
        let key = module as u64;
        let Some(number) = session.modules.get(&key).map(|module| module.number) else {
            return refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{module:?} is no module"));
        };
        let wanted = CStr::from_ptr(name);
        let there = session.device.0.kernels(number).any(|kernel| kernel.as_bytes() == wanted.to_bytes());
        if !there {
            return refuse(Error::CUDA_ERROR_NOT_FOUND, format!("the module has no kernel {}", wanted.to_string_lossy()));
        }
        let known = session.functions.iter().find(|(_, function)| function.module == key && *function.c_name == *wanted);
        if let Some((&handle, _)) = known {
            return give(function, handle as Handle);
        }
        let handle = session.handle();
        let (name, c_name) = (wanted.to_string_lossy().into_owned().leak(), CString::from(wanted));
        session.functions.insert(handle, Function { module: key, name, c_name, allowed_shared: 0 });
        give(function, handle as Handle)
    }

    Context fn cuModuleGetFunctionCount(count: *mut u32, module: Handle) |session| {
        let Some(number) = session.modules.get(&(module as u64)).map(|module| module.number) else {
            return refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{module:?} is no module"));
        };
        give(count, session.device.0.kernels(number).count() as u32)
    }

    Context fn cuFuncGetName(name: *mut *const c_char, function: Handle) |session| {
        give(name, session.function(function)?.c_name.as_ptr())
    }

    Context fn cuFuncSetCacheConfig(function: Handle, _config: u32) |session| {
        session.function(function).map(drop)
    }

    Context fn cuFuncSetAttribute(function: Handle, attribute: u32, value: i32) |session| {
        let kernel = session.kernel(function)?;
        let fixed = session.static_shared(kernel) as i32;
        if attribute == Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT as u32 {
            return Ok(());
        }
        if attribute != Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, format!("setting function attribute {attribute}"));
        }
        if value < 0 || value + fixed > SHARED_OF_BLOCK {
            return refuse(
                Error::CUDA_ERROR_INVALID_VALUE,
                format!("{value} bytes of dynamic and {fixed} of other shared memory, at most {SHARED_OF_BLOCK}"),
            );
        }
        session.function(function)?.allowed_shared = value as u32;
        Ok(())
    }

    Context fn cuFuncGetAttribute(value: *mut i32, attribute: u32, function: Handle) |session| {
        use Attribute as A;
        let kernel = session.kernel(function)?;
        let fixed = session.static_shared(kernel) as i32;
        let allowed = session.function(function)?.allowed_shared as i32;
        let frame = session.device.0.frame(kernel.0, kernel.1).map_err(|_| Error::CUDA_ERROR_INVALID_HANDLE)?;
        let values = [
            (A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, frame.most_threads.unwrap_or(1024) as i32),
            (A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, fixed),
            (A::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 0),
            (A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, frame.local_bytes as i32),
            // PTX doesn't say; this many let a block of 1024 threads run.
            (A::CU_FUNC_ATTRIBUTE_NUM_REGS, 64),
            (A::CU_FUNC_ATTRIBUTE_PTX_VERSION, 80),
            (A::CU_FUNC_ATTRIBUTE_BINARY_VERSION, 80),
            (A::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, allowed.max(crate::kernel::PLAIN_SHARED as i32 - fixed)),
        ];
        let found = values.iter().find(|(known, _)| *known as u32 == attribute);
        give(value, found.ok_or(Error::CUDA_ERROR_INVALID_VALUE)?.1)
    }

    Context fn cuFuncGetParamInfo(function: Handle, index: usize, offset: *mut usize, bytes: *mut usize) |session| {
        if session.settings.version < 12_040 {
            return refuse(Error::CUDA_ERROR_NOT_SUPPORTED, "drivers have this function from CUDA 12.4 on");
        }
        let (module, name) = session.kernel(function)?;
        let frame = session.device.0.frame(module, name).map_err(|_| Error::CUDA_ERROR_INVALID_HANDLE)?;
        let parameter = frame.parameters.get(index).ok_or(Error::CUDA_ERROR_INVALID_VALUE)?;
        let size = parameter.bytes as usize;
        give(offset, parameter.offset as usize)?;
        if bytes.is_null() { Ok(()) } else { give(bytes, size) }
    }

    Context fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut i32, function: Handle, threads: i32, shared: usize) |session| {
        give(blocks, session.blocks(function, threads, shared)?)
    }

    Context fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: *mut i32,
        function: Handle,
        threads: i32,
        shared: usize,
        _flags: u32,
    ) |session| { give(blocks, session.blocks(function, threads, shared)?) }
}

impl Session {
    unsafe fn load(&mut self, image: *const c_void) -> Answer<Handle> {
        self.refuse_unsafe_call()?;
        let device = self.current()?;
        if image.is_null() {
            return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
        }
        let bytes = unsafe { CStr::from_ptr(image.cast()) };
        let Some(text) = bytes.to_str().ok().filter(|text| text.contains(".entry")) else {
            return refuse(
                Error::CUDA_ERROR_INVALID_IMAGE,
                "the image isn't PTX of this driver's `libnvrtc`",
            );
        };
        match self.device.0.load(text) {
            Ok(number) => {
                let handle = self.handle();
                self.modules.insert(handle, Module { device, number });
                Ok(handle as Handle)
            }
            Err(fault) => refuse(Error::CUDA_ERROR_INVALID_PTX, fault.0),
        }
    }

    /// By threads and shared memory; registers aren't known.
    fn blocks(&mut self, function: Handle, threads: i32, shared: usize) -> Answer<i32> {
        let kernel = self.kernel(function)?;
        let fixed = self.static_shared(kernel) as i32;
        if !(1..=1024).contains(&threads) {
            return Err(Error::CUDA_ERROR_INVALID_VALUE.into());
        }
        let shared = i32::try_from(shared).unwrap_or(i32::MAX - fixed - RESERVED_SHARED);
        let by_threads = THREADS_OF_PROCESSOR / ((threads + 31) / 32 * 32);
        let by_shared = SHARED_OF_PROCESSOR / (shared + fixed + RESERVED_SHARED);
        Ok(by_threads.min(by_shared).min(BLOCKS_OF_PROCESSOR))
    }
}
