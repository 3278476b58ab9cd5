//! Why a machine could not be measured.

use thiserror::Error;

use crate::execute::data::DataError;
use crate::execute::error::ExecuteError;

/// A calibration that failed.
#[derive(Debug, Error)]
pub enum CalibrateError {
    #[error("the measured program `{program}` cannot be built: {reason}")]
    Program { program: String, reason: String },
    #[error("the measured program cannot be run: {0}")]
    Run(#[from] ExecuteError),
    #[error("the measured program has no data: {0}")]
    Data(#[from] DataError),
}
