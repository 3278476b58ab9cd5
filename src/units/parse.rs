//! Quantities as people write them: `80GiB`, `400Gb/s`, `5us`, or a bare number in the base unit.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use super::money::HOUR;
use super::quantity::{Bytes, BytesPerSecond, Seconds};

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is no {what}; {example} is one")]
pub struct QuantityError {
    pub text: String,
    pub what: &'static str,
    pub example: &'static str,
}

impl FromStr for Bytes {
    type Err = QuantityError;

    /// A number with B, KB, KiB, MB, MiB, … TiB or nothing (bytes); fractions are rounded to whole bytes.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let error = || QuantityError { text: text.to_owned(), what: "size", example: "80GiB" };
        let (number, unit) = split(text).ok_or_else(error)?;
        let factor = match unit {
            "" => 1,
            _ => unit.strip_suffix('B').and_then(prefix).ok_or_else(error)?,
        };
        // Whole numbers stay exact where a float would round them.
        if let Ok(count) = number.parse::<u64>() {
            return count.checked_mul(factor).map(Self).ok_or_else(error);
        }
        let bytes = (real(number).ok_or_else(error)? * factor as f64).round();
        if bytes < u64::MAX as f64 { Ok(Self(bytes as u64)) } else { Err(error()) }
    }
}

impl FromStr for BytesPerSecond {
    type Err = QuantityError;

    /// A number with B/s, GB/s, GiB/s, Gb/s (bits) and so on, or nothing (bytes/s).
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let error = || QuantityError { text: text.to_owned(), what: "bandwidth", example: "400Gb/s" };
        let (number, unit) = split(text).ok_or_else(error)?;
        let number = real(number).ok_or_else(error)?;
        if unit.is_empty() {
            return Ok(Self(number));
        }
        let amount = unit.strip_suffix("/s").ok_or_else(error)?;
        let (name, bits) = match (amount.strip_suffix('B'), amount.strip_suffix('b')) {
            (Some(name), _) => (name, 8.0),
            (_, Some(name)) => (name, 1.0),
            (None, None) => return Err(error()),
        };
        let factor = prefix(name).ok_or_else(error)? as f64;
        let rate = number * factor * bits / 8.0;
        if rate.is_finite() { Ok(Self(rate)) } else { Err(error()) }
    }
}

impl FromStr for Seconds {
    type Err = QuantityError;

    /// A number with ns, us, ms, s, m or min (minutes), h, d, y (365.25 days) or nothing (seconds).
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let error = || QuantityError { text: text.to_owned(), what: "time", example: "5us" };
        let (number, unit) = split(text).ok_or_else(error)?;
        let number = real(number).ok_or_else(error)?;
        let seconds = match unit {
            "" | "s" | "sec" => number,
            "ms" => number / 1e3,
            "us" => number / 1e6,
            "ns" => number / 1e9,
            "m" | "min" => number * 60.0,
            "h" | "hr" => number * HOUR,
            "d" => number * 24.0 * HOUR,
            "y" => number * 365.25 * 24.0 * HOUR,
            _ => return Err(error()),
        };
        if seconds.is_finite() { Ok(Self(seconds)) } else { Err(error()) }
    }
}

/// Number and unit of a text: the unit starts at the first letter that is no exponent.
pub fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let exponent = |at: usize| {
        matches!(bytes[at], b'e' | b'E')
            && at > 0
            && match bytes.get(at + 1) {
                Some(b'+' | b'-') => bytes.get(at + 2).is_some_and(u8::is_ascii_digit),
                next => next.is_some_and(u8::is_ascii_digit),
            }
    };
    let start = text
        .char_indices()
        .find(|&(at, c)| c.is_alphabetic() && !exponent(at))
        .map_or(text.len(), |(at, _)| at);
    let (number, unit) = text.split_at(start);
    let number = number.trim_end();
    (!number.is_empty()).then_some((number, unit))
}

/// A finite number of at least 0.
pub(super) fn real(number: &str) -> Option<f64> {
    number.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

/// What a decimal or binary prefix multiplies by.
fn prefix(name: &str) -> Option<u64> {
    Some(match name {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    })
}

/// A quantity that a file may hold as a number in the base unit or as text with a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Written<T>(pub T);

impl<T: Serialize> Serialize for Written<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: FromStr<Err = QuantityError>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenVisitor(PhantomData))
    }
}

struct WrittenVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err = QuantityError>> de::Visitor<'_> for WrittenVisitor<T> {
    type Value = Written<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a text with a unit")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Written<T>, E> {
        text.parse().map(Written).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Written<T>, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Written<T>, E> {
        self.visit_str(&value.to_string())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Written<T>, E> {
        self.visit_str(&value.to_string())
    }
}

