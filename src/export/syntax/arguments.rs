//! Arguments as a shell hands them over: `--name value`, or `name=value`.

use serde_json::Value;

use super::{Code, Comment};
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

/// What a word means: a number, a switch, or itself.
pub fn scalar(word: &str) -> Value {
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
