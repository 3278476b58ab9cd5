//! How files of engines are written and read: the same settings in TOML, JSON, YAML, Python or as arguments.
//!
//! What is read keeps its place in the text, so that a value can be changed and the rest of the file left as it is.

mod arguments;
mod code;
mod comment;
mod document;
mod edit;
mod error;
mod handed;
mod json;
pub mod markdown;
mod python;
mod python_expression;
mod python_lines;
mod python_string;
mod quoted;
mod script;
mod shell;
mod toml;
mod yaml;

pub use code::Code;
pub use comment::Comment;
pub use document::{Document, Found, Origin, Place};
pub use edit::{Edit, edited};
pub use error::SyntaxError;
pub use handed::Hang;
pub use python::assignments as python_assignments;
pub use script::Script;
pub use shell::Surroundings;

use quoted::quoted;

use crate::export::settings::Settings;

/// Sections inside each other: far above any engine's, and few enough that no reader runs out of stack.
const DEEPEST: usize = 32;

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    Toml,
    Json,
    Yaml,
    /// `--name value`, as a shell hands them over.
    Arguments,
    /// `name=value`, as a shell hands them over.
    Overrides,
    /// Assignments and calls of a Python file; it is never run.
    Python,
}

impl Syntax {
    /// The text of `settings`. `head` are lines that the file begins with, as comments where the syntax has these.
    pub fn write(self, settings: &Settings, head: &[Comment]) -> String {
        match self {
            Self::Toml => toml::write(settings, head),
            Self::Json => json::write(settings),
            Self::Yaml => yaml::write(settings, head),
            Self::Arguments => arguments::write(settings, head, arguments::Form::Dashes),
            Self::Overrides => arguments::write(settings, head, arguments::Form::Equals),
            Self::Python => python::write(settings, head),
        }
    }

    /// What stands in `text`.
    ///
    /// # Errors
    /// If it is not of this syntax, is nested too deep or says a thing twice; the error has the line.
    pub fn read(self, text: &str) -> Result<Document, SyntaxError> {
        let documents = self.read_all(text, &Surroundings::NONE)?;
        Ok(script::main(documents).unwrap_or_else(|| Document::translated(self)))
    }

    /// All that `text` may be about: of a script of a shell, each of its commands.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_all(self, text: &str, surroundings: &Surroundings<'_>) -> Result<Vec<Document>, SyntaxError> {
        let found = match self {
            Self::Toml => toml::read(text),
            Self::Json => json::read(text),
            Self::Yaml => yaml::read(text),
            Self::Arguments => return script::documents(self, arguments::Form::Dashes, text, surroundings),
            Self::Overrides => return script::documents(self, arguments::Form::Equals, text, surroundings),
            Self::Python => python::read(text),
        }?;
        Ok(vec![Document::new(self, text, found)?])
    }

    /// The name of it in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Toml => "TOML",
            Self::Json => "JSON",
            Self::Yaml => "YAML",
            Self::Arguments | Self::Overrides => "an argument line",
            Self::Python => "Python",
        }
    }

    /// What begins a comment; none in JSON.
    pub const fn comment(self) -> Option<&'static str> {
        match self {
            Self::Json => None,
            _ => Some("# "),
        }
    }
}

/// What a word means where nothing says which syntax it is of: JSON, or as in YAML.
pub fn value_of(word: &str) -> serde_json::Value {
    serde_json::from_str(word).unwrap_or_else(|_| yaml::plain(word))
}

/// `name` behind the sections `outer`.
fn joined(outer: &str, name: &str) -> String {
    if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") }
}

/// The number of the line, from 1, in which byte `at` of `text` stands.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod decided;
#[cfg(test)]
mod tests;
