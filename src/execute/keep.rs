//! What a run leaves on disk: its weights and the state to go on from.

use std::path::Path;

use crate::execute::contents::{Kept, Tensors};
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::fleet::Fleet;
use crate::execute::weights::{save_state, save_weights};

/// Writes weights and moments of `fleet` to `folder`, after `steps` steps and with `sequences` sequences read.
///
/// # Errors
/// When a file cannot be written.
pub fn save<T: Element, G: Element<Wide = T::Wide>>(
    fleet: &Fleet,
    folder: &Path,
    (steps, sequences): (u64, u64),
) -> Result<(), ExecuteError> {
    let (model, element) = (&fleet.run.model, fleet.run.workload.state_type());
    let parameters = fleet.read::<T, G>(Kept::Parameters);
    save_weights(folder, model, element, &mut |layer, role, rows, out| {
        copy_rows(&parameters, (layer, role), rows, out);
    })?;
    drop(parameters);
    let first = fleet.read::<T, G>(Kept::FirstMoments);
    let second = fleet.read::<T, G>(Kept::SecondMoments);
    save_state(
        folder,
        model,
        element,
        (steps, sequences),
        &mut |layer, role, rows, out| copy_rows(&first, (layer, role), rows, out),
        &mut |layer, role, rows, out| copy_rows(&second, (layer, role), rows, out),
    )?;
    Ok(())
}

/// Rows `rows` of a parameter out of whole tensors; what is not among them is 0.
pub(super) fn copy_rows(
    tensors: &Tensors,
    parameter: (usize, &'static str),
    rows: std::ops::Range<u64>,
    out: &mut [f64],
) {
    let columns = out.len() / (rows.end - rows.start).max(1) as usize;
    match tensors.get(&parameter) {
        Some(values) => out.copy_from_slice(&values[rows.start as usize * columns..][..out.len()]),
        None => out.fill(0.0),
    }
}
