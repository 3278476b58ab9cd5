//! Strategy to text: the documented order, defaults left out, and what is printed parses back to itself.

use super::grammar::per_chunk;
use super::{Checkpoint, Defaults, Key, Strategy};

/// What a strategy says of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Key,
    pub value: String,
    /// Whether the text says it; what it leaves out is a default.
    pub is_said: bool,
}

impl Strategy {
    /// The strategy text. Defaults are left out except tp, pp, dp, zero, micro and accum; those that come from
    /// workload and engine are `defaults`.
    pub fn text(&self, defaults: Defaults) -> String {
        let said = self.values(defaults).into_iter().filter(|item| item.is_said);
        said.map(|item| format!("{}={}", item.key, item.value)).collect::<Vec<_>>().join(",")
    }

    /// The value of every key, in the order of the text.
    pub fn values(&self, defaults: Defaults) -> Vec<KeyValue> {
        Key::ALL.iter().map(|&key| self.key_value(key, defaults)).collect()
    }

    /// The value of `ckpt`: one entry where it says the same of every chunk, otherwise one a chunk.
    pub fn checkpoint_text(&self) -> String {
        let entries: Vec<String> = self.checkpoint.iter().map(Checkpoint::to_string).collect();
        // Of a chunk without blocks, whole modes say the same, and `none` is what it prints.
        let mut said = self.checkpoint.iter().zip(&entries).filter(|(modes, _)| !modes.runs.is_empty());
        let Some((modes, first)) = said.next() else { return "none".to_owned() };
        let is_same = said.all(|(_, entry)| entry == first);
        let has_empty = self.checkpoint.iter().any(|modes| modes.runs.is_empty());
        if is_same && !(has_empty && modes.runs.len() > 1) {
            first.clone()
        } else {
            per_chunk::short(&entries)
        }
    }
}
