//! Floor 2: cost-model and engine-profile files: their types, reading and provenance.

pub mod device;
pub mod evidence;

pub use device::DeviceModel;
pub use evidence::{Evidence, Sourced};
