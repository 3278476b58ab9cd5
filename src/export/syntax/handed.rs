//! The settings that the words of a command hand over.
//!
//! A later argument of one name stands in the place of an earlier one, as Python's argparse has it. Where words hang on what
//! the script does not say, both ways are read: what they agree on is settled.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use super::Found;
use super::arguments::{Form, scalar};
use super::shell::{Causes, Field, Text};

/// What a setting hangs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hang {
    /// Why its value is not known, and what to do; none where it is.
    pub unsettled: Option<String>,
    /// Variables that are taken as not given, because the script says what holds then.
    pub presumed: Vec<String>,
}

/// Settings, and what they hang on, by name.
#[derive(Clone, Debug, Default)]
pub struct Handed {
    pub found: Vec<Found>,
    pub hangs: HashMap<String, Hang>,
    /// The last argument still takes values.
    takes_values: bool,
}

/// Says in words what causes are about.
pub type Say<'a> = &'a dyn Fn(&Causes) -> String;

impl Handed {
    /// What `fields` hand over.
    pub fn of(fields: &[Field], form: Form, say: Say<'_>) -> Self {
        let mut handed = Self::default();
        handed.take(fields, form, say);
        handed
    }

    fn take(&mut self, fields: &[Field], form: Form, say: Say<'_>) {
        for field in fields {
            match field {
                Field::One { text, span, is_many } => {
                    let word = Word { text, shown: shown(text), span, is_open: text.text().is_none() };
                    match form {
                        Form::Dashes => self.dashed(&word, *is_many, say),
                        Form::Equals => self.equal(&word, say),
                    }
                }
                Field::Either { one, other, causes } => {
                    let mut second = self.clone();
                    self.take(one, form, say);
                    second.take(other, form, say);
                    self.join(second, &say(causes));
                }
            }
        }
    }

    /// Either these or `other`.
    fn join(&mut self, mut other: Self, why: &str) {
        let unsettled = |hangs: &mut HashMap<String, Hang>, path: &str| {
            hangs.entry(path.to_owned()).or_default().unsettled.get_or_insert_with(|| why.to_owned());
        };
        for found in &mut self.found {
            let is_same = match other.found.iter().position(|second| second.path == found.path) {
                Some(at) => {
                    let second = other.found.remove(at);
                    second.value == found.value && second.is_open == found.is_open
                }
                None => false,
            };
            if !is_same {
                found.is_open = true;
                unsettled(&mut self.hangs, &found.path);
            }
        }
        for mut found in other.found {
            found.is_open = true;
            unsettled(&mut self.hangs, &found.path);
            self.found.push(found);
        }
        self.takes_values &= other.takes_values;
    }

    fn hang(&mut self, path: &str, word: &Word<'_>, say: Say<'_>) {
        let causes = word.text.causes();
        let presumed: Vec<String> =
            word.text.presumed.iter().filter_map(|cause| cause.name.clone()).collect();
        if !word.is_open && presumed.is_empty() {
            return;
        }
        let hang = self.hangs.entry(path.to_owned()).or_default();
        if word.is_open {
            hang.unsettled.get_or_insert_with(|| say(&causes));
        }
        hang.presumed.extend(presumed);
        hang.presumed.dedup();
    }

    /// A setting, in place of an earlier one of its name.
    fn put(&mut self, found: Found, word: &Word<'_>, say: Say<'_>) {
        self.found.retain(|known| known.path != found.path);
        self.hangs.remove(&found.path);
        self.hang(&found.path.clone(), word, say);
        self.found.push(found);
    }

    fn dashed(&mut self, word: &Word<'_>, is_many: bool, say: Say<'_>) {
        let shown = word.shown.as_str();
        if let Some(name) = shown.strip_prefix("--").filter(|name| !name.is_empty() && !name.starts_with('$'))
        {
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (name, None),
            };
            let start = word.span.end - value.map_or(0, str::len).min(word.span.len());
            // Names with sections have underscores, others dashes; parsers take both.
            let path = if name.contains('.') { name.replace('-', "_") } else { name.replace('_', "-") };
            let found = Found {
                path,
                value: value.map_or(Value::Bool(true), scalar),
                entry: word.span.clone(),
                span: start..word.span.end,
                is_open: word.is_open,
            };
            self.put(found, word, say);
            self.takes_values = value.is_none();
            return;
        }
        let is_short = shown.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
        if is_short || shown.ends_with(".py") {
            self.takes_values = false;
        }
        // A value that is not known may stand for more arguments, unless it is the one that is asked for.
        let is_asked = self.takes_values && self.found.last().is_some_and(|last| last.span.is_empty());
        if is_many && !is_asked {
            self.takes_values = false;
            if !self.found.is_empty() && self.found.iter().all(|known| known.path != shown) {
                let (entry, span) = (word.span.clone(), word.span.clone());
                let found =
                    Found { path: shown.to_owned(), value: Value::Bool(true), entry, span, is_open: true };
                self.put(found, word, say);
            }
            return;
        }
        if self.takes_values {
            self.value(word, say);
        }
    }

    /// One more value of the last argument.
    fn value(&mut self, word: &Word<'_>, say: Say<'_>) {
        let Some(mut last) = self.found.pop() else { return };
        let value = scalar(&word.shown);
        let is_first = last.span.is_empty();
        last.value = match std::mem::take(&mut last.value) {
            _ if is_first => value,
            Value::Array(mut list) => {
                list.push(value);
                Value::Array(list)
            }
            one => Value::Array(vec![one, value]),
        };
        // A value may stand elsewhere than the name of its argument.
        let is_behind = word.span.start >= last.entry.end;
        if is_behind {
            let start = if is_first { word.span.start } else { last.span.start };
            last.span = start..word.span.end;
            last.entry.end = word.span.end;
        } else if is_first {
            last.span = word.span.clone();
        }
        last.is_open |= word.is_open;
        self.hang(&last.path.clone(), word, say);
        self.found.push(last);
    }

    fn equal(&mut self, word: &Word<'_>, say: Say<'_>) {
        let Some((name, value)) = word.shown.split_once('=') else { return };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let is_variable = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        if name.is_empty() || is_variable || !name.chars().all(is_name) {
            return;
        }
        let span: Range<usize> = (word.span.start + name.len() + 1).min(word.span.end)..word.span.end;
        let found = Found {
            path: name.to_owned(),
            value: scalar(value),
            entry: word.span.clone(),
            span,
            is_open: word.is_open,
        };
        self.put(found, word, say);
    }
}

/// A word of a command.
struct Word<'a> {
    text: &'a Text,
    /// With the names of variables where it is not known.
    shown: String,
    span: &'a Range<usize>,
    is_open: bool,
}

fn shown(text: &Text) -> String {
    let mut all = String::new();
    for (known, causes) in text.shown() {
        all.push_str(&known);
        if let Some(causes) = causes {
            let name = causes.iter().find_map(|cause| cause.name.clone());
            all.push('$');
            all.push_str(&name.unwrap_or_else(|| "(…)".to_owned()));
        }
    }
    all
}