impl<T> JsonSchema for Written<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "description": "A number in bytes, bytes/s or seconds, or a text with a unit such as 80GiB, 400Gb/s or 5us."
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read() {
        let read = |text: &str| text.parse::<Bytes>().unwrap();
        assert_eq!(read("0"), Bytes(0));
        assert_eq!(read("512"), Bytes(512));
        assert_eq!(read("512B"), Bytes(512));
        assert_eq!(read("80GiB"), Bytes::gib(80));
        assert_eq!(read("80 GiB"), Bytes::gib(80));
        assert_eq!(read("80GB"), Bytes(80_000_000_000));
        assert_eq!(read("1.5KiB"), Bytes(1536));
        assert_eq!(read("2TiB"), Bytes(2 << 40));
        assert_eq!(read("1e3KB"), Bytes(1_000_000));
        assert_eq!(read("18446744073709551615"), Bytes(u64::MAX));
    }

    #[test]
    fn bandwidths_are_read_in_bits_and_bytes() {
        let read = |text: &str| text.parse::<BytesPerSecond>().unwrap().0;
        assert_eq!(read("400Gb/s"), 50e9);
        assert_eq!(read("50GB/s"), 50e9);
        assert_eq!(read("1GiB/s"), 1_073_741_824.0);
        assert_eq!(read("2.5e10"), 2.5e10);
        assert_eq!(read("1.8TB/s"), 1.8e12);
    }

    #[test]
    fn times_are_read() {
        assert_eq!("5us".parse::<Seconds>().unwrap(), Seconds(5e-6));
        assert_eq!("0.5 ms".parse::<Seconds>().unwrap(), Seconds(5e-4));
        assert_eq!("2".parse::<Seconds>().unwrap(), Seconds(2.0));
        assert_eq!("30m".parse::<Seconds>().unwrap(), Seconds(1800.0));
        assert_eq!("3h".parse::<Seconds>().unwrap(), Seconds(10_800.0));
        assert_eq!("2d".parse::<Seconds>().unwrap(), Seconds(172_800.0));
        assert_eq!("1y".parse::<Seconds>().unwrap(), Seconds(31_557_600.0));
        assert!("1e305y".parse::<Seconds>().is_err());
    }

    #[test]
    fn what_is_no_quantity_is_named() {
        for text in ["", "GiB", "-1GiB", "8 0GiB", "80gib", "80GB/s", "nan", "inf", "1e400", "20000000TiB"] {
            let error = text.parse::<Bytes>().unwrap_err();
            assert_eq!(error.text, text);
        }
        assert_eq!("80Gi".parse::<Bytes>().unwrap_err().to_string(), "`80Gi` is no size; 80GiB is one");
        for text in ["400G", "400GB", "400Gbps", "-1GB/s", "1e308TB/s"] {
            assert!(text.parse::<BytesPerSecond>().is_err(), "{text}");
        }
        for text in ["5", "5us", "5 minutes", "e", "5e", "é", "1e"] {
            let _ = text.parse::<Seconds>();
        }
    }

    #[test]
    fn files_may_hold_numbers_or_texts() {
        let read = |json: &str| serde_json::from_str::<Written<Bytes>>(json).map(|written| written.0);
        assert_eq!(read("1024").unwrap(), Bytes(1024));
        assert_eq!(read("\"1KiB\"").unwrap(), Bytes(1024));
        assert_eq!(read("1.5e3").unwrap(), Bytes(1500));
        assert!(read("-1").is_err());
        assert!(read("null").is_err());
        assert!(read("\"much\"").unwrap_err().to_string().contains("`much` is no size"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<BytesPerSecond>();
            let _ = text.parse::<Seconds>();
        }

        #[test]
        fn whole_bytes_survive(count in any::<u64>()) {
            prop_assert_eq!(count.to_string().parse::<Bytes>().unwrap(), Bytes(count));
            let json = serde_json::to_string(&Written(Bytes(count))).unwrap();
            prop_assert_eq!(serde_json::from_str::<Written<Bytes>>(&json).unwrap().0, Bytes(count));
        }

        #[test]
        fn rates_survive(rate in 0.0..1e18f64) {
            let json = serde_json::to_string(&Written(BytesPerSecond(rate))).unwrap();
            prop_assert_eq!(serde_json::from_str::<Written<BytesPerSecond>>(&json).unwrap().0.0, rate);
        }
    }
}
