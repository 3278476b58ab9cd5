//! The engines, a folder or a file each.

pub mod megatron;
pub mod torchtitan;
pub mod deepspeed;
