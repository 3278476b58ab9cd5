//! A text with the settings that stand in it, and where.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use super::{Syntax, SyntaxError, line_of};

/// A text that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub syntax: Syntax,
    pub text: String,
    /// In the order of the text; no path twice.
    pub found: Vec<Found>,
}

/// A setting as it stands in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub path: String,
    pub value: Value,
    /// Bytes of name and value.
    pub entry: Range<usize>,
    /// Bytes of the value; empty where an argument only is named.
    pub span: Range<usize>,
    /// The value is not settled by the text: a variable of the shell, a name of Python.
    pub is_open: bool,
}

impl Found {
    /// The setting with `path` in place of `name` at its head, if it is that one or one below it.
    pub(super) fn moved(&self, name: &str, path: &str) -> Option<Self> {
        let rest = self.path.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with('.'))?;
        Some(Self { path: format!("{path}{rest}"), ..self.clone() })
    }
}

impl Document {
    /// The document of `text`.
    ///
    /// # Errors
    /// If a path stands in it twice.
    pub(super) fn new(syntax: Syntax, text: &str, found: Vec<Found>) -> Result<Self, SyntaxError> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        for entry in &found {
            let line = line_of(text, entry.entry.start);
            if let Some(first) = places.insert(&entry.path, line) {
                return Err(SyntaxError::Twice { line, path: entry.path.clone(), first });
            }
        }
        Ok(Self { syntax, text: text.to_owned(), found })
    }

    /// The setting at `path`.
    pub fn get(&self, path: &str) -> Option<&Found> {
        self.found.iter().find(|found| found.path == path)
    }

    /// The line, from 1, in which a setting begins.
    pub fn line(&self, found: &Found) -> usize {
        line_of(&self.text, found.entry.start)
    }
}
