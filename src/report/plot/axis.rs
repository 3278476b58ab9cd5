//! Axes: where a value stands between 0 and 1, and ticks with labels of our own.

use super::super::unit::Unit;
use super::super::words::drawable;

/// Ticks at most.
const MOST_TICKS: usize = 8;
/// Values that differ by more are on a logarithmic axis, where the picture allows one.
const WIDE: f64 = 12.0;
/// Smaller shares of the largest value stand at the start of a logarithmic axis.
const LEAST: f64 = 1e-9;

/// An axis of amounts in base units.
#[derive(Clone, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    logarithmic: bool,
    unit: Unit,
}

impl Axis {
    /// From 0 to a little above `most`.
    pub fn from_zero(most: f64, unit: fn(f64) -> Unit) -> Self {
        let most = drawable(most);
        let high = if most > 0.0 { most * 1.02 } else { 1.0 };
        Self { low: 0.0, high, logarithmic: false, unit: unit(most) }
    }

    /// Part of time, from `low` to `high`.
    pub fn between(low: f64, high: f64, unit: fn(f64) -> Unit) -> Self {
        let (low, high) = (drawable(low), drawable(high));
        Self { low, high: if high > low { high } else { low + 1.0 }, logarithmic: false, unit: unit(high) }
    }

    /// Around all values, logarithmic where they differ widely, from 0 where they do not.
    pub fn around(values: impl Iterator<Item = f64>, unit: fn(f64) -> Unit) -> Self {
        let values: Vec<_> = values.map(drawable).collect();
        let most = values.iter().copied().fold(0.0, f64::max);
        let least = values.iter().copied().filter(|&value| value > 0.0).fold(most, f64::min);
        if most > WIDE * least {
            let low = (least / 1.5).max(most * LEAST);
            Self { low, high: most * 1.5, logarithmic: true, unit: unit(most) }
        } else {
            Self::from_zero(most * 1.06, unit)
        }
    }

    /// Whether lengths from its start mean something.
    pub const fn starts_at_zero(&self) -> bool {
        !self.logarithmic
    }

    /// The least and the largest value on it.
    pub const fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Where `value` stands, from 0 to 1; what is outside stands at the end.
    pub fn position(&self, value: f64) -> f64 {
        let value = drawable(value);
        let position = if self.logarithmic {
            (value.max(self.low).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
        } else {
            (value - self.low) / (self.high - self.low)
        };
        drawable(position).min(1.0)
    }

    /// `what (GiB)`, and whether it is logarithmic.
    pub fn title(&self, what: &str) -> String {
        let scale = if self.logarithmic { ", logarithmic" } else { "" };
        format!("{what} ({}{scale})", self.unit.name)
    }

    /// Positions and labels of round values, at most eight.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let (low, high) = (self.low / self.unit.size, self.high / self.unit.size);
        let values = if self.logarithmic { round_powers(low, high) } else { round_steps(low, high) };
        values.into_iter().map(|value| (self.position(value * self.unit.size), label(value))).collect()
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn round_steps(low: f64, high: f64) -> Vec<f64> {
    let power = 10f64.powf(((high - low) / MOST_TICKS as f64).log10().floor());
    let count = |step: f64| ((high / step).floor() - (low / step).ceil()) as usize + 1;
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let Some(step) = steps.into_iter().find(|&step| step > 0.0 && count(step) <= MOST_TICKS) else {
        return Vec::new();
    };
    let first = (low / step).ceil();
    (0..count(step)).map(|tick| (first + tick as f64) * step).collect()
}

/// 1, 2 and 5 times powers of ten, or only as many powers of ten as there is room for.
fn round_powers(low: f64, high: f64) -> Vec<f64> {
    let powers = (low.log10().floor() as i32..=high.log10().ceil() as i32).map(|power| 10f64.powi(power));
    let with = |factors: &[f64]| -> Vec<f64> {
        let values = powers.clone().flat_map(|power| factors.iter().map(move |factor| factor * power));
        values.filter(|value| (low..=high).contains(value)).collect()
    };
    let fine = with(&[1.0, 2.0, 5.0]);
    if fine.len() <= MOST_TICKS {
        return fine;
    }
    let coarse = with(&[1.0]);
    let every = coarse.len().div_ceil(MOST_TICKS).max(1);
    coarse.into_iter().step_by(every).collect()
}

/// A round value with as many digits as it has.
fn label(value: f64) -> String {
    if value != 0.0 && !(1e-4..1e6).contains(&value.abs()) {
        return format!("{value:.0e}");
    }
    // Six digits hide the dust of multiplying; zeros at the end say nothing.
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: f64 = 1_073_741_824.0;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(&Axis::from_zero(80.0 * GIB, Unit::of_bytes)), ["0", "20", "40", "60", "80"]);
        assert_eq!(
            labels(&Axis::from_zero(0.03, Unit::of_seconds)),
            ["0", "5", "10", "15", "20", "25", "30"]
        );
        let part = Axis::between(2.54, 3.1, Unit::of_seconds);
        assert_eq!(labels(&part), ["2.6", "2.7", "2.8", "2.9", "3", "3.1"]);
    }

    #[test]
    fn wide_values_are_logarithmic() {
        let wide = Axis::around([36.0 * GIB, 1092.0 * GIB].into_iter(), Unit::of_bytes);
        assert_eq!(labels(&wide), ["50", "100", "200", "500", "1000"]);
        assert_eq!(wide.title("memory"), "memory (GiB, logarithmic)");
        assert!(!wide.starts_at_zero());
        assert!(Axis::around([36.0, 40.0].into_iter(), Unit::of_seconds).starts_at_zero());
    }

    proptest! {
        #[test]
        fn any_values_have_few_ticks(values in proptest::collection::vec(any::<f64>(), 0..6)) {
            for axis in [
                Axis::around(values.iter().copied(), Unit::of_bytes),
                Axis::from_zero(values.first().copied().unwrap_or(0.0), Unit::of_seconds),
            ] {
                let ticks = axis.ticks();
                prop_assert!(ticks.len() <= MOST_TICKS);
                prop_assert!(ticks.iter().all(|(position, _)| (0.0..=1.0).contains(position)));
            }
        }
    }
}
