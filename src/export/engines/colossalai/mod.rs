//! ColossalAI at 4f9953be3, a Python file that makes its plugin; and Open-Sora 2.0, whose configuration names one.

mod checks;
mod open_sora;
mod open_sora_read;
mod plugin;
mod read;
mod read_hybrid;
mod read_pipeline;
mod script;
mod write;

pub use open_sora::OpenSora;
pub use script::Script;
