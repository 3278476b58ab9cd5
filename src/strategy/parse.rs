//! Strategy text to draft: `tp=4,pp=2,zero=1`.

use super::other_names::meant;
use super::text_error::StrategyTextError;
#[cfg(test)]
use super::{Capacity, CheckpointEntry, OffloadCategory};
use super::{Draft, Key};

impl Draft {
    /// Reads a strategy text. Each key may be given once, in any order; an empty text leaves all out.
    pub fn parse(text: &str) -> Result<Self, StrategyTextError> {
        let mut draft = Self::default();
        if text.trim().is_empty() {
            return Ok(draft);
        }
        for item in text.split(',').map(str::trim) {
            let Some((name, value)) = item.split_once('=') else {
                return Err(match meant(item, "") {
                    Some(meant) => StrategyTextError::OtherName { key: item.to_owned(), meant },
                    None => StrategyTextError::NotAPair { item: item.to_owned() },
                });
            };
            let (name, value) = (name.trim(), value.trim());
            let key: Key = name.parse().map_err(|_| unknown(name, value))?;
            if draft.gives(key) {
                return Err(StrategyTextError::Twice { key, value: value.to_owned() });
            }
            draft.set(key, value).map_err(|problem| StrategyTextError::Value {
                key,
                value: value.to_owned(),
                problem,
            })?;
        }
        Ok(draft)
    }
}

/// That there is no key called `name`, and what was meant.
fn unknown(name: &str, value: &str) -> StrategyTextError {
    let key = name.to_owned();
    match meant(name, value) {
        Some(meant) => StrategyTextError::OtherName { key, meant },
        None => StrategyTextError::UnknownKey { key, nearest: Key::near(name) },
    }
}

#[cfg(test)]
mod tests;
