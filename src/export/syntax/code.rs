//! Pieces of shell scripts: what the program itself says, and words that are quoted.

use std::fmt;

use crate::plan::shell::quoted;

/// Text of a shell script. Only what is written in this program becomes one as it is; all else is quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code(String);

impl Code {
    /// `word` as one word, whatever it holds.
    pub fn word(word: impl fmt::Display) -> Self {
        Self(quoted(&word.to_string()))
    }

    /// This with `next` after it.
    pub fn then(mut self, next: impl Into<Self>) -> Self {
        self.0.push_str(&next.into().0);
        self
    }
}

impl From<&'static str> for Code {
    fn from(text: &'static str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
