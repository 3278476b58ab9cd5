//! A text with the settings that stand in it, and where.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use serde_json::Value;

use super::handed::{Handed, Hang};
use super::script::Script;
use super::{Syntax, SyntaxError, line_of};

/// A text that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub syntax: Syntax,
    pub text: String,
    /// In the order of the text; no path twice.
    pub found: Vec<Found>,
    /// Of settings that another text said, or none: where they come from, by path.
    pub origins: HashMap<String, Origin>,
    /// Of settings that hang on what the text does not say, by path.
    pub hangs: HashMap<String, Hang>,
    /// Where they come from, if that is a script of a shell.
    pub script: Option<Rc<Script>>,
}

/// What a setting was called where it was said, and where that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub path: String,
    pub place: Place,
}

/// Where a setting was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a line of the file itself, from 1.
    Line(usize),
    /// In a line of a file that it names.
    File(String, usize),
    /// Nowhere: it is what holds where nothing is said.
    Default,
    /// By whoever asks, who assumes it.
    Assumed,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::File(file, line) => write!(f, "`{file}`, line {line}"),
            Self::Default => write!(f, "by default"),
            Self::Assumed => write!(f, "as is assumed"),
        }
    }
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
        Ok(Self { text: text.to_owned(), found, ..Self::translated(syntax) })
    }

    /// Settings that other texts say; nothing is written in it.
    pub fn translated(syntax: Syntax) -> Self {
        Self {
            syntax,
            text: String::new(),
            found: Vec::new(),
            origins: HashMap::new(),
            hangs: HashMap::new(),
            script: None,
        }
    }

    /// What a script of a shell hands to a command.
    pub(super) fn of_script(syntax: Syntax, text: &str, handed: Handed, script: Rc<Script>) -> Self {
        let Handed { found, hangs, .. } = handed;
        Self { text: text.to_owned(), found, hangs, script: Some(script), ..Self::translated(syntax) }
    }

    /// The same with a text, which says nothing more.
    pub(super) fn with_text(self, text: &str) -> Self {
        Self { text: text.to_owned(), ..self }
    }

    /// Sets `path` as `found` is in `other`, with all that it hangs on.
    pub fn take(&mut self, path: &str, found: &Found, other: &Self) {
        self.set(path, found.value.clone(), other.origin(found));
        if let Some(last) = self.found.iter_mut().find(|known| known.path == path) {
            last.is_open = found.is_open;
        }
        if let Some(hang) = other.hangs.get(&found.path) {
            self.hangs.insert(path.to_owned(), hang.clone());
        }
    }

    /// Sets `path`, said at `origin`; what it was before is lost.
    pub fn set(&mut self, path: &str, value: Value, origin: Origin) {
        match self.found.iter_mut().find(|found| found.path == path) {
            Some(found) => {
                (found.value, found.is_open) = (value, false);
                self.hangs.remove(path);
            }
            None => {
                let path = path.to_owned();
                self.found.push(Found { path, value, entry: 0..0, span: 0..0, is_open: false });
            }
        }
        self.origins.insert(path.to_owned(), origin);
    }

    /// Takes `path` out.
    pub fn remove(&mut self, path: &str) {
        self.found.retain(|found| found.path != path);
    }

    /// What `found` was called, and where it was said.
    pub fn origin(&self, found: &Found) -> Origin {
        self.origins.get(&found.path).cloned().unwrap_or_else(|| {
            let place = match self.place_in_script(found) {
                Some((file, line)) => Place::File(file, line),
                None => Place::Line(self.line(found)),
            };
            Origin { path: found.path.clone(), place }
        })
    }

    /// The setting at `path`.
    pub fn get(&self, path: &str) -> Option<&Found> {
        self.found.iter().find(|found| found.path == path)
    }

    /// The line, from 1, in which a setting begins.
    pub fn line(&self, found: &Found) -> usize {
        line_of(&self.text, found.entry.start)
    }

    /// The settings below `section`, each with its name and place here.
    pub fn below(&self, section: &str) -> Self {
        let mut inside = Self::translated(self.syntax);
        for found in &self.found {
            let rest = found.path.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'));
            if let Some(rest) = rest {
                inside.set(rest, found.value.clone(), self.origin(found));
            }
        }
        inside
    }

    /// Whether something stands at `path` or below it.
    pub fn says(&self, path: &str) -> bool {
        let below = |found: &Found| found.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        self.found.iter().any(|found| found.path == path || below(found))
    }
}
