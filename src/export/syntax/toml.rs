//! TOML: sections and keys.

use std::ops::Range;

use serde_json::Value;
use toml_edit::{Document, Item, TableLike};

use super::{DEEPEST, Found, SyntaxError, joined, line_of};
use crate::export::settings::{Node, Settings};

/// `settings` as TOML.
pub fn write(settings: &Settings, head: &[String]) -> String {
    let mut text: String = head.iter().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect();
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
            let note = setting.note.as_ref().map_or_else(String::new, |note| format!("  # {note}"));
            text.push_str(&format!("{name} = {}{note}\n", setting.value));
        }
    }
    for node in nodes {
        if let Node::Section { name, nodes } = node {
            write_section(&joined(outer, name), nodes, text);
        }
    }
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
