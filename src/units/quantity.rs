//! Bytes, seconds, FLOPs and their rates as types, with arithmetic and a readable `Display`.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

macro_rules! real_quantity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, factor: f64) -> Self {
                Self(self.0 * factor)
            }
        }

        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, divisor: f64) -> Self {
                Self(self.0 / divisor)
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                Self(items.map(|item| item.0).sum())
            }
        }

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0.0);

            /// The larger of two.
            pub fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            /// The smaller of two.
            pub fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }
        }
    };
}

real_quantity! {
    /// A span of time.
    Seconds
}
real_quantity! {
    /// A number of floating-point operations; a multiply and an add are two.
    Flops
}
real_quantity! {
    /// A rate of data.
    BytesPerSecond
}
real_quantity! {
    /// A rate of arithmetic.
    FlopsPerSecond
}

real_quantity! {
    /// An amount of money, in the currency that prices were given in.
    Money
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// This many kibibytes.
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// This many mebibytes.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// This many gibibytes.
    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    /// Every buffer starts at a multiple of this, and takes whole multiples of it.
    pub const ALIGNMENT: u64 = 64;

    /// The memory that a buffer of these bytes takes.
    #[must_use]
    pub const fn aligned(self) -> Self {
        Self(self.0.next_multiple_of(Self::ALIGNMENT))
    }

    /// As a real number of gibibytes.
    pub fn as_gib(self) -> f64 {
        self.0 as f64 / (1u64 << 30) as f64
    }

    /// The time to move these bytes at `rate`.
    pub fn at(self, rate: BytesPerSecond) -> Seconds {
        Seconds(self.0 as f64 / rate.0)
    }

    /// `self - other`, or nothing where `other` is more.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This share of the bytes, rounded to the nearest byte.
    pub fn scaled(self, factor: f64) -> Self {
        Self((self.0 as f64 * factor).round() as u64)
    }
}

impl Flops {
    /// The time to do these operations at `rate`.
    pub fn at(self, rate: FlopsPerSecond) -> Seconds {
        Seconds(self.0 / rate.0)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        Self(items.map(|item| item.0).sum())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let text = match self.0 {
            0..1024 => format!("{} B", self.0),
            1024..1_048_576 => format!("{:.1} KiB", bytes / 1024.0),
            1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes / 1_048_576.0),
            1_073_741_824..1_099_511_627_776 => format!("{:.2} GiB", bytes / 1_073_741_824.0),
            _ => format!("{:.2} TiB", bytes / 1_099_511_627_776.0),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0.abs() {
            0.0 => "0 s".to_owned(),
            value if value < 1e-3 => format!("{:.1} us", self.0 * 1e6),
            value if value < 1.0 => format!("{:.1} ms", self.0 * 1e3),
            value if value < 100.0 => format!("{:.2} s", self.0),
            _ => format!("{:.0} s", self.0),
        };
        f.pad(&text)
    }
}

/// `value` with a decimal prefix: `989.0 T`.
fn decimal(value: f64) -> String {
    const PREFIXES: [(f64, &str); 6] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match PREFIXES.into_iter().find(|(size, _)| value.abs() >= *size) {
        Some((size, prefix)) => format!("{:.1} {prefix}", value / size),
        None => format!("{value:.1} "),
    }
}

impl fmt::Display for Flops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}FLOP", decimal(self.0)))
    }
}

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}B/s", decimal(self.0)))
    }
}

impl fmt::Display for FlopsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}FLOP/s", decimal(self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes::gib(80).to_string(), "80.00 GiB");
        assert_eq!(Seconds(0.0042).to_string(), "4.2 ms");
        assert_eq!(Seconds(12.345).to_string(), "12.35 s");
        assert_eq!(FlopsPerSecond(989e12).to_string(), "989.0 TFLOP/s");
    }

    #[test]
    fn moving_bytes_takes_their_size_over_the_rate() {
        assert_eq!(Bytes(3_000).at(BytesPerSecond(1e3)), Seconds(3.0));
    }
}
