//! What can be wrong with a strategy text: which key, which value, and what would be legal.

use thiserror::Error;

use super::other_names::Meant;
use super::{Draft, Key};
use crate::spelling::nearest;

/// A strategy text that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StrategyTextError {
    #[error("`{item}` is not of the form key=value{}", meant(item).map(|near| format!("; {near} is")).unwrap_or_default())]
    NotAPair { item: String },
    #[error("there is no strategy key `{key}`; did you mean {}?", nearest.join(" or "))]
    UnknownKey { key: String, nearest: Vec<&'static str> },
    /// A key of another tool.
    #[error("there is no strategy key `{key}`; write {}: {}", meant.written.join(" or "), meant.why)]
    OtherName { key: String, meant: Meant },
    #[error("{key} is given twice")]
    Twice { key: Key, value: String },
    #[error("{key} {problem}")]
    Value { key: Key, value: String, problem: ValueProblem },
}

/// What is wrong with one value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ValueProblem {
    #[error("`{text}` is not a whole number{}", these_are(nearest))]
    NotWhole { text: String, nearest: Vec<String> },
    #[error("`{text}` is not a number")]
    NotANumber { text: String, nearest: Vec<String> },
    #[error("{text} is below its least, {least}")]
    BelowLeast { text: String, least: String },
    #[error("{text} is above its greatest, {greatest}")]
    AboveGreatest { text: String, greatest: String },
    #[error("{text} is not above 0")]
    NotPositive { text: String, nearest: Vec<String> },
    /// Beside the `legal` values there may be `forms` of values.
    #[error("`{text}` is not known{}", these_are(&[&legal[..], &forms[..]].concat()))]
    Unknown { text: String, legal: Vec<String>, forms: Vec<String> },
    #[error("`{text}` names {name} twice")]
    Repeated { text: String, name: String },
    #[error("`{text}` is not a permutation of tp, cp, dp and pp; {nearest} is")]
    NotAPermutation { text: String, nearest: String },
}

impl StrategyTextError {
    /// The key that is wrong, or what stands in its place.
    pub fn field(&self) -> &str {
        match self {
            Self::NotAPair { .. } => "strategy",
            Self::UnknownKey { key, .. } | Self::OtherName { key, .. } => key,
            Self::Twice { key, .. } | Self::Value { key, .. } => key.name(),
        }
    }

    /// The value as it was typed.
    pub fn value(&self) -> &str {
        match self {
            Self::NotAPair { item } => item,
            Self::UnknownKey { key, .. } | Self::OtherName { key, .. } => key,
            Self::Twice { value, .. } | Self::Value { value, .. } => value,
        }
    }

    /// What would parse in its place, nearest first where there is an order.
    pub fn nearest(&self) -> Vec<String> {
        match self {
            Self::NotAPair { item } => meant(item).into_iter().collect(),
            Self::UnknownKey { nearest, .. } => nearest.iter().map(|&name| name.to_owned()).collect(),
            Self::OtherName { meant, .. } => meant.written.clone(),
            Self::Twice { .. } => Vec::new(),
            Self::Value { key, value, problem } => {
                let (text, nearest) = problem.nearest();
                let parses = |value: &String| Draft::parse(&format!("{key}={value}")).is_ok();
                nearest
                    .into_iter()
                    .filter_map(|near| placed(value, text, near).into_iter().find(parses))
                    .collect()
            }
        }
    }
}

/// The pair that `item` may have meant: `tp=8` for `tp8` and `tp:8`, the first word of a key that stands alone.
fn meant(item: &str) -> Option<String> {
    let is_of_name = |sign: char| sign.is_ascii_alphabetic() || sign == '_';
    let (name, rest) = item.split_at(item.find(|sign| !is_of_name(sign)).unwrap_or(item.len()));
    if name.is_empty() {
        return None;
    }
    let key = name.parse::<Key>().ok().or_else(|| Key::near(name).first()?.parse().ok())?;
    let value = rest.trim_matches(|sign: char| !sign.is_ascii_alphanumeric());
    let word = key.words().first().map_or("1", |(word, _)| *word);
    let pair = |value: &str| format!("{key}={value}");
    [value, word].map(pair).into_iter().find(|pair| Draft::parse(pair).is_ok())
}

/// `near` in the place of `part` of `value`, and alone.
fn placed(value: &str, part: &str, near: String) -> Vec<String> {
    let is_separator = |sign| matches!(sign, '/' | '+' | ':' | '*');
    let ends = |place: usize| {
        value[place + part.len()..].starts_with(is_separator) || value[place..].len() == part.len()
    };
    let starts = |place: usize| place == 0 || value[..place].ends_with(is_separator);
    let place = value.match_indices(part).map(|(place, _)| place).find(|&place| starts(place) && ends(place));
    let within = place.map(|place| format!("{}{near}{}", &value[..place], &value[place + part.len()..]));
    within.into_iter().chain([near]).collect()
}

impl ValueProblem {
    /// The part of the value that is wrong, and what would do in its place.
    fn nearest(&self) -> (&str, Vec<String>) {
        match self {
            Self::NotWhole { text, nearest }
            | Self::NotANumber { text, nearest }
            | Self::NotPositive { text, nearest } => (text, nearest.clone()),
            Self::Unknown { text, legal, .. } => (text, nearest(text, legal.iter().map(String::as_str))),
            Self::BelowLeast { text, least: only }
            | Self::AboveGreatest { text, greatest: only }
            | Self::NotAPermutation { text, nearest: only } => (text, vec![only.clone()]),
            Self::Repeated { text, .. } => (text, Vec::new()),
        }
    }
}

/// `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => "none".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn these_are(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => format!("; {only} is"),
        several => format!("; {} are", list(several)),
    }
}
