//! Values that are numbers: sizes, blocks a chunk, ZeRO stages, buckets and capacities.

use std::fmt;

use super::{Grammar, Parsed, join, per_chunk};
use crate::strategy::Capacity;
use crate::strategy::text_error::ValueProblem;

/// Far above any bucket and low enough that its bytes can be counted.
const GREATEST_BUCKET: u64 = 1_000_000_000_000_000;
/// Far above the factor at which no token is dropped.
const GREATEST_CAPACITY: f64 = 1e6;
/// The highest ZeRO stage.
const GREATEST_ZERO: u64 = 3;
/// Units of a bucket's elements, the largest first.
const BUCKET_UNITS: [(&str, u64); 3] = [("G", 1_000_000_000), ("M", 1_000_000), ("K", 1_000)];

/// A number of ranks, sequences or chunks.
pub struct Size;

impl Grammar for Size {
    type Value = u64;

    fn form() -> String {
        "a whole number from 1 on".to_owned()
    }

    fn parse(text: &str) -> Parsed<u64> {
        whole(text, 1, u64::MAX)
    }

    fn print(size: &u64) -> String {
        size.to_string()
    }
}

/// A number of blocks for each chunk.
pub struct Cuts;

impl Grammar for Cuts {
    type Value = Vec<u32>;

    fn form() -> String {
        "`n1/n2/…`, a number of blocks for each chunk; `n@N` is N chunks in a row".to_owned()
    }

    fn parse(text: &str) -> Parsed<Vec<u32>> {
        per_chunk::parse(text, blocks)
    }

    fn print(cuts: &Vec<u32>) -> String {
        join(cuts, "/")
    }
}

/// A ZeRO stage.
pub struct ZeroStage;

impl Grammar for ZeroStage {
    type Value = u8;

    fn form() -> String {
        format!("0 to {GREATEST_ZERO}")
    }

    fn parse(text: &str) -> Parsed<u8> {
        Ok(whole(text, 0, GREATEST_ZERO)? as u8)
    }

    fn print(stage: &u8) -> String {
        stage.to_string()
    }
}

/// Elements of a bucket.
pub struct BucketSize;

impl Grammar for BucketSize {
    type Value = u64;

    fn form() -> String {
        "a number of elements, with `K`, `M`, `G` for 10³, 10⁶, 10⁹".to_owned()
    }

    fn parse(text: &str) -> Parsed<u64> {
        let with_unit =
            BUCKET_UNITS.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
        let (digits, unit) = with_unit.unwrap_or((text, 1));
        Ok(whole(digits, 1, GREATEST_BUCKET / unit)? * unit)
    }

    /// With the largest unit that leaves a whole number.
    fn print(elements: &u64) -> String {
        let unit = BUCKET_UNITS.into_iter().find(|&(_, unit)| elements.is_multiple_of(unit));
        unit.map_or_else(|| elements.to_string(), |(name, unit)| format!("{}{name}", elements / unit))
    }
}

/// Slots an expert as a factor of its even share, or all that could come.
pub struct CapacityFactor;

impl Grammar for CapacityFactor {
    type Value = Capacity;

    fn form() -> String {
        "a factor F above 0, or `full`".to_owned()
    }

    fn parse(text: &str) -> Parsed<Capacity> {
        if text == "full" {
            return Ok(Capacity::Full);
        }
        let text = text.to_owned();
        let nearest = || vec!["1.25".to_owned(), "full".to_owned()];
        match real(&text) {
            None => Err(ValueProblem::NotANumber { text, nearest: nearest() }),
            Some(factor) if factor <= 0.0 => Err(ValueProblem::NotPositive { text, nearest: nearest() }),
            Some(factor) if factor > GREATEST_CAPACITY => {
                Err(ValueProblem::AboveGreatest { text, greatest: "full".into() })
            }
            Some(factor) => Ok(Capacity::Factor(factor)),
        }
    }

    fn print(capacity: &Capacity) -> String {
        capacity.to_string()
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Factor(factor) => write!(f, "{factor}"),
            Self::Full => f.write_str("full"),
        }
    }
}

/// A number of blocks.
pub(super) fn blocks(text: &str) -> Parsed<u32> {
    Ok(whole(text, 0, u64::from(u32::MAX))? as u32)
}

/// A finite number.
pub(super) fn real(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A whole number in `least..=greatest`, written in digits only.
pub(super) fn whole(text: &str, least: u64, greatest: u64) -> Parsed<u64> {
    let below = || ValueProblem::BelowLeast { text: text.to_owned(), least: least.to_string() };
    let above = || ValueProblem::AboveGreatest { text: text.to_owned(), greatest: greatest.to_string() };
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return match text.parse() {
            Ok(number) if number < least => Err(below()),
            Ok(number) if number <= greatest => Ok(number),
            _ => Err(above()),
        };
    }
    match real(text) {
        None => Err(ValueProblem::NotANumber { text: text.to_owned(), nearest: vec![least.to_string()] }),
        Some(number) if number < least as f64 => Err(below()),
        Some(number) if number > greatest as f64 => Err(above()),
        Some(number) => {
            let mut nearest = vec![number.floor() as u64, number.ceil() as u64];
            nearest.dedup();
            nearest.retain(|&near| (least..=greatest).contains(&near));
            let nearest = nearest.into_iter().map(|near| near.to_string()).collect();
            Err(ValueProblem::NotWhole { text: text.to_owned(), nearest })
        }
    }
}
