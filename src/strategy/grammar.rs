//! How values of strategy keys are written: for each kind of value a grammar that reads and prints it.

mod checkpoints;
mod number;
mod offloads;
mod order;
pub mod per_chunk;

pub use self::checkpoints::Checkpoints;
pub use self::number::{BucketSize, CapacityFactor, Cuts, Size, ZeroStage};
pub use self::offloads::Offloads;
pub use self::order::Order;
use super::text_error::ValueProblem;
use crate::profile::choices::{Choice, switch};
use crate::units::ElementType;

type Parsed<T> = Result<T, ValueProblem>;

/// How values of one kind are written.
pub trait Grammar {
    /// What a draft holds.
    type Value;

    /// The form of a value in words, for docs and help; what is typed as it stands is in backquotes.
    fn form() -> String;

    /// The words that values are made of, each with what it means.
    fn words() -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    /// Reads a value.
    ///
    /// # Errors
    /// What is wrong with it, and what would do in its place.
    fn parse(text: &str) -> Result<Self::Value, ValueProblem>;

    /// The text that is read as `value`.
    fn print(value: &Self::Value) -> String;
}

/// One of several choices, by its name.
impl<T: Choice> Grammar for T {
    type Value = T;

    fn form() -> String {
        quoted(T::CHOICES.iter().copied().map(T::spelling))
    }

    fn words() -> Vec<(&'static str, &'static str)> {
        words::<T>()
    }

    fn parse(text: &str) -> Parsed<T> {
        choice(text)
    }

    fn print(value: &T) -> String {
        value.spelling().to_owned()
    }
}

/// `on` or `off`.
pub struct Switch;

impl Grammar for Switch {
    type Value = bool;

    fn form() -> String {
        quoted([true, false].map(switch))
    }

    fn parse(text: &str) -> Parsed<bool> {
        let values = [true, false];
        let known = values.into_iter().find(|&on| switch(on) == text);
        known.ok_or_else(|| unknown(text, values.map(switch), []))
    }

    fn print(on: &bool) -> String {
        switch(*on).to_owned()
    }
}

/// A type that gradients can have in mixed precision.
pub struct GradientType;

impl GradientType {
    const NAMES: [&str; 3] = ["fp32", "bf16", "fp16"];
}

impl Grammar for GradientType {
    type Value = ElementType;

    fn form() -> String {
        quoted(Self::NAMES)
    }

    fn parse(text: &str) -> Parsed<ElementType> {
        // fp64 is legal under fp64, as a rule says.
        match text.parse() {
            Ok(ElementType::Fp8) | Err(_) => Err(unknown(text, Self::NAMES, [])),
            Ok(element) => Ok(element),
        }
    }

    fn print(element: &ElementType) -> String {
        element.to_string()
    }
}

/// Reads a choice by its name.
fn choice<T: Choice>(text: &str) -> Parsed<T> {
    text.parse().map_err(|legal| unknown(text, legal, []))
}

/// The names of all choices with what they mean.
fn words<T: Choice>() -> Vec<(&'static str, &'static str)> {
    T::CHOICES.iter().map(|choice| (choice.spelling(), choice.meaning())).collect()
}

/// `text` is neither one of the `legal` values nor of one of the `forms` of values.
fn unknown(
    text: &str,
    legal: impl IntoIterator<Item = &'static str>,
    forms: impl IntoIterator<Item = &'static str>,
) -> ValueProblem {
    let owned = |texts: &mut dyn Iterator<Item = &'static str>| texts.map(str::to_owned).collect();
    ValueProblem::Unknown {
        text: text.to_owned(),
        legal: owned(&mut legal.into_iter()),
        forms: owned(&mut forms.into_iter()),
    }
}

/// `` `a`, `b` ``.
fn quoted(words: impl IntoIterator<Item = &'static str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Items behind each other, `separator` between them.
fn join<T: ToString>(items: &[T], separator: &str) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
}
