//! Reading settings by name, with a record of which were read: what is left over is named.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use serde_json::Value;

use super::assumed::Assumptions;
use super::beside::Beside;
use super::error::ImportError;
use super::part;
use super::syntax::{Document, Found, Place, Syntax};

/// A document that is being read.
#[derive(Debug)]
pub struct Reader<'a> {
    document: &'a Document,
    /// Settings that hold where the document says nothing.
    beneath: Option<&'a Document>,
    /// The files that settings name.
    beside: Beside<'a>,
    /// What is assumed of settings of these files.
    assumed: Option<&'a Assumptions>,
    /// Names that were asked for, whether or not they are there.
    asked: RefCell<BTreeSet<String>>,
}

impl<'a> Reader<'a> {
    /// Begins to read `document`.
    pub fn new(document: &'a Document) -> Self {
        Self { document, beneath: None, beside: Beside::Nothing, assumed: None, asked: RefCell::default() }
    }

    /// The same upon settings that hold where the document says nothing.
    pub const fn upon(mut self, beneath: Option<&'a Document>) -> Self {
        self.beneath = beneath;
        self
    }

    /// The same with files beside it.
    pub const fn with(mut self, beside: Beside<'a>) -> Self {
        self.beside = beside;
        self
    }

    /// The same under assumptions about those files.
    pub const fn assuming(mut self, assumed: Option<&'a Assumptions>) -> Self {
        self.assumed = assumed;
        self
    }

