//! Megatron-LM: the argument line of its training scripts.

mod checks;
mod command_line;
mod layout;
mod model;
mod read;
mod write;

pub use command_line::CommandLine;
