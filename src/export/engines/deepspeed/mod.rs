//! DeepSpeed: the JSON file that its engine is configured by.

mod checks;
mod config;
mod read;
mod write;

pub use config::Config;
