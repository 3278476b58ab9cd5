//! Strategy text to draft: `tp=4,pp=2,zero=1`.

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
                return Err(StrategyTextError::NotAPair { item: item.to_owned() });
            };
            let (name, value) = (name.trim(), value.trim());
            let key: Key = name.parse().map_err(|_| StrategyTextError::UnknownKey {
                key: name.to_owned(),
                nearest: Key::near(name),
            })?;
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

#[cfg(test)]
mod tests;
