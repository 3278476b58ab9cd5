//! MaxText at e591f30cb on GPUs: `key=value` arguments of its training program, or a YAML file with the same names.

mod checks;
mod command_line;
mod mesh;
mod model;
mod read;
mod read_memory;
mod read_mesh;
mod write;

pub use command_line::CommandLine;
