//! Numbers as they are typed: whole or real, within a range, with errors that name the range.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::error::CliError;
use crate::units::{Kilo, counts, grouped};

/// The whole number `text`, given for flag `field`, which lies in `range`; its `k` is 1000.
pub fn whole(field: &str, text: &str, range: RangeInclusive<u64>) -> Result<u64, CliError> {
    whole_with(Kilo::Thousand, field, text, range)
}

/// The same of a count whose `k` is `kilo`.
pub fn whole_with(kilo: Kilo, field: &str, text: &str, range: RangeInclusive<u64>) -> Result<u64, CliError> {
    let (least, most) = (*range.start(), *range.end());
    let error = |nearest: Vec<u64>| {
        CliError::usage(field, text, format!("a whole number from {least} to {most} is needed")).or(nearest)
    };
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds is more than `most` too.
        let number = text.parse().unwrap_or(u64::MAX);
        return if range.contains(&number) {
            Ok(number)
        } else {
            Err(error(vec![number.clamp(least, most)]))
        };
    }
    match counts(text, kilo).as_slice() {
        [] => {}
        [only] if range.contains(only) => return Ok(*only),
        [only] => return Err(error(vec![(*only).clamp(least, most)])),
        several => {
            let possible: Vec<u64> = several.iter().copied().filter(|count| range.contains(count)).collect();
            let shown = several.iter().map(|count| grouped(*count)).collect::<Vec<_>>().join(" or ");
            return Err(
                CliError::usage(field, text, format!("this may be {shown}; write it out")).or(possible)
            );
        }
    }
    let Ok(number) = text.parse::<f64>() else { return Err(error(Vec::new())) };
    // The casts saturate, and turn what is no number into 0.
    let mut nearest = [number.floor(), number.ceil()].map(|near| (near as u64).clamp(least, most)).to_vec();
    nearest.dedup();
    Err(error(nearest))
}

/// The real number `text` that `is_legal`; `legal` says which are, and `nearest` is one.
pub fn real(
    field: &str,
    text: &str,
    is_legal: impl Fn(f64) -> bool,
    legal: &str,
    nearest: impl Display,
) -> Result<f64, CliError> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && is_legal(number) => Ok(number),
        _ => Err(CliError::usage(field, text, format!("a number {legal} is needed")).or([nearest])),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wrong_numbers_name_range_and_nearest() {
        let nearest = |text: &str| whole("seq-len", text, 1..=100).unwrap_err().nearest;
        assert_eq!(whole("seq-len", "100", 1..=100), Ok(100));
        assert_eq!(nearest("0"), ["1"]);
        assert_eq!(nearest("-3"), ["1"]);
        assert_eq!(nearest("2.5"), ["2", "3"]);
        assert_eq!(nearest("1000000000000000000"), ["100"]);
        assert_eq!(nearest("99999999999999999999999999"), ["100"]);
        assert_eq!(nearest("many"), [""; 0]);
        assert_eq!(nearest("NaN"), ["1"]);
        assert_eq!(
            whole("seq-len", "0", 1..=100).unwrap_err().message,
            "--seq-len 0: a whole number from 1 to 100 is needed"
        );
        assert_eq!(whole_with(Kilo::Binary, "seq-len", "128k", 1..=1 << 20), Ok(131_072));
        assert_eq!(nearest("1k"), ["100"]);
        let either = whole_with(Kilo::Either, "global-batch", "1k", 1..=1010).unwrap_err();
        assert_eq!(either.message, "--global-batch 1k: this may be 1,000 or 1,024; write it out");
        assert_eq!(either.nearest, ["1000"]);
        let fraction = |text: &str| real("dropout", text, |p| (0.0..1.0).contains(&p), "from 0", 0);
        assert_eq!(fraction("0.1"), Ok(0.1));
        for text in ["1", "-0.1", "inf", "nan", "", "half"] {
            assert!(fraction(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn nearest_numbers_are_legal(text in "[-+]?[0-9]{0,22}[.]?[0-9]{0,3}(e[0-9]{1,3})?", least in 0u64..9, more in 0u64..99) {
            let range = least..=least + more;
            match whole("top", &text, range.clone()) {
                Ok(number) => prop_assert!(range.contains(&number)),
                Err(error) => for near in error.nearest {
                    prop_assert!(range.contains(&near.parse().unwrap()));
                }
            }
        }
    }
}
