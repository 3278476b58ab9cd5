//! nanotron 0.4: one YAML file, `config.yaml`.

mod cuts;
mod model;
mod read;
mod release;
mod write;

pub use release::Release;
