//! The Pareto front: memory against time, each plan a numbered dot.

use plotters::style::text_anchor::{HPos, VPos};

use crate::plan::Plan;

use super::super::unit::Unit;
use super::super::words;
use super::axis::Axis;
use super::panel::Panel;
use super::{Ink, WIDTH, draw};

/// Memory to the right, time upwards; the dots bear the numbers of the table beside.
pub fn pareto(plan: &Plan) -> String {
    let points = &plan.pareto;
    let x = Axis::around(points.iter().map(|point| point.peak_memory_bytes.0 as f64), Unit::of_bytes);
    let y = Axis::around(points.iter().map(|point| point.step_time_s.0), Unit::of_seconds);
    let height = 400;
    let description = format!(
        "Step time against peak memory of the plans that no other beats in {}",
        words::dimensions(plan)
    );
    draw(height, &description, |root, inks| {
        let panel = Panel::new(root, inks, 80..WIDTH as i32 - 30, 36..height as i32 - 52, 1);
        panel.bottom_axis(&x, "peak memory of a device")?;
        panel.left_axis(&y, "step time")?;
        let places: Vec<_> = points
            .iter()
            // Rows count downwards, time upwards.
            .map(|point| {
                (x.position(point.peak_memory_bytes.0 as f64), 1.0 - y.position(point.step_time_s.0))
            })
            .collect();
        let mut front = places.clone();
        front.sort_by(|a, b| a.0.total_cmp(&b.0));
        // With more than two dimensions the front is no line.
        if front.len() > 1 && points.iter().all(|point| point.devices.is_none()) {
            panel.line(front, Ink::Muted, 1)?;
        }
        let mut labelled: Vec<(i32, i32)> = Vec::new();
        for (number, (point, &place)) in points.iter().zip(&places).enumerate() {
            let is_chosen = words::is_chosen(plan, point);
            let title = format!("{}: {}, {}", point.strategy, point.peak_memory_bytes, point.step_time_s);
            let (radius, ink) = if is_chosen { (8, Ink::Accent) } else { (6, Ink::Series(1)) };
            panel.dot(place, radius, ink, title)?;
            // Where dots are dense, tooltip and table say which is which.
            let (left, top) = panel.pixel(place);
            if is_chosen {
                // Below the front there is nothing.
                let text = format!("{} chosen", number + 1);
                panel.words(&text, (left, top + 20), (HPos::Center, VPos::Center), Ink::Text)?;
                continue;
            }
            let is_free = |&(x, y): &(i32, i32)| (x - left).abs() > 24 || (y - top).abs() > 16;
            if labelled.iter().all(is_free) {
                labelled.push((left, top));
                let text = (number + 1).to_string();
                panel.words(&text, (left + 6, top - 15), (HPos::Left, VPos::Center), Ink::Text)?;
            }
        }
        Ok(())
    })
}
