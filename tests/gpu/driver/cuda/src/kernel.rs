//! Modules and functions, and how a launch becomes work: its shape and its arguments are checked when it's submitted.

use crate::driver::{Driver, Handle};
use crate::failure::{Answer, Error, refuse};
use crate::spoil::{FAR, Spoil, changed};
use crate::work::{Kernel, Work};
use gpu::Parameter;
use std::ffi::{CString, c_void};

pub struct Module {
    pub device: usize,
    /// The emulator's number.
    pub number: usize,
}

pub struct Function {
    pub module: u64,
    pub name: &'static str,
    pub c_name: CString,
    /// The dynamic shared memory that the program has allowed.
    pub allowed_shared: u32,
}

/// What a block gets of shared memory without asking for more.
pub const PLAIN_SHARED: u32 = 48 * 1024;

/// The shape of a launch.
#[derive(Clone, Copy)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared_bytes: u32,
}

impl Driver {
    pub fn function(&mut self, handle: Handle) -> Answer<&mut Function> {
        match self.functions.get_mut(&(handle as u64)) {
            Some(function) => Ok(function),
            None => refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{handle:?} is no function")),
        }
    }

    /// The emulator's module and the name of a function.
    pub fn kernel(&mut self, handle: Handle) -> Answer<(usize, &'static str)> {
        let Function { module, name, .. } = *self.function(handle)?;
        match self.modules.get(&module) {
            Some(module) => Ok((module.number, name)),
            None => {
                refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("the module of {name} has been unloaded"))
            }
        }
    }

    /// The bytes of shared memory that a kernel always has.
    pub fn static_shared(&self, (module, name): (usize, &str)) -> u32 {
        let frame = self.device.0.frame(module, name);
        frame.map_or(0, |frame| frame.shared.iter().map(|&(_, bytes)| bytes as u32).sum())
    }

    /// # Safety
    /// `arguments` has a pointer to each parameter's value, which a wrong program doesn't keep: what can't be read, or is
    /// missing, is refused.
    pub unsafe fn launch(
        &mut self,
        handle: Handle,
        stream: u64,
        shape: Shape,
        arguments: *const *const c_void,
    ) -> Answer<Work> {
        let (module, name) = self.kernel(handle)?;
        let device = self.current()?;
        let function = self.function(handle)?;
        let (key, allowed) = (function.module, function.allowed_shared);
        let of_stream = &self.streams[&stream];
        if of_stream.device != device || self.modules[&key].device != device {
            return refuse(
                Error::CUDA_ERROR_INVALID_HANDLE,
                format!(
                    "kernel {name} of device {} on {} in a context of device {device}",
                    self.modules[&key].device, of_stream.name
                ),
            );
        }
        let Shape { grid, block, shared_bytes } = shape;
        let invalid = |text: String| refuse(Error::CUDA_ERROR_INVALID_VALUE, text);
        let launch = gpu::Launch { kernel: name, grid, block, shared_bytes };
        if let Err(fault) = self.device.0.check(module, &launch) {
            return invalid(fault.0);
        }
        let fixed = self.static_shared((module, name));
        if fixed + shared_bytes > PLAIN_SHARED && shared_bytes > allowed {
            return invalid(format!(
                "kernel {name}: {shared_bytes} bytes of dynamic shared memory, of which {allowed} are allowed \
                 (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)"
            ));
        }
        let frame = self.device.0.frame(module, name);
        let parameters = frame.map(|frame| frame.parameters.clone()).unwrap_or_default();
        if let Some(sizes) = self.declared.get_mut(&stream).and_then(|declared| declared.arguments.take()) {
            compare(name, &parameters, &sizes)?;
        }
        let mut packed = unsafe { pack(name, &parameters, arguments) }?;
        self.spoil_arguments(name, &parameters, &mut packed);
        Ok(Work::Kernel(Kernel { device, module, name, grid, block, shared_bytes, packed }))
    }
}

impl Driver {
    /// Makes one of the arguments wrong, if this call is to.
    fn spoil_arguments(&mut self, kernel: &str, parameters: &[Parameter], packed: &mut [u8]) {
        let bytes = |parameter: &Parameter| {
            let start = parameter.offset as usize;
            start..start + parameter.bytes as usize
        };
        let (parameter, change) = match self.spoil {
            Some(Spoil::MovedArgument(index)) => (parameters.get(index), FAR),
            Some(Spoil::More) => {
                let is_number = |parameter: &&Parameter| {
                    let Ok(eight) = <[u8; 8]>::try_from(&packed[bytes(parameter)]) else { return true };
                    let value = u64::from_le_bytes(eight);
                    value != 0 && self.memory.allocation(value, 1).is_none()
                };
                (parameters.iter().find(is_number), 1)
            }
            _ => return,
        };
        if let Some(parameter) = parameter {
            changed(&mut packed[bytes(parameter)], change);
            self.spoil = None;
            // For who wants to know why it did no harm.
            eprintln!("planted in kernel {kernel}");
        }
    }
}

/// The bytes of each argument, where the program has told them, against what the kernel expects.
fn compare(name: &str, parameters: &[Parameter], sizes: &[u32]) -> Answer {
    if parameters.len() != sizes.len() {
        return refuse(
            Error::CUDA_ERROR_INVALID_VALUE,
            format!("kernel {name}: {} arguments for {} parameters", sizes.len(), parameters.len()),
        );
    }
    match (0..sizes.len()).find(|&index| parameters[index].bytes != u64::from(sizes[index])) {
        None => Ok(()),
        Some(index) => refuse(
            Error::CUDA_ERROR_INVALID_VALUE,
            format!(
                "kernel {name}: argument {index} has {} bytes, its parameter {}",
                sizes[index], parameters[index].bytes
            ),
        ),
    }
}

unsafe fn pack(name: &str, parameters: &[Parameter], arguments: *const *const c_void) -> Answer<Vec<u8>> {
    let end = parameters.last().map_or(0, |last| last.offset + last.bytes);
    let mut packed = vec![0; end as usize];
    for (index, parameter) in parameters.iter().enumerate() {
        let missing = |what: &str| {
            refuse(
                Error::CUDA_ERROR_INVALID_VALUE,
                format!("kernel {name}: {what} for parameter {index} of {}", parameters.len()),
            )
        };
        let mut pointer = [0; 8];
        if arguments.is_null() || !peek(arguments.wrapping_add(index) as u64, &mut pointer) {
            return missing("no pointer to an argument");
        }
        let place = &mut packed[parameter.offset as usize..][..parameter.bytes as usize];
        let pointer = u64::from_ne_bytes(pointer);
        if !peek(pointer, place) {
            return missing(&format!("{pointer:#x}, which is no memory of the program,"));
        }
    }
    Ok(packed)
}

/// Reads memory of this process. It's false where there is none.
pub fn peek(address: u64, bytes: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: bytes.len() };
    // SAFETY: the kernel writes no further than `bytes`, and refuses what it can't read.
    let read =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    read == bytes.len() as isize
}
