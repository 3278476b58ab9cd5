//! Comments: text that every syntax passes over, whatever it holds.

use std::fmt;

use crate::spelling::hidden::shown;

/// One line of shown characters. All syntaxes that have comments begin them with `#` and end them with the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment(String);

impl Comment {
    /// The lines that a file begins with.
    pub fn head(lines: &[Self]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// The comment after a value; nothing without a `note`.
    pub fn behind(note: Option<&Self>) -> String {
        note.map_or_else(String::new, |note| format!("  {note}"))
    }
}

impl fmt::Display for Comment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(format!("# {}", self.0).trim_end())
    }
}

impl From<&str> for Comment {
    fn from(text: &str) -> Self {
        // Python obeys a comment in one of the first two lines that names an encoding (PEP 263), in some of which `\u000a`
        // ends the line.
        Self(shown(text).replace("coding:", "coding :").replace("coding=", "coding ="))
    }
}

impl From<String> for Comment {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}
