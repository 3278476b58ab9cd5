//! Measures the GPU of this machine: small step programs run on it, and the numbers of its cost model are found in what
//! their instructions took. What is not measured is the built-in model's, and says so.

mod laws;
mod measure;
mod model;
mod programs;

use std::time::Instant;

use crate::calibrate::error::CalibrateError;
use crate::calibrate::measure::Effort;
use crate::execute::device::cuda::measure::Bench;
use crate::profile::{DeviceModel, device_model, device_named};

pub use measure::Measured;
pub use model::Change;

/// A cost model of this machine's GPU and how it came about.
#[derive(Clone, Debug)]
pub struct Calibration {
    pub model: DeviceModel,
    /// Each number that was measured, in the order of the file.
    pub changed: Vec<Change>,
    pub measured: Measured,
    pub seconds: f64,
}

/// Measures the first GPU of this machine. What is not measured is that of the built-in device `base`, or of the one that
/// the card's name means. Calls `say` with the name of each part before it begins, and with the share of the time that has
/// passed.
///
/// # Errors
/// If there is no GPU, another process holds its memory, no built-in device is meant, or a program fails.
pub fn calibrate(
    base: Option<&str>,
    effort: Effort,
    say: &dyn Fn(&'static str, f64),
) -> Result<Calibration, CalibrateError> {
    let began = Instant::now();
    let bench = Bench::open()?;
    let card = bench.card();
    let known = match base {
        Some(base) => device_named(base)?,
        None => device_named(&card.name)
            .map_err(|error| CalibrateError::Card { card: card.name.clone(), nearest: error.nearest() })?,
    };
    let base = device_model(known)?.0;
    let measured = measure::measure(&bench, effort, began, say)?;
    let (model, changed) = model::model(&base, &measured)?;
    Ok(Calibration { model, changed, measured, seconds: began.elapsed().as_secs_f64() })
}
