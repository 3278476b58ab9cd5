//! torchtitan: v0.2.2, the last release with TOML files, and the main branch, whose configurations are Python.

mod cuts;
mod flavors;
mod read;
mod recipe;
mod release;
mod schedule_file;
mod write;

pub use recipe::Recipe;
pub use release::Release;
