//! Measures this machine: runs small step programs, and fits a cost model to what their instructions took.

pub mod efficiency;
pub mod error;
pub mod facts;
pub mod fit;
pub mod fitting;
pub mod gpu;
pub mod machine;
pub mod measure;
pub mod model;
pub mod observe;
pub mod products;
pub mod programs;
pub mod samples;

pub use error::CalibrateError;
pub use measure::Effort;
pub use model::{Calibration, calibrate};
