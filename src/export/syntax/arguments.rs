//! Arguments as a shell hands them over: `--name value`, or `name=value`; read out of a line or a script.

use std::ops::Range;

use serde_json::Value;

use super::shell::{Word, words};
use super::{Code, Comment, Found, SyntaxError};
use crate::export::settings::Settings;

/// How an argument is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Dashes,
    Equals,
}

/// `settings` as an array of the shell, `ARGUMENTS`, one a line.
pub fn write(settings: &Settings, head: &[Comment], form: Form) -> String {
    let mut text = Comment::head(head);
    text.push_str("ARGUMENTS=(\n");
    for setting in settings.iter() {
        let Some(argument) = argument(&setting.path, &setting.value, form) else { continue };
        text.push_str(&format!("  {argument}{}\n", Comment::behind(setting.note.as_ref())));
    }
    text.push_str(")\n");
    text
}

/// One argument with its values; none for a switch that is off.
pub fn argument(name: &str, value: &Value, form: Form) -> Option<Code> {
    let behind = |argument: Code, between, value| argument.then(between).then(Code::word(plain(value)));
    let dashes = || Code::word(format!("--{name}"));
    match (form, value) {
        (Form::Equals, value) => Some(behind(Code::word(name), "=", value)),
        (Form::Dashes, Value::Bool(false) | Value::Null) => None,
        (Form::Dashes, Value::Bool(true)) => Some(dashes()),
        (Form::Dashes, Value::Array(values)) => {
            Some(values.iter().fold(dashes(), |argument, value| behind(argument, " ", value)))
        }
        // By itself it would be taken for a name.
        (Form::Dashes, Value::String(word)) if word.starts_with('-') => Some(behind(dashes(), "=", value)),
        (Form::Dashes, value) => Some(behind(dashes(), " ", value)),
    }
}

/// A value as a word, in the spelling of Python, in which all who read it are written.
fn plain(value: &Value) -> String {
    match value {
        Value::String(word) => word.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        other => other.to_string(),
    }
}

/// The arguments that stand in a line or a script. Variables that the text itself sets are put in; values of others are
/// open. Of arguments that are not settings (programs, files) nothing is kept.
pub fn read(text: &str, form: Form) -> Result<Vec<Found>, SyntaxError> {
    let words = words(text)?;
    Ok(match form {
        Form::Dashes => dashes(&words),
        Form::Equals => equals(&words),
    })
}

fn dashes(words: &[Word]) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    let mut takes_values = false;
    for word in words {
        if word.begins_line {
            takes_values = false;
        }
        if let Some(name) = word.text.strip_prefix("--").filter(|name| !name.is_empty()) {
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (name, None),
            };
            let start = word.span.end - value.map_or(0, str::len).min(word.span.len());
            found.push(Found {
                path: name.replace('_', "-"),
                value: value.map_or(Value::Bool(true), scalar),
                entry: word.span.clone(),
                span: start..word.span.end,
                is_open: word.is_open,
            });
            takes_values = value.is_none();
            continue;
        }
        let is_short = word.text.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
        if is_short || word.text.ends_with(".py") || word.is_separator() || word.is_list {
            takes_values = false;
        }
        // A variable behind a value may stand for more arguments.
        let is_more = word.is_open && found.last().is_some_and(|last| !takes_values || !last.span.is_empty());
        if is_more && !word.is_list && word.text.starts_with('$') {
            takes_values = false;
            if found.iter().all(|known| known.path != word.text) {
                let span = word.span.clone();
                let (entry, value) = (span.clone(), Value::Bool(true));
                found.push(Found { path: word.text.clone(), value, entry, span, is_open: true });
            }
        }
        if takes_values && let Some(last) = found.last_mut() {
            add(last, word);
        }
    }
    found
}

/// One more value of an argument.
fn add(found: &mut Found, word: &Word) {
    let value = scalar(&word.text);
    let is_first = found.span.is_empty();
    found.value = match std::mem::take(&mut found.value) {
        _ if is_first => value,
        Value::Array(mut list) => {
            list.push(value);
            Value::Array(list)
        }
        one => Value::Array(vec![one, value]),
    };
    let start = if is_first { word.span.start } else { found.span.start };
    found.span = start..word.span.end;
    found.entry.end = word.span.end;
    found.is_open |= word.is_open;
}

fn equals(words: &[Word]) -> Vec<Found> {
    let setting = |word: &Word| {
        let (name, value) = word.text.split_once('=')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let is_variable = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        if name.is_empty() || is_variable || !name.chars().all(is_name) {
            return None;
        }
        let span: Range<usize> = word.span.start + name.len() + 1..word.span.end;
        Some(Found {
            path: name.to_owned(),
            value: scalar(value),
            entry: word.span.clone(),
            span,
            is_open: word.is_open,
        })
    };
    words.iter().filter_map(setting).collect()
}

/// What a word means: a number, a switch, or itself.
fn scalar(word: &str) -> Value {
    match word {
        "True" | "true" => return Value::Bool(true),
        "False" | "false" => return Value::Bool(false),
        "None" | "null" => return Value::Null,
        _ => {}
    }
    if let Ok(whole) = word.parse::<i64>() {
        return Value::from(whole);
    }
    let is_number = word.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.'));
    match word.parse::<f64>() {
        Ok(number) if is_number && number.is_finite() => Value::from(number),
        _ => match serde_json::from_str(word) {
            Ok(list @ Value::Array(_)) => list,
            _ => Value::from(word),
        },
    }
}
