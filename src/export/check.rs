//! A rule of an engine, and whether a configuration keeps it.

use serde::Serialize;

/// One rule that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What the engine demands, with the numbers of this configuration.
    pub rule: String,
    /// Where the engine says so.
    pub source: String,
    pub holds: bool,
}

impl Check {
    /// A rule and whether it is kept.
    pub fn new(holds: bool, rule: impl Into<String>, source: &str) -> Self {
        Self { rule: rule.into(), source: source.to_owned(), holds }
    }

    /// That `whole` is a multiple of `part`; both with their names.
    pub fn divides(whole: (&str, u64), part: (&str, u64), source: &str) -> Self {
        let holds = part.1 > 0 && whole.1.is_multiple_of(part.1);
        let rule = format!("{} = {} is a multiple of {} = {}", whole.0, whole.1, part.0, part.1);
        Self::new(holds, rule, source)
    }

    /// That `list` multiplies to `whole`.
    pub fn product(whole: (&str, u64), list: &[(&str, u64)], source: &str) -> Self {
        let product: u64 = list.iter().map(|(_, size)| size).product();
        let factors: Vec<String> = list.iter().map(|(name, size)| format!("{name} {size}")).collect();
        let rule = format!("{} = {} = {}", factors.join(" · "), whole.0, whole.1);
        Self::new(product == whole.1, rule, source)
    }
}
