//! Megatron-LM and NeMo: the argument line of the one's training scripts, the overrides of the other's recipes.

mod checks;
mod command_line;
mod layout;
mod model;
mod nemo;
mod read;
mod write;

pub use command_line::CommandLine;
pub use nemo::Recipe;
