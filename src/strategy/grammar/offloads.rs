//! What lives on the host, as it is written: categories with their shares.

use std::fmt;

use super::number::real;
use super::{Grammar, Parsed, choice, join, per_chunk, words};
use crate::strategy::text_error::ValueProblem;
use crate::strategy::{Offload, OffloadCategory};

/// Categories with one share for all stages, or one a stage; none of them for `none`.
pub struct Offloads;

impl Grammar for Offloads {
    type Value = Vec<(OffloadCategory, Vec<f64>)>;

    fn form() -> String {
        let categories: Vec<_> =
            OffloadCategory::ALL.iter().map(|category| format!("`{category}:F`")).collect();
        format!(
            "`none`, or {} joined by `+`; F is one number from 0 to 1, or one a stage joined by `/`, of which `F@N` is N in a row",
            categories.join(", ")
        )
    }

    fn words() -> Vec<(&'static str, &'static str)> {
        words::<OffloadCategory>()
    }

    fn parse(text: &str) -> Parsed<Self::Value> {
        let mut categories = Self::Value::new();
        if text == "none" {
            return Ok(categories);
        }
        for part in text.split('+') {
            let Some((name, fractions)) = part.split_once(':') else {
                let whole = OffloadCategory::ALL.iter().map(|category| format!("{category}:1"));
                let legal = std::iter::once("none".to_owned()).chain(whole).collect();
                return Err(ValueProblem::Unknown { text: part.to_owned(), legal, forms: Vec::new() });
            };
            let category: OffloadCategory = choice(name)?;
            if categories.iter().any(|&(other, _)| other == category) {
                return Err(ValueProblem::Repeated { text: text.to_owned(), name: name.to_owned() });
            }
            categories.push((category, per_chunk::parse(fractions, fraction)?));
        }
        Ok(categories)
    }

    fn print(categories: &Self::Value) -> String {
        written(categories.iter().map(|(category, fractions)| (*category, fractions.as_slice())))
    }
}

fn fraction(text: &str) -> Parsed<f64> {
    let text = text.to_owned();
    match real(&text) {
        None => Err(ValueProblem::NotANumber { text, nearest: vec!["0".into(), "1".into()] }),
        Some(fraction) if fraction < 0.0 => Err(ValueProblem::BelowLeast { text, least: "0".into() }),
        Some(fraction) if fraction > 1.0 => Err(ValueProblem::AboveGreatest { text, greatest: "1".into() }),
        // Adding 0 turns -0 into 0.
        Some(fraction) => Ok(fraction + 0.0),
    }
}

fn written<'a>(categories: impl Iterator<Item = (OffloadCategory, &'a [f64])>) -> String {
    let parts = categories.map(|(category, fractions)| format!("{category}:{}", join(fractions, "/")));
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join("+") }
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offloaded = OffloadCategory::ALL.iter().filter(|&&category| !self.lacks(category));
        f.write_str(&written(offloaded.map(|&category| {
            let fractions = self.fractions(category);
            let is_same = fractions.iter().all(|fraction| *fraction == fractions[0]);
            (category, if is_same { &fractions[..1] } else { fractions })
        })))
    }
}
