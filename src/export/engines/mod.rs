//! The engines, a folder or a file each.

pub mod accelerate;
pub mod colossalai;
pub mod deepspeed;
pub mod maxtext;
pub mod megatron;
pub mod nanotron;
pub mod torchtitan;
