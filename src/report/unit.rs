//! One unit for all numbers of a column or an axis.

use super::words::drawable;

/// A unit and how much of the base unit (bytes, seconds) it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    pub size: f64,
    pub name: &'static str,
}

impl Unit {
    /// Bytes no matter how many.
    pub const BYTE: Self = Self { size: 1.0, name: "B" };

    /// The binary unit of which `most` bytes are at least one.
    pub fn of_bytes(most: f64) -> Self {
        const NAMES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        // Up to 4096 GiB are better read in GiB.
        let power = (0..NAMES.len()).rev().find(|&power| {
            let size = 1024f64.powi(power as i32);
            drawable(most) >= if power > 3 { 4.0 * size } else { size }
        });
        power.map_or(Self::BYTE, |power| Self { size: 1024f64.powi(power as i32), name: NAMES[power] })
    }

    /// The unit of time of which `most` seconds are at least one.
    pub fn of_seconds(most: f64) -> Self {
        match drawable(most) {
            most if most >= 1.0 => Self { size: 1.0, name: "s" },
            most if most >= 1e-3 => Self { size: 1e-3, name: "ms" },
            most if most > 0.0 => Self { size: 1e-6, name: "us" },
            _ => Self { size: 1.0, name: "s" },
        }
    }

    /// The unit of tokens a second of which `most` are at least one.
    pub fn of_tokens_a_second(most: f64) -> Self {
        match drawable(most) {
            most if most >= 1e6 => Self { size: 1e6, name: "million tokens/s" },
            most if most >= 1e3 => Self { size: 1e3, name: "thousand tokens/s" },
            _ => Self { size: 1.0, name: "tokens/s" },
        }
    }

    /// Money, whatever its currency.
    pub const fn of_money(_: f64) -> Self {
        Self { size: 1.0, name: "in the price's currency" }
    }

    /// An amount of the base unit with two decimals and no name.
    pub fn show(self, amount: f64) -> String {
        let value = amount / self.size;
        if self.size == 1.0 && value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_largest_number() {
        assert_eq!(Unit::of_bytes(60.4 * 1073741824.0).name, "GiB");
        assert_eq!(Unit::of_bytes(1092.0 * 1073741824.0).name, "GiB");
        assert_eq!(Unit::of_bytes(9.0 * 1099511627776.0).name, "TiB");
        assert_eq!(Unit::of_bytes(0.0).name, "B");
        assert_eq!(Unit::of_bytes(f64::INFINITY).name, "PiB");
        assert_eq!(Unit::of_seconds(0.02).name, "ms");
        assert_eq!(Unit::of_seconds(0.0).name, "s");
        assert_eq!(Unit::of_bytes(3e9).show(3221225472.0), "3.00");
    }
}
