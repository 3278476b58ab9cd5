//! The ladder: memory and time of every step from plain data parallel to the plan, side by side.

use crate::plan::{LadderStep, Plan};

use super::super::unit::Unit;
use super::super::words;
use super::axis::Axis;
use super::labels::broken;
use super::panel::Panel;
use super::{Drawn, Ink, Width, draw};

/// Left the memory, with the device's as a line, right the time.
pub fn ladder(plan: &Plan) -> String {
    let steps = &plan.ladder;
    let device = plan.cluster.device_memory_bytes;
    let memory = |step: &LadderStep| step.prediction.process_bytes();
    let time = |step: &LadderStep| step.prediction.step_time_s;
    let memories =
        Axis::around(steps.iter().map(|step| memory(step).0 as f64).chain([device.0 as f64]), Unit::of_bytes);
    let times = Axis::around(steps.iter().map(|step| time(step).0), Unit::of_seconds);
    let (top, bottom) = (28, 52);
    let height = top + 38 * steps.len() as u32 + bottom;
    draw((Width::Wide, height), "Memory and step time of every step of the ladder", |root, inks| {
        let y = top as i32..(height - bottom) as i32;
        let left = Panel::new(root, inks, 290..540, y.clone(), steps.len());
        let right = Panel::new(root, inks, 660..870, y, steps.len());
        left.bottom_axis(&memories, "memory")?;
        right.bottom_axis(&times, "step time")?;
        left.limit(memories.position(device.0 as f64), "device memory")?;
        for (row, step) in steps.iter().enumerate() {
            left.row_labels(row, &broken(&step.changed, 33, 2))?;
            let fit = words::fit(&step.prediction, device);
            let bytes = memory(step);
            let ink = if step.prediction.fits { Ink::Series(1) } else { Ink::Limit };
            let said = if step.prediction.fits { bytes.to_string() } else { format!("{bytes} ✗") };
            let title = format!("{}: {bytes}, {fit}", step.changed);
            mark(&left, &memories, row, bytes.0 as f64, (ink, said, title))?;
            let seconds = time(step);
            let title = format!("{}: {seconds}", step.changed);
            mark(&right, &times, row, seconds.0, (Ink::Series(1), seconds.to_string(), title))?;
        }
        Ok(())
    })
}

/// A bar where lengths mean something, otherwise a dot; the number at the right.
fn mark(
    panel: &Panel<'_, '_>,
    axis: &Axis,
    row: usize,
    value: f64,
    (ink, said, title): (Ink, String, String),
) -> Drawn {
    let (end, row) = (axis.position(value), row as f64);
    if axis.starts_at_zero() {
        panel.bar(0.0..end, row + 0.2..row + 0.8, ink, title)?;
    } else {
        panel.line([(0.0, row + 0.5), (end, row + 0.5)], Ink::Grid, 2)?;
        panel.dot((end, row + 0.5), 7, ink, title)?;
    }
    panel.note((1.0, row + 0.5), 8, &said)
}
