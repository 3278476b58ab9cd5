//! Changing settings of a text and leaving the rest of it as it is.

use serde_json::Value;

use super::arguments::{self, Form};
use super::{Document, Found, Syntax, json, python, quoted, toml, yaml};
use crate::export::settings::Setting;

/// A setting that is to have another value, or none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edit {
    pub path: String,
    pub value: Option<Value>,
    /// The function that is called, if the value is a call of Python.
    pub callee: Option<&'static str>,
    /// Settings after which it comes if it is new, the first of them that is there; of an argument line only, whose other
    /// arguments may be those of what starts the program.
    pub after: Vec<String>,
}

impl Edit {
    /// The setting at `path` goes.
    pub fn remove(path: &str) -> Self {
        Self { path: path.to_owned(), value: None, callee: None, after: Vec::new() }
    }

    /// The file is to say `setting`.
    pub fn set(setting: &Setting) -> Self {
        let value = Some(setting.value.clone());
        Self { path: setting.path.clone(), value, callee: setting.callee, after: Vec::new() }
    }

    /// `value` as this edit has it written.
    fn written(&self, syntax: Syntax, value: &Value) -> String {
        match syntax {
            Syntax::Toml => toml::written(value).unwrap_or_default(),
            Syntax::Json => json::written(value),
            Syntax::Yaml => yaml::scalar(value),
            Syntax::Python => {
                self.callee.map_or_else(|| python::literal(value), |callee| format!("{callee}()"))
            }
            Syntax::Arguments => self.argument(value, Form::Dashes),
            Syntax::Overrides => self.argument(value, Form::Equals),
        }
    }

    fn argument(&self, value: &Value, form: Form) -> String {
        arguments::argument(&self.path, value, form).map_or_else(String::new, |argument| argument.to_string())
    }
}

/// The text of `document` with `edits` made. What is new stands behind the last setting of its section.
pub fn edited(document: &Document, edits: &[Edit]) -> String {
    let mut document = document.clone();
    for edit in edits {
        let text = one(&document, edit);
        // What an edit leaves is read anew, so that places are right; where it cannot be, it is handed out as it is.
        match document.again(&text) {
            Ok(read) => document = read,
            Err(_) => return text,
        }
    }
    document.text
}

fn one(document: &Document, edit: &Edit) -> String {
    let is_off = match document.syntax {
        Syntax::Arguments => matches!(edit.value, None | Some(Value::Bool(false) | Value::Null)),
        Syntax::Toml => matches!(edit.value, None | Some(Value::Null)),
        _ => edit.value.is_none(),
    };
    match (document.get(&edit.path), &edit.value) {
        (Some(found), _) if is_off => removed(document, found),
        (Some(found), Some(value)) => replaced(document, found, &edit.written(document.syntax, value)),
        (None, Some(value)) if !is_off => inserted(document, edit, &edit.written(document.syntax, value)),
        _ => document.text.clone(),
    }
}

/// With `new`, which is a value, or an argument with its name, in place of what is there.
fn replaced(document: &Document, found: &Found, new: &str) -> String {
    let range = match document.syntax {
        Syntax::Arguments | Syntax::Overrides => found.entry.clone(),
        _ => found.span.clone(),
    };
    let mut text = document.text.clone();
    text.replace_range(range, new);
    text
}

/// Without the setting; without its line where nothing else stands there.
fn removed(document: &Document, found: &Found) -> String {
    let text = &document.text;
    let mut range = found.entry.clone();
    if document.syntax == Syntax::Json {
        let behind = text[range.end..].len() - text[range.end..].trim_start().len();
        if text[range.end + behind..].starts_with(',') {
            range.end += behind + 1;
        } else if let Some(comma) = text[..range.start].trim_end().strip_suffix(',') {
            range.start = comma.len();
        }
    }
    if document.syntax == Syntax::Python && text[range.end..].trim_start().starts_with(',') {
        range.end += text[range.end..].find(',').map_or(0, |comma| comma + 1);
    }
    let line_start = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[range.end..].find('\n').map_or(text.len(), |at| range.end + at + 1);
    let before = text[line_start..range.start].trim();
    let after = text[range.end..line_end].trim();
    let is_alone = before.is_empty() && (after.is_empty() || after == "\\" || after.starts_with('#'));
    if is_alone {
        range = line_start..line_end;
    } else if text[range.end..].starts_with(' ') {
        range.end += 1;
    }
    let mut text = text.clone();
    text.replace_range(range, "");
    text
}

