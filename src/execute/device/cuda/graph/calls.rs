//! Which calls a graph may hold: one of a stretch of a stream, or that of a whole step.

use crate::execute::call::{Call, Space, View};
use crate::execute::storage::Storage;
use crate::units::ElementType;

/// Whether `values` is a number of the step, which no kernel need look at.
pub fn is_number(values: View) -> bool {
    values.storage == Storage::Number(ElementType::Fp64) && values.len() == 1
}

/// Whether a call is work of its stream alone, known before it is submitted. Other calls meet other ranks or the host.
pub const fn is_own_work(call: &Call) -> bool {
    let is_other = matches!(
        call,
        Call::Collective { .. }
            | Call::Send { .. }
            | Call::Receive { .. }
            | Call::Check { .. }
            | Call::LossWeight(_)
    );
    !is_other && !is_of_cores(call)
}

/// Whether a call has the host look at what was computed, or compute, before anything comes after it. The host looks at
/// the losses of a step that is a graph after it: see [`super::step`].
pub fn needs_host(call: &Call) -> bool {
    match call {
        Call::Check { values, .. } => !is_number(*values),
        Call::LossWeight(_) => true,
        _ => is_of_cores(call),
    }
}

/// Whether cores do a call, although it comes in a stream of the GPU: without overlap the host's update does.
pub const fn is_of_cores(call: &Call) -> bool {
    matches!(call, Call::AdamW(update) if matches!(update.moments[0].space, Space::Host))
}
