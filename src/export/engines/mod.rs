//! The engines, a folder or a file each.

pub mod colossalai;
pub mod maxtext;
pub mod megatron;
pub mod nanotron;
pub mod torchtitan;
