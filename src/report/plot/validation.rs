//! Predicted against measured: every run a dot, and the errors of each source in a row.

use std::collections::BTreeMap;

use crate::validate::Quantity;

use super::super::unit::Unit;
use super::axis::Axis;
use super::panel::{Panel, shortened};
use super::{Ink, Width, draw};
use crate::units::several;

/// There are too many dots to draw them twice.
const WIDTH: Width = Width::Wide;

/// One run that was predicted and measured, in seconds or bytes.
pub struct Mark<'a> {
    pub source: &'a str,
    /// 1 to 7.
    pub ink: u8,
    pub predicted: f64,
    pub measured: f64,
    /// predicted / measured − 1.
    pub error: f64,
    pub title: String,
}

/// Errors beyond this stand at the end of their row.
const MOST: f64 = 0.6;

/// Measured to the right, predicted upwards, on one axis.
pub fn scatter(marks: &[Mark<'_>], quantity: Quantity) -> String {
    let (unit, what): (fn(f64) -> Unit, _) = match quantity {
        Quantity::StepTime => (Unit::of_seconds, "step time"),
        Quantity::Memory => (Unit::of_bytes, "peak memory"),
    };
    let axis = Axis::around(marks.iter().flat_map(|mark| [mark.predicted, mark.measured]), unit);
    let height = 560;
    draw(
        (WIDTH, height),
        &format!("Predicted against measured {what} of {}", several("run", marks.len())),
        |root, inks| {
            let panel = Panel::new(root, inks, 80..WIDTH.units() as i32 - 30, 36..height as i32 - 52, 1);
            panel.bottom_axis(&axis, &format!("measured {what}"))?;
            panel.left_axis(&axis, &format!("predicted {what}"))?;
            let (low, high) = axis.ends();
            for (factor, ink) in [(0.8, Ink::Limit), (1.0, Ink::Text), (1.2, Ink::Limit)] {
                // Where both coordinates are on the axis.
                let (first, last) = (low.max(low / factor), high.min(high / factor));
                let place = |measured: f64| (axis.position(measured), 1.0 - axis.position(measured * factor));
                panel.line([place(first), place(last)], ink, 1)?;
            }
            for mark in marks {
                // Rows count downwards.
                let place = (axis.position(mark.measured), 1.0 - axis.position(mark.predicted));
                panel.dot(place, 4, Ink::Series(mark.ink), mark.title.clone())?;
            }
            Ok(())
        },
    )
}

/// A row of dots a source, the source with the most runs first; a bar stands at the median.
pub fn residuals(marks: &[Mark<'_>]) -> String {
    let mut sources: BTreeMap<&str, Vec<&Mark<'_>>> = BTreeMap::new();
    for mark in marks {
        sources.entry(mark.source).or_default().push(mark);
    }
    let mut sources: Vec<_> = sources.into_iter().collect();
    sources.sort_by_key(|(_, marks)| usize::MAX - marks.len());
    let position = |error: f64| 0.5 + 0.5 * (error / MOST).clamp(-1.0, 1.0);
    let (top, bottom, row) = (24, 52, 24);
    let height = top + row * sources.len() as u32 + bottom;
    draw((WIDTH, height), "Errors of each source", |root, inks| {
        let y = top as i32..(height - bottom) as i32;
        let panel = Panel::new(root, inks, 250..WIDTH.units() as i32 - 30, y, sources.len());
        let label =
            |error: f64| if error == 0.0 { "0".to_owned() } else { format!("{:+.0} %", 100.0 * error) };
        let ticks: Vec<_> = [-0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
            .map(|error| (position(error), label(error)))
            .into();
        panel.bottom_ticks(&ticks, "predicted over measured, less one")?;
        panel.line([(0.5, 0.0), (0.5, sources.len() as f64)], Ink::Text, 1)?;
        for (place, (name, marks)) in sources.iter().enumerate() {
            panel.row_label(place, &format!("{} ({})", shortened(name, 24), marks.len()))?;
            let middle = place as f64 + 0.5;
            for (turn, mark) in marks.iter().enumerate() {
                // Five lines, so that dots of like errors do not hide each other.
                let down = middle + 0.13 * ((turn % 5) as f64 - 2.0);
                panel.dot((position(mark.error), down), 3, Ink::Series(mark.ink), mark.title.clone())?;
            }
            let mut errors: Vec<f64> = marks.iter().map(|mark| mark.error).collect();
            errors.sort_by(f64::total_cmp);
            let median = position(errors[errors.len() / 2]);
            panel.line([(median, middle - 0.4), (median, middle + 0.4)], Ink::Text, 3)?;
        }
        Ok(())
    })
}
