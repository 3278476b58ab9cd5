//! Why a machine could not be measured.

use thiserror::Error;

use crate::execute::data::DataError;
use crate::execute::error::ExecuteError;
use crate::profile::ProfileError;
use crate::units::Bytes;

/// A calibration that failed.
#[derive(Debug, Error)]
pub enum CalibrateError {
    #[error("the measured program `{program}` cannot be built: {reason}")]
    Program { program: String, reason: String },
    #[error("the measured program cannot be run: {0}")]
    Run(#[from] ExecuteError),
    #[error("the measured program has no data: {0}")]
    Data(#[from] DataError),
    /// A card that no built-in cost model is of.
    #[error(
        "{card} is none of the built-in devices; --base names the one whose numbers stand where nothing is measured"
    )]
    Card { card: String, nearest: Vec<String> },
    #[error(
        "{held} of {memory} of {card} are taken before anything runs; end what holds them, and measure again"
    )]
    Held { card: String, held: Bytes, memory: Bytes },
    /// Numbers that no cost formula can use.
    #[error(transparent)]
    Number(#[from] ProfileError),
}
