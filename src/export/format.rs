//! Files of programs that drive engines: what they say is handed to an engine, and nothing is exported to them.

use super::error::ImportError;
use super::import::{Left, hand};
use super::meaning::{Meaning, ModelClue, Scene};
use super::reader::Reader;
use super::runner::Runner;
use super::syntax::{Document, Syntax};
use super::targets::Target;

/// One version of one program.
pub trait Format: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// The version whose files these are.
    fn version(&self) -> &'static str;

    /// The commit or release that its rules were read from.
    fn source(&self) -> &'static str;

    /// The syntaxes of its files.
    fn syntaxes(&self) -> &'static [Syntax];

    /// The profiles of the engines that it may hand its settings to.
    fn engines(&self) -> &'static [&'static str];

    /// Its settings, each with what it means.
    fn keys(&self) -> &'static [Key];

    /// How much of `document` it knows.
    fn recognises(&self, document: &Document) -> usize;

    /// Whether it refuses a setting that it does not know.
    fn is_strict(&self) -> bool;

    /// Which model the settings are for, where they say it.
    ///
    /// # Errors
    /// If the setting that says it has a value that will not do.
    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError>;

    /// What the settings mean, and what runs them.
    ///
    /// # Errors
    /// As for a file of an engine.
    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError>;
}

/// A setting of a program: a row of its table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name; `section.*` stands for all of a section, `prefix*` for all that begin so.
    pub name: &'static str,
    /// What holds where it is not said; empty where that is nothing.
    pub default: &'static str,
    pub role: Role,
}

/// What becomes of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It shapes the run, and is read; with what it says.
    Read(&'static str),
    /// It changes neither memory nor time nor arithmetic of a step.
    Idle,
    /// On, it makes another run than can be predicted; with why.
    Refused(&'static str),
}

/// What a file means, and what runs it.
pub struct Read {
    pub runner: Runner,
    pub meaning: Meaning,
    /// Settings of files that it names which may matter and are not understood.
    pub left: Vec<Left>,
}

impl Key {
    /// A setting that is read.
    pub const fn read(name: &'static str, default: &'static str, what: &'static str) -> Self {
        Self { name, default, role: Role::Read(what) }
    }

    /// A setting that changes nothing of a step.
    pub const fn idle(name: &'static str) -> Self {
        Self { name, default: "", role: Role::Idle }
    }

    /// A setting that is refused where it is on.
    pub const fn refused(name: &'static str, why: &'static str) -> Self {
        Self { name, default: "", role: Role::Refused(why) }
    }

    /// Whether it is the setting at `path`.
    pub fn is(&self, path: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == self.name,
        }
    }
}

impl Read {
    /// What `document` means to `target`, with what the program says beside it.
    ///
    /// # Errors
    /// As [`hand`].
    pub fn handed(
        target: Target,
        document: &Document,
        reader: &Reader<'_>,
        scene: &Scene<'_>,
    ) -> Result<Self, ImportError> {
        let (meaning, left) = hand(target, document, reader, scene)?;
        Ok(Self { runner: Runner::Engine(target), meaning, left })
    }
}

/// Refuses what `keys` refuses, where it is on.
///
/// # Errors
/// With the first such setting of `reader`.
pub fn refuse(keys: &[Key], reader: &Reader<'_>) -> Result<(), ImportError> {
    for found in &reader.document().found {
        let Some(key) = keys.iter().find(|key| key.is(&found.path)) else { continue };
        if let Role::Refused(why) = key.role
            && is_on(&found.value)
        {
            return Err(reader.refused(&found.path, why).or(vec!["null".to_owned()]));
        }
    }
    Ok(())
}

/// Whether a value switches something on: neither false, nor nothing, nor zero, nor empty.
fn is_on(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Null => false,
        Value::Bool(on) => *on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(word) => !matches!(word.to_ascii_lowercase().as_str(), "" | "false" | "none" | "no"),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}
