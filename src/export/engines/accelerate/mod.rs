//! Hugging Face Accelerate: the YAML file of `accelerate launch`, for FSDP2 and DDP.

mod checks;
mod config;
mod handed;
mod read;
mod script;
mod write;

pub use config::Config;
pub use handed::deepspeed_settings;
