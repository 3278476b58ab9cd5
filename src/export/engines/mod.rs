//! The engines, a folder or a file each.

pub mod accelerate;
pub mod deepspeed;
pub mod megatron;
pub mod torchtitan;
