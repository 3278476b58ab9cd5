//! Cost-model and engine-profile files: their types, reading and provenance.

pub mod automatic;
pub mod capabilities;
pub mod capability;
pub mod catalog;
pub mod choices;
pub mod coverage;
pub mod device;
pub mod engine;
pub mod engines;
pub mod error;
pub mod evidence;
pub mod expert_load;
pub mod field;
pub mod inherit;
mod naming;
pub mod recomputed;
mod variant;

pub use catalog::{device_model, device_models, parse_device_model};
pub use device::DeviceModel;
pub use engine::EngineProfile;
pub use error::ProfileError;
pub use evidence::{Evidence, Sourced};
pub use naming::device_named;
