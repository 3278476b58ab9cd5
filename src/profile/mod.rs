//! Floor 2: cost-model and engine-profile files: their types, reading and provenance.

pub mod choices;
pub mod device;
pub mod engine;
pub mod evidence;

pub use device::DeviceModel;
pub use engine::EngineProfile;
pub use evidence::{Evidence, Sourced};
