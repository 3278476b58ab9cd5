//! What a key is part of, and what a mistyped one may have meant.

pub use super::keys::Key;

/// What a key is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The mesh that is laid over the ranks.
    Mesh,
    /// What passes of micro-batches do.
    Passes,
    /// How state is sharded and reduced.
    State,
    /// What is chosen for each chunk, stage and block by itself, for each choice of all other keys.
    Inner,
    /// What is computed, not only where; a search leaves it alone unless told otherwise.
    Numerics,
}

impl Part {
    /// In a word or two.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::Passes => "passes",
            Self::State => "state",
            Self::Inner => "inner choice",
            Self::Numerics => "numerics",
        }
    }
}

impl Key {
    /// Whether the key is part of the inner choice, made for each outer strategy.
    pub const fn is_inner(self) -> bool {
        matches!(self.part(), Part::Inner)
    }

    /// Whether another value changes what is computed; a search leaves it alone unless told otherwise.
    pub const fn changes_numerics(self) -> bool {
        matches!(self.part(), Part::Numerics)
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
