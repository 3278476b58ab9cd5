//! JSON: objects and keys.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{DEEPEST, Found, SyntaxError, joined, line_of, quoted};
use crate::export::settings::{Node, Settings};

/// `settings` as JSON, an object a section; JSON has no comments.
pub fn write(settings: &Settings) -> String {
    let mut text = String::new();
    write_object(&settings.tree(), 0, &mut text);
    text.push('\n');
    text
}

fn write_object(nodes: &[Node<'_>], depth: usize, text: &mut String) {
    text.push('{');
    for (index, node) in nodes.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&"  ".repeat(depth + 1));
        match node {
            Node::Key { name, setting } => {
                text.push_str(&format!("{}: {}", quoted(name), written(&setting.value)));
            }
            Node::Section { name, nodes } => {
                text.push_str(&format!("{}: ", quoted(name)));
                write_object(nodes, depth + 1, text);
            }
        }
    }
    text.push_str(&format!("\n{}}}", "  ".repeat(depth)));
}

/// A value on one line.
pub fn written(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(list) => format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let pairs = map.iter().map(|(name, value)| format!("{}:{}", quoted(name), written(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// The settings of a JSON text.
pub fn read(text: &str) -> Result<Vec<Found>, SyntaxError> {
    let mut found = Vec::new();
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| malformed(&error, 1))?;
    object(text, "", whole, 0, &mut found)?;
    Ok(found)
}

fn malformed(error: &serde_json::Error, first_line: usize) -> SyntaxError {
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    SyntaxError::Malformed {
        line: first_line + error.line().saturating_sub(1),
        reason: format!("it is not JSON: {reason}"),
    }
}

/// Settings inside `raw`, a part of `text`.
fn object(
    text: &str,
    outer: &str,
    raw: &RawValue,
    depth: usize,
    found: &mut Vec<Found>,
) -> Result<(), SyntaxError> {
    let start = place(text, raw);
    let line = line_of(text, start);
    if depth >= DEEPEST {
        return Err(SyntaxError::TooDeep { line, deepest: DEEPEST });
    }
    let Pairs(pairs) = serde_json::from_str(raw.get()).map_err(|error| malformed(&error, line))?;
    for (name, raw) in pairs {
        let path = joined(outer, &name);
        if raw.get().starts_with('{') {
            object(text, &path, raw, depth + 1, found)?;
            continue;
        }
        let from = place(text, raw);
        let value: Value =
            serde_json::from_str(raw.get()).map_err(|error| malformed(&error, line_of(text, from)))?;
        // The name stands before the value: its quotes, a colon, blanks.
        let before = text[..from].trim_end().trim_end_matches(':').trim_end();
        let entry = before.len().saturating_sub(serde_json::to_string(&name).unwrap_or_default().len());
        let span = from..from + raw.get().len();
        found.push(Found { path, value, entry: entry..span.end, span, is_open: false });
    }
    Ok(())
}

/// Keys and values of an object, all of them: a key that is there twice too.
struct Pairs<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;

        impl<'de> Visitor<'de> for All {
            type Value = Pairs<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(All)
    }
}

/// Where in `text` the part `raw` of it begins.
fn place(text: &str, raw: &RawValue) -> usize {
    (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}
