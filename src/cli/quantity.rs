//! Quantities as they are typed: with a unit where one matters, and where it is missing or misspelt, what it may have been.

use std::str::FromStr;

use super::error::CliError;
use crate::units::{Bytes, QuantityError, number_and_unit};

/// Bare numbers from here on are bytes: programs hand them on so, and no person means a device of a mebibyte.
const LEAST_IN_BYTES: Bytes = Bytes::mib(1);

/// Tokens from here on are counted out: a run of less is none.
pub const LEAST_COUNTED: u64 = 1_000_000;

/// Units by how they may be spelt, each beginning with the letters before it.
type Spellings = [(&'static str, &'static [&'static str])];

const SIZES: &Spellings = &[
    ("kb", &["KB", "KiB"]),
    ("mb", &["MB", "MiB"]),
    ("gb", &["GB", "GiB"]),
    ("tb", &["TB", "TiB"]),
    ("k", &["KiB", "KB"]),
    ("m", &["MiB", "MB"]),
    ("g", &["GiB", "GB"]),
    ("t", &["TiB", "TB"]),
    ("b", &["B"]),
];
pub const TIMES: &Spellings = &[
    ("ns", &["ns"]),
    ("us", &["us"]),
    ("ms", &["ms"]),
    ("s", &["s"]),
    ("mo", &[]),
    ("m", &["m"]),
    ("h", &["h"]),
    ("d", &["d"]),
    ("y", &["y"]),
];
pub const RATES: &Spellings =
    &[("k", &["KB/s"]), ("m", &["MB/s"]), ("g", &["GB/s", "Gb/s"]), ("t", &["TB/s"])];
pub const TOKENS: &Spellings = &[("k", &["K"]), ("m", &["M"]), ("b", &["B"]), ("g", &["B"]), ("t", &["T"])];

/// The size of a memory.
pub fn size(field: &str, text: &str) -> Result<Bytes, CliError> {
    let is_legal = |size: &Bytes| *size > Bytes::ZERO;
    let is_bare = number_and_unit(text).is_some_and(|(number, unit)| {
        unit.is_empty() && number.parse::<f64>().is_ok_and(|number| number > 0.0)
    });
    match text.parse::<Bytes>() {
        // What drivers print is in MiB.
        Ok(Bytes(count)) if is_bare && (1024..LEAST_IN_BYTES.0).contains(&count) => {
            Err(bare(field, text, &["MiB", "MB", "B"], is_legal))
        }
        Ok(size) if is_bare && size < LEAST_IN_BYTES => Err(bare(field, text, &["GiB", "GB", "B"], is_legal)),
        Ok(Bytes::ZERO) => Err(CliError::usage(field, text, "at least 1 byte is needed").or(["1B"])),
        Ok(size) => Ok(size),
        Err(error) => {
            let near = spelt(text, SIZES, is_legal);
            let near = if near.is_empty() { vec![error.example.to_owned()] } else { near };
            Err(CliError::usage(field, text, &error).or(near))
        }
    }
}

/// How a quantity is to be typed.
pub struct Rule<'a, T> {
    pub is_legal: fn(&T) -> bool,
    /// Which are.
    pub legal: &'a str,
    pub example: &'a str,
    pub spellings: &'a Spellings,
    /// Units that a bare number may have; a number for which `needs_unit` holds is refused without one.
    pub units: &'a [&'a str],
    pub needs_unit: fn(&T) -> bool,
}

/// The quantity `text`, given for flag `field`.
pub fn quantity<T: FromStr<Err = QuantityError>>(
    field: &str,
    text: &str,
    rule: &Rule<'_, T>,
) -> Result<T, CliError> {
    match text.parse::<T>() {
        Ok(value) if (rule.is_legal)(&value) => {
            if (rule.needs_unit)(&value) && !has_unit(text) {
                return Err(bare(field, text, rule.units, rule.is_legal));
            }
            Ok(value)
        }
        _ => {
            let mut near = spelt(text, rule.spellings, rule.is_legal);
            if near.is_empty() {
                near.push(rule.example.to_owned());
            }
            let needed = format!("a number {} is needed, such as {}", rule.legal, rule.example);
            Err(CliError::usage(field, text, needed).or(near))
        }
    }
}

fn has_unit(text: &str) -> bool {
    number_and_unit(text).is_some_and(|(_, unit)| !unit.is_empty())
}

/// The error that the number `text` has none of `units`.
fn bare<T: FromStr>(field: &str, text: &str, units: &[&str], is_legal: fn(&T) -> bool) -> CliError {
    let near = with(text, units, is_legal);
    let rule = match near.as_slice() {
        [others @ .., last] if !others.is_empty() => {
            format!("a unit is needed: {} or {last}", others.join(", "))
        }
        _ => format!("a unit is needed: {}", near.join("")),
    };
    CliError::usage(field, text, rule).or(near)
}

/// Amounts that `text` may mean, whose unit is misspelt.
fn spelt<T: FromStr>(text: &str, spellings: &Spellings, is_legal: fn(&T) -> bool) -> Vec<String> {
    let Some((number, unit)) = number_and_unit(text) else { return Vec::new() };
    let unit = unit.to_lowercase();
    let known = spellings.iter().find(|(letters, _)| unit.starts_with(letters));
    known.map_or_else(Vec::new, |(_, units)| with(number, units, is_legal))
}

/// `number` with each of `units` that makes a legal quantity of it.
fn with<T: FromStr>(number: &str, units: &[&str], is_legal: fn(&T) -> bool) -> Vec<String> {
    let texts = units.iter().map(|unit| format!("{}{unit}", number.trim()));
    texts.filter(|text| text.parse::<T>().is_ok_and(|value| is_legal(&value))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_size_without_a_unit_is_asked_for_one() {
        let near = |text: &str| size("memory-limit", text).unwrap_err().nearest;
        assert_eq!(near("70"), ["70GiB", "70GB", "70B"]);
        assert_eq!(near("81920"), ["81920MiB", "81920MB", "81920B"]);
        assert_eq!(near("0.3"), ["0.3GiB", "0.3GB"]);
        assert_eq!(near("0k"), ["80GiB"]);
        for text in ["70g", "70G", "70Gi", "70gib", "70 GIB", "70gigs", "70 gigabytes"] {
            assert_eq!(near(text), ["70GiB", "70GB"], "{text}");
        }
        assert_eq!(near("70gb"), ["70GB", "70GiB"]);
        assert_eq!(
            (near("lots"), near("-1GiB"), near("0")),
            (vec!["80GiB".to_owned()], vec!["80GiB".to_owned()], vec!["1B".to_owned()])
        );
        assert_eq!(size("memory-limit", "70GiB"), Ok(Bytes::gib(70)));
        assert_eq!(size("memory-limit", "75161927680"), Ok(Bytes::gib(70)));
        assert_eq!(size("memory-limit", "70B"), Ok(Bytes(70)));
        let said = size("memory-limit", "70").unwrap_err().message;
        assert_eq!(said, "--memory-limit 70: a unit is needed: 70GiB, 70GB or 70B");
    }

    proptest! {
        #[test]
        fn what_is_offered_is_legal(text in "[0-9]{0,6}[.]?[0-9]{0,2} ?[kmgtbKMGTBi]{0,3}") {
            if let Err(error) = size("memory-limit", &text) {
                for near in error.nearest {
                    prop_assert!(size("memory-limit", &near).is_ok(), "{} for {}", near, text);
                }
            }
        }
    }
}
