//! Checks a launch's arguments against the kernel's parameters and packs them as the kernel reads them.

use crate::fault::{Fault, fault};
use crate::gpu::Argument;
use crate::ptx::{Parameter, Type};

pub fn pack(
    kernel: &str,
    parameters: &[Parameter],
    arguments: &[Argument],
    address: impl Fn(usize) -> u64,
) -> Result<Vec<u8>, Fault> {
    if parameters.len() != arguments.len() {
        return fault(format!(
            "kernel {kernel}: {} arguments for {} parameters",
            arguments.len(),
            parameters.len()
        ));
    }
    let end = parameters.last().map_or(0, |last| last.offset + last.bytes);
    let mut packed = vec![0; end as usize];
    for (index, (parameter, argument)) in parameters.iter().zip(arguments).enumerate() {
        let (bits, bytes, float) = match *argument {
            Argument::Buffer(buffer) => (address(buffer.0), 8, false),
            Argument::Part(buffer, offset) => (address(buffer.0) + offset, 8, false),
            Argument::U32(value) => (u64::from(value), 4, false),
            Argument::I32(value) => (u64::from(value as u32), 4, false),
            Argument::U64(value) => (value, 8, false),
            Argument::F32(value) => (u64::from(value.to_bits()), 4, true),
            Argument::F64(value) => (value.to_bits(), 8, true),
        };
        let fits = parameter.bytes == bytes
            && match parameter.element {
                Type::Bits(8) => false,
                Type::Bits(_) => true,
                kind => kind.is_float() == float,
            };
        if !fits {
            return fault(format!(
                "kernel {kernel}: argument {index} is {argument:?}, its parameter is {:?} of {} bytes",
                parameter.element, parameter.bytes
            ));
        }
        packed[parameter.offset as usize..][..bytes as usize]
            .copy_from_slice(&bits.to_le_bytes()[..bytes as usize]);
    }
    Ok(packed)
}