    /// A reader of `document`, a part of this one, that sees the same files.
    pub fn of_part<'b>(&self, document: &'b Document) -> Reader<'b>
    where
        'a: 'b,
    {
        Reader::new(document).with(self.beside).assuming(self.assumed)
    }

    /// The settings of section `path`: written out below it, held in it as one value, or in the file that it names.
    pub fn part(&self, path: &str) -> Result<Option<Document>, ImportError> {
        let mut asked = self.asked.borrow_mut();
        let below = |found: &&Found| found.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        asked.extend(self.document.found.iter().filter(below).map(|found| found.path.clone()));
        drop(asked);
        if self.document.says(path) && !self.has(path) {
            return Ok(Some(self.document.below(path)));
        }
        let Some(found) = self.settled(path)? else { return Ok(None) };
        let held = part::held(found, &self.document.origin(found), self.beside);
        let mut held = held.map_err(|rule| {
            let is_lost = rule.contains("no such file");
            let more =
                if is_lost { format!("; --assume {path}=FILE says where it is") } else { String::new() };
            self.error(found, format!("{rule}{more}"))
        })?;
        if let Some(assumed) = self.assumed {
            assumed.over(&mut held);
        }
        Ok(Some(held))
    }

    /// The text of the file that `path` names.
    pub fn companion(&self, path: &str) -> Result<Option<String>, ImportError> {
        let Some(name) = self.word(path)?.filter(|name| !name.is_empty()) else { return Ok(None) };
        self.beside.text(name).map(Some).map_err(|reason| self.refused(path, reason))
    }

    /// The document.
    pub const fn document(&self) -> &'a Document {
        self.document
    }

    /// All settings, those beneath last and only where the document does not say them.
    pub fn all(&self) -> impl Iterator<Item = &'a Found> {
        let beneath = self.beneath.into_iter().flat_map(|document| &document.found);
        let document = self.document;
        document.found.iter().chain(beneath.filter(move |found| document.get(&found.path).is_none()))
    }

    fn get(&self, path: &str) -> Option<&'a Found> {
        self.document.get(path).or_else(|| self.beneath.and_then(|beneath| beneath.get(path)))
    }

    /// The setting `path`, which the text must settle.
    fn settled(&self, path: &str) -> Result<Option<&'a Found>, ImportError> {
        self.asked.borrow_mut().insert(path.to_owned());
        match self.get(path).filter(|found| !found.value.is_null()) {
            Some(found) if found.is_open => Err(self.error(found, self.unsettled(path))),
            found => Ok(found),
        }
    }

    /// The value of `path`; none where it is not there or null.
    pub fn value(&self, path: &str) -> Result<Option<&'a Value>, ImportError> {
        Ok(self.settled(path)?.map(|found| &found.value))
    }

    /// The error that `found` may stand for more settings than are known.
    pub fn undecided(&self, found: &Found) -> ImportError {
        let why = self.unsettled(&found.path);
        let empty = found.path.trim_start_matches('$');
        let is_name = !empty.is_empty() && empty.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let none = if is_name { format!(" (--env {empty}= for none)") } else { String::new() };
        let rule = format!("it may be more arguments; {why}{none}");
        let origin = self.document.origin(found);
        let (path, value) = (origin.path, "not known".to_owned());
        match origin.place {
            Place::Line(line) => ImportError::Value { path, value, line, rule, nearest: Vec::new() },
            place => {
                let place = Box::new(place);
                ImportError::Elsewhere { place, path, value, rule, nearest: Vec::new() }
            }
        }
    }

    /// Why the text does not settle `path`.
    fn unsettled(&self, path: &str) -> &str {
        let hang = self.document.hangs.get(path).and_then(|hang| hang.unsettled.as_deref());
        hang.unwrap_or("it is settled outside this file")
    }

    /// A value whatever it is, even a name that only Python knows.
    pub fn name(&self, path: &str) -> Option<&'a str> {
        self.asked.borrow_mut().insert(path.to_owned());
        self.get(path).and_then(|found| found.value.as_str())
    }

    /// The name of the file that the command runs whose arguments these are, where a script says it.
    pub fn program(&self) -> Option<&'a str> {
        self.document.script.as_ref()?.program.as_deref()
    }

    /// A value that the text settles; none where it does not, which is no error as with [`Self::value`].
    pub fn known(&self, path: &str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(path.to_owned());
        self.get(path).filter(|found| !found.is_open && !found.value.is_null()).map(|found| &found.value)
    }

    /// A number that the text settles.
    pub fn known_number(&self, path: &str) -> Option<f64> {
        self.known(path)?.as_f64()
    }

    /// Whether `path` is there.
    pub fn has(&self, path: &str) -> bool {
        self.get(path).is_some()
    }

    /// A whole number.
    pub fn whole(&self, path: &str) -> Result<Option<i64>, ImportError> {
        let Some(found) = self.settled(path)? else { return Ok(None) };
        let number = found.value.as_i64();
        // JSON writes large sizes as 5e8.
        let number = number.or_else(|| {
            found
                .value
                .as_f64()
                .filter(|real| real.fract() == 0.0 && real.abs() < 9e15)
                .map(|real| real as i64)
        });
        number.map(Some).ok_or_else(|| self.error(found, "a whole number is needed"))
    }

    /// A size of at least 1.
    pub fn size(&self, path: &str) -> Result<Option<u64>, ImportError> {
        let Some(number) = self.whole(path)? else { return Ok(None) };
        match u64::try_from(number) {
            Ok(size) if size > 0 => Ok(Some(size)),
            _ => Err(self.refused(path, "a whole number of at least 1 is needed")),
        }
    }

    /// A count of at least 0.
    pub fn count(&self, path: &str) -> Result<Option<u64>, ImportError> {
        let Some(number) = self.whole(path)? else { return Ok(None) };
        u64::try_from(number)
            .map(Some)
            .map_err(|_| self.refused(path, "a whole number of at least 0 is needed"))
    }

    /// A number.
    pub fn real(&self, path: &str) -> Result<Option<f64>, ImportError> {
        let Some(found) = self.settled(path)? else { return Ok(None) };
        found.value.as_f64().map(Some).ok_or_else(|| self.error(found, "a number is needed"))
    }

    /// A switch.
    pub fn switch(&self, path: &str) -> Result<Option<bool>, ImportError> {
        let Some(found) = self.settled(path)? else { return Ok(None) };
        found.value.as_bool().map(Some).ok_or_else(|| self.error(found, "true or false is needed"))
    }

    /// A switch that is off where it is not there.
    pub fn is_on(&self, path: &str) -> Result<bool, ImportError> {
        Ok(self.switch(path)?.unwrap_or(false))
    }

    /// A word.
    pub fn word(&self, path: &str) -> Result<Option<&'a str>, ImportError> {
        let Some(found) = self.settled(path)? else { return Ok(None) };
        found.value.as_str().map(Some).ok_or_else(|| self.error(found, "a word is needed"))
    }

    /// One of `choices`, which are words of the engine with what they mean.
    pub fn choice<T: Copy>(&self, path: &str, choices: &[(&str, T)]) -> Result<Option<T>, ImportError> {
        let Some(word) = self.word(path)? else { return Ok(None) };
        let chosen =
            choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, meaning)| *meaning);
        chosen.map(Some).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let rule = format!("{} is needed", names.join(", "));
            self.refused(path, &rule).or(crate::spelling::nearest(word, names))
        })
    }

    /// A word that parses.
    pub fn parsed<T: FromStr>(&self, path: &str, rule: &str) -> Result<Option<T>, ImportError> {
        let Some(word) = self.word(path)? else { return Ok(None) };
        word.parse().map(Some).map_err(|_| self.refused(path, rule))
    }

    /// A list; one value is a list of itself.
    pub fn list(&self, path: &str) -> Result<Option<Vec<&'a Value>>, ImportError> {
        let Some(found) = self.settled(path)? else { return Ok(None) };
        Ok(Some(match &found.value {
            Value::Array(list) => list.iter().collect(),
            one => vec![one],
        }))
    }

    /// The names that were asked for so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.borrow().iter().cloned().collect()
    }

    /// Whether `path` was asked for.
    pub fn was_asked(&self, path: &str) -> bool {
        self.asked.borrow().contains(path)
    }

    /// The error that the value of `path` will not do; `rule` says what would.
    pub fn refused(&self, path: &str, rule: impl Display) -> ImportError {
        match self.get(path) {
            Some(found) => self.error(found, rule),
            None => ImportError::Missing { path: path.to_owned(), rule: rule.to_string() },
        }
    }

    fn error(&self, found: &Found, rule: impl Display) -> ImportError {
        let value = match &found.value {
            Value::String(word) => word.clone(),
            other => other.to_string(),
        };
        let (origin, rule, nearest) = (self.document.origin(found), rule.to_string(), Vec::new());
        match origin.place {
            Place::Line(line) => ImportError::Value { path: origin.path, value, line, rule, nearest },
            place => {
                ImportError::Elsewhere { place: Box::new(place), path: origin.path, value, rule, nearest }
            }
        }
    }

    /// That no value is in the place of others that were asked for, as `false` in the place of a section.
    ///
    /// # Errors
    /// If one does, in a syntax that has sections.
    pub fn sections(&self, harmless: &[&str]) -> Result<(), ImportError> {
        if !matches!(self.document.syntax, Syntax::Json | Syntax::Yaml | Syntax::Toml) {
            return Ok(());
        }
        let asked = self.asked.borrow();
        let is_section = |found: &&Found| {
            let inside =
                |name: &str| name.strip_prefix(&found.path).is_some_and(|rest| rest.starts_with('.'));
            let is_named = asked.contains(&found.path) || harmless.contains(&found.path.as_str());
            !found.value.is_null() && !is_named && asked.iter().any(|name| inside(name))
        };
        match self.document.found.iter().find(is_section) {
            Some(found) => {
                Err(self.error(found, "its settings are needed here, or null").or(vec!["null".to_owned()]))
            }
            None => Ok(()),
        }
    }

    /// The settings that nobody asked for and that are not among `harmless`, with the name that was asked for and is
    /// nearest, if one is as near as a slip of the pen.
    pub fn left(&self, harmless: &[&str]) -> Vec<(&'a Found, Option<String>)> {
        let asked = self.asked.borrow();
        let is_harmless = |path: &str| {
            harmless.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == *pattern,
            })
        };
        let left = self.document.found.iter().filter(|found| !asked.contains(&found.path));
        left.filter(|found| !is_harmless(&found.path))
            .map(|found| {
                let missing = asked.iter().filter(|name| self.document.get(name).is_none());
                let near = missing.filter(|name| slip(&found.path, name)).min().cloned();
                (found, near)
            })
            .collect()
    }
}

/// Whether `typed` is `name` but for a letter or two.
fn slip(typed: &str, name: &str) -> bool {
    let [typed_end, name_end] = [typed, name].map(|path| path.rsplit('.').next().unwrap_or_default());
    let same_section = typed.len() - typed_end.len() == name.len() - name_end.len()
        && typed[..typed.len() - typed_end.len()] == name[..name.len() - name_end.len()];
    let lengths = typed_end.len().abs_diff(name_end.len());
    // An edit costs four there.
    same_section && lengths <= 2 && name_end.len() > 3 && crate::spelling::distance(typed_end, name_end) <= 8
}

/// The multiples of `of` below and above `number`.
pub fn multiples(number: u64, of: u64) -> Vec<String> {
    let below = number / of * of;
    [below, below + of].into_iter().filter(|near| *near > 0).map(|near| near.to_string()).collect()
}