/// The argument after which a new one comes: one that `after` names, or else the last that is not before the program.
fn argument_before<'d>(document: &'d Document, after: &[String]) -> Option<&'d Found> {
    let known = after.iter().find_map(|path| document.get(path));
    let text = &document.text;
    let is_line_of_program = |found: &Found| {
        let rest = &text[found.entry.end..];
        let mut words = rest.split_inclusive('\n').scan(true, |goes_on, line| {
            let this = goes_on.then_some(line);
            *goes_on = line.trim_end().ends_with('\\');
            this
        });
        words.any(|line| {
            line.split_whitespace().any(|word| word.trim_end_matches(['"', '\'']).ends_with(".py"))
        })
    };
    let last = || document.found.iter().rev().find(|found| !is_line_of_program(found));
    known.or_else(last).or_else(|| document.found.last())
}

fn inserted(document: &Document, edit: &Edit, value: &str) -> String {
    let path = edit.path.as_str();
    let names: Vec<&str> = path.split('.').collect();
    let shared = |found: &Found| {
        let others = found.path.split('.').take(found.path.matches('.').count());
        names[..names.len() - 1].iter().zip(others).take_while(|(one, other)| *one == other).count()
    };
    let most = document.found.iter().map(shared).max().unwrap_or(0);
    let sibling =
        document.found.iter().rev().find(|found| {
            shared(found) == most && (most == names.len() - 1 || document.syntax != Syntax::Toml)
        });
    // A sibling inside a deeper section is no place for a key of an outer one.
    let sibling = match sibling {
        Some(found) => document
            .found
            .iter()
            .rev()
            .find(|other| shared(other) == most && other.path.matches('.').count() == most)
            .or(Some(found)),
        None => None,
    };
    let sibling = match document.syntax {
        Syntax::Arguments | Syntax::Overrides => argument_before(document, &edit.after),
        _ => sibling,
    };
    let Some(sibling) = sibling else { return appended(document, path, value) };
    let text = &document.text;
    let line_start = text[..sibling.entry.start].rfind('\n').map_or(0, |at| at + 1);
    let indent: String = text[line_start..].chars().take_while(|c| c.is_whitespace() && *c != '\n').collect();
    let line_end = text[sibling.entry.end..].find('\n').map_or(text.len(), |at| sibling.entry.end + at);
    let (at, new) = match document.syntax {
        Syntax::Toml => (line_end, format!("\n{indent}{} = {value}", toml::key(names[names.len() - 1]))),
        Syntax::Json => {
            let new = json_nested(&names[most..], value);
            (sibling.entry.end, format!(",\n{indent}{new}"))
        }
        Syntax::Yaml => (line_end, yaml_nested(&names[most..], value, &indent)),
        Syntax::Arguments | Syntax::Overrides => {
            let is_alone = text[line_start..sibling.entry.start].trim().is_empty();
            match is_alone {
                true if text[sibling.entry.end..line_end].trim_end().ends_with('\\') => {
                    (line_end, format!("\n{indent}{value} \\"))
                }
                true if text[line_end..].trim_start().starts_with([')', '-']) => {
                    (line_end, format!("\n{indent}{value}"))
                }
                _ => (sibling.entry.end, format!(" {value}")),
            }
        }
        Syntax::Python => {
            let is_argument = text[sibling.entry.end..].trim_start().starts_with([',', ')']);
            let name = names[names.len() - 1];
            match is_argument {
                true => (sibling.entry.end, format!(", {name}={value}")),
                false => (line_end, format!("\n{indent}{path} = {value}")),
            }
        }
    };
    let mut text = text.clone();
    text.insert_str(at, &new);
    text
}

fn json_nested(names: &[&str], value: &str) -> String {
    match names {
        [name] => format!("{}: {value}", quoted(name)),
        [name, rest @ ..] => format!("{}: {{{}}}", quoted(name), json_nested(rest, value)),
        [] => value.to_owned(),
    }
}

fn yaml_nested(names: &[&str], value: &str, indent: &str) -> String {
    match names {
        [name] => format!("\n{indent}{}: {value}", yaml::key(name)),
        [name, rest @ ..] => {
            format!("\n{indent}{}:{}", yaml::key(name), yaml_nested(rest, value, &format!("{indent}  ")))
        }
        [] => String::new(),
    }
}

/// Behind the text's end, in a section of its own.
fn appended(document: &Document, path: &str, value: &str) -> String {
    let mut text = document.text.trim_end().to_owned();
    match document.syntax {
        Syntax::Toml => match path.rsplit_once('.') {
            Some((section, name)) => {
                text.push_str(&format!("\n\n[{section}]\n{} = {value}\n", toml::key(name)));
            }
            None => text.insert_str(0, &format!("{path} = {value}\n")),
        },
        Syntax::Yaml => {
            let names: Vec<&str> = path.split('.').collect();
            text.push_str(&format!("{}\n", yaml_nested(&names, value, "")));
        }
        Syntax::Json => {
            let names: Vec<&str> = path.split('.').collect();
            text = format!("{{\n  {}\n}}\n", json_nested(&names, value));
        }
        Syntax::Python => text.push_str(&format!("\n{path} = {value}\n")),
        Syntax::Arguments | Syntax::Overrides => text.push_str(&format!(" {value}\n")),
    }
    text
}
