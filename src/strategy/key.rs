//! The keys of strategy texts, in the order in which they are printed.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile::choices::choice;

choice! {
    /// A key of the strategy text.
    Key {
        Tensor = "tp",
        Context = "cp",
        Pipeline = "pp",
        Data = "dp",
        SequenceParallel = "sp",
        ContextKind = "cp_kind",
        Expert = "ep",
        ExpertTensor = "etp",
        Capacity = "capacity",
        Schedule = "sched",
        VirtualStages = "virtual",
        Cuts = "cuts",
        Zero = "zero",
        Shard = "shard",
        Reshard = "reshard",
        MicroBatch = "micro",
        Accumulation = "accum",
        Sync = "sync",
        Checkpoint = "ckpt",
        Offload = "offload",
        Overlap = "overlap",
        Compression = "compress",
        Loss = "loss",
        Attention = "attention",
        Bucket = "bucket",
        Gradient = "grad",
        Reduce = "reduce",
        Order = "order",
    }
}

impl Key {
    /// Whether the key is part of the inner choice, made for each outer strategy.
    pub const fn is_inner(self) -> bool {
        matches!(self, Self::Cuts | Self::Checkpoint | Self::Offload)
    }

    /// Whether another value changes what is computed; a search leaves it alone unless told otherwise.
    pub const fn changes_numerics(self) -> bool {
        matches!(self, Self::Compression | Self::Gradient | Self::Reduce | Self::Capacity)
    }

    /// The keys that `text` may have meant: those at most two edits away, otherwise all of them.
    pub fn near(text: &str) -> Vec<&'static str> {
        let names = || Self::ALL.iter().map(|key| key.name());
        let near: Vec<_> = names().filter(|name| edits(text, name) <= 2.min(name.len() - 1)).collect();
        if near.is_empty() { names().collect() } else { near }
    }
}

/// Insertions, deletions and replacements between two short texts (Levenshtein 1966); long ones are far apart.
fn edits(from: &str, to: &str) -> usize {
    if from.len() > 3 * to.len() {
        return from.len();
    }
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, left) in from.chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, &right) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_meant_are_found() {
        assert_eq!(Key::near("shed"), ["sched", "shard"]);
        assert_eq!(Key::near("offlaod"), ["offload"]);
        assert!(Key::near("accumulation").len() == Key::ALL.len());
        assert!(Key::near("t").contains(&"tp"));
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("zero", "zero"), 0);
    }
}
