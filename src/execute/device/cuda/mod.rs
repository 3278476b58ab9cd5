//! NVIDIA GPUs: how kernels are compiled and launched. The device that runs programs with them is still to come.

#![expect(dead_code, reason = "until there is a device that launches kernels, only tests do")]

#[cfg(unix)]
mod compile;
mod launch;
