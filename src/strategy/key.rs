//! What a key is part of, and what a mistyped one may have meant.

pub use super::keys::Key;
use crate::spelling::distance;

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

    /// The key that `text` may have meant, by its name or by the word that it stands for; of several that are as near, at
    /// most three.
    pub fn near(text: &str) -> Vec<&'static str> {
        let far = |key: &Self| distance(text, key.name()).min(distance(text, key.word()));
        let least = Self::ALL.iter().map(far).min();
        let near = Self::ALL.iter().filter(|key| Some(far(key)) == least);
        near.take(3).map(|key| key.name()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_is_meant() {
        for (text, meant) in [
            ("shed", "sched"),
            ("offlaod", "offload"),
            ("accumulation", "accum"),
            ("tensor_parallel", "tp"),
            ("pipeline", "pp"),
            ("zer0", "zero"),
            ("microbatch", "micro"),
            ("checkpoint", "ckpt"),
            ("t", "tp"),
        ] {
            assert_eq!(Key::near(text), [meant], "{text}");
        }
        assert_eq!(Key::near("xp").len(), 3);
        assert_eq!(Key::near("").len(), 3);
    }
}
