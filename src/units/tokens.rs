//! Tokens that a run trains on, as people write them: `15T`, `300B`.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parse::{QuantityError, real, split};

/// A number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Tokens(pub u64);

/// More than any run trains on, and still exact as a float.
const MOST: f64 = 1e15;

impl FromStr for Tokens {
    type Err = QuantityError;

    /// A number from 1 to 10^15 with K, M, B, T (10^3, 10^6, 10^9, 10^12; small letters, and G for B, will do) or nothing, rounded to whole tokens.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let error = || QuantityError { text: text.to_owned(), what: "number of tokens", example: "15T" };
        let (number, unit) = split(text).ok_or_else(error)?;
        let factor = match unit {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            "b" | "B" | "g" | "G" => 1e9,
            "t" | "T" => 1e12,
            _ => return Err(error()),
        };
        let tokens = (real(number).ok_or_else(error)? * factor).round();
        if (1.0..=MOST).contains(&tokens) { Ok(Self(tokens as u64)) } else { Err(error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_letters_of_run_sizes() {
        let read = |text: &str| text.parse::<Tokens>().map(|tokens| tokens.0).ok();
        assert_eq!(read("15T"), Some(15_000_000_000_000));
        assert_eq!(read("1.5B"), Some(1_500_000_000));
        assert_eq!(read("20 M"), Some(20_000_000));
        assert_eq!(read("3K"), Some(3_000));
        assert_eq!(read("300g"), Some(300_000_000_000));
        assert_eq!(read("15t"), Some(15_000_000_000_000));
        assert_eq!(read("7"), Some(7));
        for text in ["", "T", "0", "-1T", "nan", "15P", "15TB", "1e16", "0.1"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
