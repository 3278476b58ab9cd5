//! TOML: sections and keys.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, Item, TableLike};

use super::{Comment, DEEPEST, Found, SyntaxError, joined, line_of, quoted};
use crate::export::settings::{Node, Settings};

/// `settings` as TOML.
pub fn write(settings: &Settings, head: &[Comment]) -> String {
    let mut text = Comment::head(head);
    write_section("", &settings.tree(), &mut text);
    text
}

/// Keys before the sections inside, which would take them in.
fn write_section(outer: &str, nodes: &[Node<'_>], text: &mut String) {
    let has_keys = nodes.iter().any(|node| matches!(node, Node::Key { .. }));
    if !outer.is_empty() && has_keys {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&format!("[{outer}]\n"));
    }
    for node in nodes {
        if let Node::Key { name, setting } = node {
            // TOML has no null: what is not there is none.
            let Some(value) = written(&setting.value) else { continue };
            text.push_str(&format!("{} = {value}{}\n", key(name), Comment::behind(setting.note.as_ref())));
        }
    }
    for node in nodes {
        if let Node::Section { name, nodes } = node {
            write_section(&joined(outer, &key(name)), nodes, text);
        }
    }
}

/// A key: bare where it may be.
pub fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !name.is_empty() && name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// A value; none of null.
pub fn written(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::String(text) => quoted(text),
        Value::Array(list) => format!("[{}]", list.iter().filter_map(written).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let pairs =
                map.iter().filter_map(|(name, value)| Some(format!("{} = {}", key(name), written(value)?)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    })
}

/// The settings of a TOML text.
pub fn read(text: &str) -> Result<Vec<Found>, SyntaxError> {
    let document = Document::parse(text).map_err(|error| {
        let at = error.span().map_or(text.len(), |span| span.start);
        let reason = error.message().lines().collect::<Vec<_>>().join(", ");
        SyntaxError::at(text, at, format!("it is not TOML: {reason}"))
    })?;
    let mut found = Vec::new();
    table(text, "", document.as_table(), 0, &mut found)?;
    found.sort_by_key(|found| found.entry.start);
    Ok(found)
}

fn table(
    text: &str,
    outer: &str,
    table: &dyn TableLike,
    depth: usize,
    found: &mut Vec<Found>,
) -> Result<(), SyntaxError> {
    for (name, item) in table.iter() {
        let path = joined(outer, name);
        let span = item.span().unwrap_or_default();
        if depth >= DEEPEST {
            return Err(SyntaxError::TooDeep { line: line_of(text, span.start), deepest: DEEPEST });
        }
        if let Some(inner) = item.as_table_like() {
            self::table(text, &path, inner, depth + 1, found)?;
            continue;
        }
        let value = value(text, item, depth)?;
        let start = table.key(name).and_then(|key| key.span()).map_or(span.start, |key| key.start);
        found.push(Found { path, value, entry: start..span.end, span, is_open: false });
    }
    Ok(())
}

fn value(text: &str, item: &Item, depth: usize) -> Result<Value, SyntaxError> {
    let span: Range<usize> = item.span().unwrap_or_default();
    if depth >= DEEPEST {
        return Err(SyntaxError::TooDeep { line: line_of(text, span.start), deepest: DEEPEST });
    }
    if let Some(list) = item.as_array() {
        let values = list.iter().map(|entry| value(text, &Item::Value(entry.clone()), depth + 1));
        return Ok(Value::Array(values.collect::<Result<_, _>>()?));
    }
    let scalar = item
        .as_bool()
        .map(Value::from)
        .or_else(|| item.as_integer().map(Value::from))
        .or_else(|| item.as_float().map(Value::from))
        .or_else(|| item.as_str().map(Value::from));
    // Dates and lists of tables shape no strategy.
    Ok(scalar.unwrap_or_else(|| Value::from(text.get(span).unwrap_or_default().trim())))
}
