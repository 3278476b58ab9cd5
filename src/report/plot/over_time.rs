//! Memory over time: what the fullest rank holds through a step, stacked by category.

use plotters::style::text_anchor::{HPos, VPos};

use crate::plan::{MemoryMoment, MemoryOverTime, Plan};

use super::super::parts;
use super::super::unit::Unit;
use super::axis::Axis;
use super::labels::text_width;
use super::panel::Panel;
use super::{Ink, Width, draw};

/// Time to the right, memory upwards, with the device's memory and the peak; nothing where the plan has no curve.
pub fn memory_over_time(plan: &Plan, width: Width) -> Option<String> {
    let MemoryOverTime { stage, moments } = plan.memory_over_time.as_ref()?;
    let sums = moments.iter().map(|moment| (held(moment, 6), moment));
    let (most, whole) = sums.reduce(|full, next| if next.0 > full.0 { next } else { full })?;
    let rank = plan.prediction.ranks.iter().find(|rank| rank.stage == *stage)?;
    let end = moments.last()?.at_s.0;
    let device = plan.cluster.device_memory_bytes;
    // A limit far out of reach would leave no picture of what is used.
    let limit = Some(device.0 as f64).filter(|&limit| limit < 8.0 * most);
    let y = Axis::from_zero(limit.unwrap_or(most).max(most), Unit::of_bytes);
    let x = Axis::from_zero(end / 1.02, Unit::of_seconds);
    let height = 340;
    let description = format!("Memory of the rank of stage {stage} over a step, by category");
    let drawn = draw((width, height), &description, |root, inks| {
        let right = width.units() as i32 - 20;
        let panel = Panel::new(root, inks, 70..right, 60..height as i32 - 52, 1);
        panel.bottom_axis(&x, "time in the step")?;
        panel.left_axis_titled(&y, &y.title("memory"), 48)?;
        // The whole first, then less and less of it in front: what is left to be seen of each is one category.
        let parts = parts::memory(&whole.memory_bytes);
        for (place, part) in parts.iter().enumerate().rev() {
            let most = moments.iter().map(|moment| moment.memory_bytes.parts()[place].1).max();
            let title =
                format!("{}: {} at the peak, at most {}", part.name, part.shown, most.unwrap_or_default());
            let edge = edge(moments, place, &x, &y, &panel);
            panel.filled(edge, Ink::Series(part.ink), title)?;
        }
        if let Some(limit) = limit {
            let row = 1.0 - y.position(limit);
            panel.line([(0.0, row), (1.0, row)], Ink::Limit, 2)?;
            panel.words(
                &format!("device memory {device}"),
                (right, 12),
                (HPos::Right, VPos::Center),
                Ink::Limit,
            )?;
        }
        let (across, row) = (x.position(rank.peak_at_s.0), 1.0 - y.position(most));
        panel.line([(across, row), (across, 0.0)], Ink::Text, 1)?;
        panel.dot((across, row), 5, Ink::Text, format!("peak: {}", rank.peak_instant))?;
        let text = format!("peak {} at {}", rank.peak_memory_bytes, rank.peak_at_s);
        let half = (text_width(&text) / 2.0) as i32;
        let middle = panel.pixel((across, 0.0)).0.clamp(4 + half, (right - half).max(4 + half));
        panel.words(&text, (middle, 46), (HPos::Center, VPos::Center), Ink::Text)
    });
    Some(drawn)
}

/// Bytes of the first `place + 1` categories together.
fn held(moment: &MemoryMoment, place: usize) -> f64 {
    moment.memory_bytes.parts()[..=place].iter().map(|(_, bytes)| bytes.0 as f64).sum()
}

/// The outline of the first `place + 1` categories together: steps from left to right, and back along the bottom.
fn edge(
    moments: &[MemoryMoment],
    place: usize,
    x: &Axis,
    y: &Axis,
    panel: &Panel<'_, '_>,
) -> Vec<(f64, f64)> {
    let mut edge = vec![(0.0, 1.0)];
    let mut last = None;
    for moment in moments {
        let (at, row) = (x.position(moment.at_s.0), 1.0 - y.position(held(moment, place)));
        let pixel = panel.pixel((at, row)).1;
        // What would not be seen is not drawn.
        if last.is_none_or(|(_, before)| before != pixel) {
            edge.extend(last.map(|(row, _)| (at, row)));
            edge.push((at, row));
            last = Some((row, pixel));
        }
    }
    edge.extend(last.map(|(row, _)| (1.0, row)));
    edge.push((1.0, 1.0));
    edge
}
