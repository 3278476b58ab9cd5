//! torchtitan: v0.2.2, the last release with TOML files, and v0.3.0 and the main branch, whose configurations are Python.

mod batch;
mod cuts;
mod flavors;
mod old;
mod read;
mod recipe;
mod registry;
mod release;
mod schedule_file;
mod write;

pub use recipe::{MAIN, V0_3};
pub use registry::registered;
pub use release::Release;
