//! Megatron-LM and NeMo: the argument line of the one's training scripts, the overrides of the other's recipes.

mod agreement;
mod build;
mod checks;
mod command_line;
mod layout;
mod model;
mod nemo;
mod nemo_model;
mod other_programs;
mod pattern;
mod read;
mod recompute;
mod tokenizer;
mod write;
mod write_model;

pub use command_line::CommandLine;
pub use nemo::Recipe;
