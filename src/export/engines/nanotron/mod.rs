//! nanotron, one YAML file, `config.yaml`: its main branch, and the release of the same number that pip installs.

mod checks;
mod model;
mod read;
mod release;
mod write;

pub use release::{MAIN, PUBLISHED};
