//! What devices cost: an amount of money for each device and hour, in any one currency.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grouped;
use super::parse::{QuantityError, real, split};
use super::quantity::{Money, Seconds};

/// Seconds of an hour.
pub(super) const HOUR: f64 = 3600.0;

/// Money for one device for one hour.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Price(f64);

impl Price {
    /// What `devices` devices cost for `time`.
    pub fn of(self, devices: u64, time: Seconds) -> Money {
        Money(self.0 * devices as f64 * time.0 / HOUR)
    }
}

impl FromStr for Price {
    type Err = QuantityError;

    /// A number above 0, with or without `/h`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let error = || QuantityError { text: text.to_owned(), what: "price", example: "2.5/h" };
        let number = text.strip_suffix("/h").unwrap_or(text);
        match split(number).ok_or_else(error)? {
            (number, "") => real(number).filter(|price| *price > 0.0).map(Self).ok_or_else(error),
            _ => Err(error()),
        }
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl fmt::Display for Money {
    /// Three digits at least: `0.00123`, `1.23`, `1,234`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0.abs() {
            0.0 => "0".to_owned(),
            value if value >= 1000.0 => grouped(self.0.round() as u64),
            value if value >= 1.0 => format!("{:.2}", self.0),
            value if value >= 1e-6 => format!("{:.*}", (2.0 - value.log10().floor()) as usize, self.0),
            _ => format!("{:.2e}", self.0),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_with_and_without_their_hour() {
        assert_eq!("2.5/h".parse::<Price>().unwrap(), Price(2.5));
        assert_eq!("2.5".parse::<Price>().unwrap(), Price(2.5));
        for text in ["", "0", "-1", "-1/h", "nan", "inf", "2.5/d", "2.5$", "/h", "1e400"] {
            assert!(text.parse::<Price>().is_err(), "{text}");
        }
    }

    #[test]
    fn eight_devices_for_half_an_hour_cost_four_hours_of_one() {
        assert_eq!(Price(2.5).of(8, Seconds(1800.0)), Money(10.0));
    }

    #[test]
    fn amounts_read_well() {
        let said = [0.0, 1234567.8, 999.0, 1.5, 0.25, 0.0123456, 1.5e-6, 3e-10]
            .map(|amount| Money(amount).to_string());
        assert_eq!(said, ["0", "1,234,568", "999.00", "1.50", "0.250", "0.0123", "0.00000150", "3.00e-10"]);
    }
}
