//! Python files as data: assignments, calls with named arguments, and literals. Nothing is run.
//!
//! `plugin = Plugin(size=4)` has the settings `plugin`, whose value is the word `Plugin()`, and `plugin.size`. Of a
//! function that returns a variable, names begin behind that variable: `c.training.steps = 5` is `training.steps`.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use super::python_expression::{Argument, Expression, Kind, expression};
use super::python_lines::{Line, lines};
use super::{Comment, Found, SyntaxError, joined, quoted};
use crate::export::settings::{Node, Setting, Settings};

/// `settings` as assignments; a value that is a call takes the settings below it as its arguments.
pub fn write(settings: &Settings, head: &[Comment]) -> String {
    Comment::head(head) + &assignments(settings, "", "")
}

/// The assignments alone, each behind `indent` and with `owner` (a variable and a dot) before its name.
pub fn assignments(settings: &Settings, owner: &str, indent: &str) -> String {
    let mut text = String::new();
    write_nodes(&settings.tree(), owner, indent, &mut text);
    text
}

fn write_nodes(nodes: &[Node<'_>], owner: &str, indent: &str, text: &mut String) {
    for node in nodes {
        match node {
            Node::Key { name, setting } => {
                let note = Comment::behind(setting.note.as_ref());
                let value = called(nodes, name, setting, indent);
                text.push_str(&format!("{indent}{owner}{} = {value}{note}\n", identifier(name)));
            }
            Node::Section { name, nodes: inside } if !is_call(nodes, name) => {
                write_nodes(inside, &format!("{owner}{}.", identifier(name)), indent, text);
            }
            Node::Section { .. } => {}
        }
    }
}

/// The value of `name`, with its arguments where it is a call.
fn called(siblings: &[Node<'_>], name: &str, setting: &Setting, indent: &str) -> String {
    let Some(callee) = setting.callee else { return literal(&setting.value) };
    let inside = siblings.iter().find_map(|node| match node {
        Node::Section { name: section, nodes } if *section == name => Some(nodes),
        _ => None,
    });
    let Some(nodes) = inside else { return format!("{callee}()") };
    let deeper = format!("{indent}    ");
    let mut text = format!("{callee}(\n");
    for node in nodes {
        if let Node::Key { name, setting } = node {
            let note = Comment::behind(setting.note.as_ref());
            let value = called(nodes, name, setting, &deeper);
            let is_placed = name.chars().all(|c| c.is_ascii_digit());
            let name = if is_placed { String::new() } else { format!("{}=", identifier(name)) };
            text.push_str(&format!("{deeper}{name}{value},{note}\n"));
        }
    }
    text + indent + ")"
}

fn is_call(nodes: &[Node<'_>], name: &str) -> bool {
    nodes.iter().any(
        |node| matches!(node, Node::Key { name: key, setting } if *key == name && setting.callee.is_some()),
    )
}

/// `name` as Python takes names, which it has no quotes for: what can be in none is `_`.
fn identifier(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect()
}

/// A value as a literal of Python.
pub fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(list) => format!("[{}]", list.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", quoted(key), literal(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Value::String(text) => quoted(text),
        Value::Number(number) => number.to_string(),
    }
}

/// The settings of a Python text.
pub fn read(text: &str) -> Result<Vec<Found>, SyntaxError> {
    let mut reader =
        Reader { text, found: Vec::new(), parts: Vec::new(), aliases: HashMap::new(), root: None };
    for line in lines(text)? {
        reader.take(&line)?;
    }
    Ok(reader.ended())
}

struct Reader<'a> {
    text: &'a str,
    found: Vec<Found>,
    /// What was assigned before a configuration was made, whose variables it may name.
    parts: Vec<Found>,
    /// Variables that stand for a part of another.
    aliases: HashMap<String, String>,
    /// The variable that is returned.
    root: Option<String>,
}

impl Reader<'_> {
    fn take(&mut self, line: &Line) -> Result<(), SyntaxError> {
        let source = &self.text[line.span.clone()];
        if let Some(rest) = source.strip_prefix("return").filter(|rest| rest.starts_with([' ', '('])) {
            let at = line.span.start + (source.len() - rest.len());
            let returned = expression(self.text, at..line.span.end)?;
            match &returned.kind {
                Kind::Name(name) => self.root = Some(name.clone()),
                Kind::Call { callee, .. } if callee.ends_with("Config") => {
                    // A function that makes a configuration: what it assigned before are parts of it.
                    self.parts = std::mem::take(&mut self.found);
                    self.put(String::new(), line.span.start, &returned, line.is_conditional);
                }
                Kind::Call { .. } => self.put(String::new(), line.span.start, &returned, line.is_conditional),
                Kind::Literal(_) => {}
            }
            return Ok(());
        }
        let Some((target, at)) = target(source) else { return Ok(()) };
        let assigned = expression(self.text, line.span.start + at..line.span.end)?;
        let target = self.resolved(target);
        if let Kind::Name(name) = &assigned.kind
            && !target.contains('.')
        {
            let name = self.resolved(name);
            self.aliases.insert(target.clone(), name);
        }
        // What is assigned later holds; below it nothing of what was there before.
        let below = format!("{target}.");
        self.found.retain(|found| found.path != target && !found.path.starts_with(&below));
        self.put(target, line.span.start, &assigned, line.is_conditional);
        Ok(())
    }

    /// A dotted name with the alias at its head put in.
    fn resolved(&self, name: &str) -> String {
        let (head, rest) = name.split_once('.').map_or((name, ""), |(head, rest)| (head, rest));
        match self.aliases.get(head) {
            Some(whole) if !rest.is_empty() => format!("{whole}.{rest}"),
            _ => name.to_owned(),
        }
    }

    fn put(&mut self, path: String, start: usize, assigned: &Expression, is_open: bool) {
        let span = assigned.span.clone();
        let entry = start..span.end;
        let (value, is_name) = match &assigned.kind {
            Kind::Literal(value) => (value.clone(), false),
            Kind::Name(name) => (Value::from(name.as_str()), true),
            Kind::Call { callee, .. } => (Value::from(format!("{callee}()")), false),
        };
        if let Kind::Name(name) = &assigned.kind {
            let parts: Vec<Found> = self.parts.iter().filter_map(|part| part.moved(name, &path)).collect();
            if !parts.is_empty() {
                self.found.extend(parts);
                return;
            }
        }
        if !path.is_empty() {
            self.found.push(Found { path: path.clone(), value, entry, span, is_open: is_open || is_name });
        }
        if let Kind::Call { arguments, .. } = &assigned.kind {
            for Argument { name, start, value } in arguments {
                self.put(joined(&path, name), *start, value, is_open);
            }
        }
    }

    /// The settings, with names behind the variable that is returned.
    fn ended(self) -> Vec<Found> {
        let Self { mut found, root, .. } = self;
        if let Some(root) = root {
            let prefix = format!("{root}.");
            for found in &mut found {
                if let Some(rest) = found.path.strip_prefix(&prefix) {
                    found.path = rest.to_owned();
                }
            }
            // A second file of settings may hang on another variable; the last of a name holds.
            let mut index = 0;
            while index < found.len() {
                let later = found[index + 1..].iter().any(|other| other.path == found[index].path);
                if later {
                    found.remove(index);
                } else {
                    index += 1;
                }
            }
        }
        found
    }
}

/// The name that a line assigns to, and where in it the value begins.
fn target(source: &str) -> Option<(&str, usize)> {
    let end = source.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.')))?;
    let name = &source[..end];
    let rest = &source[end..];
    // An annotation may stand between.
    let equals = match rest.trim_start().starts_with(':') {
        true => rest.find('=')?,
        false => rest.len() - rest.trim_start().len(),
    };
    let behind = &rest[equals..];
    let is_assignment = behind.starts_with('=') && !behind.starts_with("==");
    (is_assignment && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()))
        .then_some((name, end + equals + 1))
}

/// The part of `text` that `range` covers, without blanks around it.
pub(super) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    start..(start + part.trim().len())
}
