//! torchtitan: v0.2.2, the last release with TOML files.

mod cuts;
mod flavors;
mod read;
mod release;
mod write;

pub use release::Release;
