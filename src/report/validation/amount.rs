//! Amounts and errors in words.

use crate::units::{Bytes, Seconds};
use crate::validate::{Quantity, Run};

/// Stands where there is nothing to say.
pub const NOTHING: &str = "-";

/// Predicted and measured amount in words.
pub fn amounts(run: &Run, quantity: Quantity) -> [String; 2] {
    let seconds = |value: Option<Seconds>| value.map_or(NOTHING.to_owned(), |value| value.to_string());
    let bytes = |value: Option<Bytes>| value.map_or(NOTHING.to_owned(), |value| value.to_string());
    [&run.predicted, &run.measured].map(|quantities| match quantity {
        Quantity::StepTime => seconds(quantities.step_time_s),
        Quantity::Memory => bytes(quantities.peak_memory_bytes),
    })
}

/// `4.2 %`.
pub fn percent(value: Option<f64>) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{:.1} %", 100.0 * value))
}

/// `-4.2 %`.
pub fn signed(value: Option<f64>) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{:+.1} %", 100.0 * value))
}

/// `42 %`.
pub fn share(value: Option<f64>) -> String {
    value.map_or(NOTHING.to_owned(), |value| format!("{:.0} %", 100.0 * value))
}
