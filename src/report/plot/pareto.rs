//! The Pareto front: memory against time, each plan a numbered dot.

use plotters::style::text_anchor::{HPos, VPos};

use crate::plan::Plan;

use super::super::unit::Unit;
use super::super::words;
use super::axis::Axis;
use super::labels::Labels;
use super::panel::Panel;
use super::{Ink, Width, draw};

/// Memory to the right, time upwards; the dots bear the numbers of the table beside.
pub fn pareto(plan: &Plan, width: Width) -> String {
    let points = &plan.pareto;
    let x = Axis::around(points.iter().map(|point| point.process_bytes().0 as f64), Unit::of_bytes);
    let y = Axis::around(points.iter().map(|point| point.step_time_s.0), Unit::of_seconds);
    let height = 400;
    let description =
        format!("Step time against memory of the plans that no other beats in {}", words::dimensions(plan));
    draw((width, height), &description, |root, inks| {
        let right = width.units() as i32 - 30;
        let panel = Panel::new(root, inks, 76..right, 36..height as i32 - 52, 1);
        panel.bottom_axis(&x, "memory of a device")?;
        panel.left_axis(&y, "step time")?;
        let places: Vec<_> = points
            .iter()
            // Rows count downwards, time upwards.
            .map(|point| (x.position(point.process_bytes().0 as f64), 1.0 - y.position(point.step_time_s.0)))
            .collect();
        let mut front = places.clone();
        front.sort_by(|a, b| a.0.total_cmp(&b.0));
        // With more than two dimensions the front is no line.
        if front.len() > 1 && points.iter().all(|point| point.devices.is_none()) {
            panel.line(front, Ink::Muted, 1)?;
        }
        let is_chosen = |number: &usize| words::is_chosen(plan, &points[*number]);
        let mark = |number: &usize| if is_chosen(number) { (8, Ink::Accent) } else { (6, Ink::Series(1)) };
        // The chosen one last, in front of its neighbours; its label first.
        let (chosen, others): (Vec<usize>, Vec<usize>) = (0..points.len()).partition(is_chosen);
        for &number in others.iter().chain(&chosen) {
            let (point, place) = (&points[number], places[number]);
            let title = format!("{}: {}, {}", point.strategy, point.process_bytes(), point.step_time_s);
            let (radius, ink) = mark(&number);
            panel.dot(place, radius, ink, title)?;
        }
        let dots: Vec<_> =
            places.iter().enumerate().map(|(number, &place)| (panel.pixel(place), mark(&number).0)).collect();
        let mut labels = Labels::new([80, 24, right + 26, height as i32 - 54], &dots);
        // Where dots are dense, tooltip and table say which is which.
        for number in chosen.iter().chain(&others) {
            let (dot, radius) = dots[*number];
            let said = if is_chosen(number) { " chosen" } else { "" };
            let text = format!("{}{said}", number + 1);
            if let Some(middle) = labels.place(&text, dot, radius) {
                panel.words(&text, middle, (HPos::Center, VPos::Center), Ink::Text)?;
            }
        }
        Ok(())
    })
}
