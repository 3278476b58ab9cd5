//! Curves along a sweep: throughput with the ideal line, and the cost of tokens.

use crate::plan::Plan;
use crate::plan::map::SweepPoint;
use crate::search::map::SweepKey;
use crate::units::Money;

use super::super::map;
use super::super::unit::Unit;
use super::super::words;
use super::axis::Axis;
use super::panel::Panel;
use super::{Ink, Width, draw};

/// One dot of a curve.
struct Dot {
    x: f64,
    y: f64,
    /// What stands under it on the axis.
    label: String,
    title: String,
    /// The best strategy is of another kind than at the value before.
    is_other_kind: bool,
}

/// Tokens/s of all devices against what is swept; for devices with the line of perfect scaling.
pub fn throughput(plan: &Plan, key: SweepKey, width: Width) -> String {
    let dots = dots(plan, key, |point| point.tokens_per_s, |rate| format!("{} tokens/s", words::rate(rate)));
    let ideal = match dots.first() {
        Some(first) if key == SweepKey::Devices => {
            dots.iter().map(|dot| (dot.x, first.y * dot.x / first.x)).collect()
        }
        _ => Vec::new(),
    };
    let y = Axis::around(
        dots.iter().map(|dot| dot.y).chain(ideal.iter().map(|at| at.1)),
        Unit::of_tokens_a_second,
    );
    curve(&dots, &ideal, &y, (key, ["throughput", "Throughput"], width))
}

/// What a million tokens cost against what is swept.
pub fn cost(plan: &Plan, key: SweepKey, width: Width) -> String {
    let million = |point: &SweepPoint| point.cost.map(|cost| map::million(cost.token).0);
    let dots = dots(plan, key, million, |cost| Money(cost).to_string());
    let y = Axis::around(dots.iter().map(|dot| dot.y), Unit::of_money);
    curve(&dots, &[], &y, (key, ["a million tokens", "Cost of a million tokens"], width))
}

fn dots(
    plan: &Plan,
    key: SweepKey,
    read: impl Fn(&SweepPoint) -> Option<f64>,
    say: impl Fn(f64) -> String,
) -> Vec<Dot> {
    let dot = |point: &SweepPoint| {
        let (value, strategy, y) = (map::value(key, point), point.strategy.as_ref()?, read(point)?);
        let label = map::shown(key, value);
        Some(Dot {
            x: value as f64,
            y,
            title: format!("{} {label}: {}, {}", map::column(key), say(y), strategy.text),
            label,
            is_other_kind: plan.break_evens.iter().any(|found| found.to == value),
        })
    };
    plan.sweep.iter().filter_map(dot).collect()
}

/// Dots joined by a line; `ideal` is another line, of values and amounts. What is shown, on the axis and in full.
fn curve(
    dots: &[Dot],
    ideal: &[(f64, f64)],
    y: &Axis,
    (key, [what, said], width): (SweepKey, [&str; 2], Width),
) -> String {
    let x = Axis::around(dots.iter().map(|dot| dot.x), Unit::of_bytes);
    let height = 360;
    draw((width, height), &format!("{said} along the sweep"), |root, inks| {
        let panel = Panel::new(root, inks, 76..width.units() as i32 - 40, 36..height as i32 - 52, 1);
        let ticks: Vec<_> = dots.iter().map(|dot| (x.position(dot.x), dot.label.clone())).collect();
        panel.bottom_ticks(&ticks, map::column(key))?;
        panel.left_axis(y, what)?;
        // Rows count downwards, amounts upwards.
        let place = |(value, amount): (f64, f64)| (x.position(value), 1.0 - y.position(amount));
        if ideal.len() > 1 {
            panel.line(ideal.iter().copied().map(place).collect::<Vec<_>>(), Ink::Muted, 1)?;
        }
        let places: Vec<_> = dots.iter().map(|dot| place((dot.x, dot.y))).collect();
        if places.len() > 1 {
            panel.line(places.clone(), Ink::Series(1), 2)?;
        }
        for (dot, &place) in dots.iter().zip(&places) {
            let ink = if dot.is_other_kind { Ink::Series(4) } else { Ink::Series(1) };
            panel.dot(place, 6, ink, dot.title.clone())?;
        }
        Ok(())
    })
}
