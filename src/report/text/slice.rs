//! A slice as a terminal shows it: which ranks ran, what their computing took, and the step that is composed of it.

use super::listing::{
    Column::{Name, Number},
    Listing,
};
use super::sheet::Sheet;
use crate::trace::{Slice, TimeFrom, Trace};
use crate::units::several;

/// The time of every rank that ran, where it was measured, and the composed step with its notes.
pub(super) fn time(sheet: &mut Sheet, trace: &Trace, slice: &Slice) {
    let mut table =
        Listing::new(&[("rank", Number), ("time", Name), ("predicted", Number), ("measured", Number)]);
    for row in trace.time.iter().filter(|row| row.predicted_s.0 > 0.0 || row.measured_s.is_some()) {
        let measured = row.measured_s.map_or_else(|| "priced".to_owned(), |seconds| seconds.to_string());
        table.row([row.rank.to_string(), row.cause.replace('_', " "), row.predicted_s.to_string(), measured]);
    }
    sheet.listing("time", &table);
    if let Some(step) = slice.composed_step_time_s {
        let measured = slice.composed.iter().filter(|stage| stage.time_from == TimeFrom::Measured).count();
        let text = format!(
            "A step of the plan would take {step}: composed and not measured. Computing of {measured} of {} was \
             measured; all else, and all communication, is priced by the cost model {}.",
            several("stage", slice.composed.len()),
            trace.plan.cost_model.name
        );
        sheet.paragraph("", &text);
    }
    for note in &slice.notes {
        sheet.paragraph("", note);
    }
}
