//! YAML: block mappings of sections and keys; other collections are values.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Value};

use super::{Comment, DEEPEST, Found, SyntaxError, joined, json, line_of, quoted};
use crate::export::settings::{Node, Settings};

/// `settings` as YAML.
pub fn write(settings: &Settings, head: &[Comment]) -> String {
    let mut text = Comment::head(head);
    write_mapping(&settings.tree(), 0, &mut text);
    text
}

fn write_mapping(nodes: &[Node<'_>], depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for node in nodes {
        match node {
            Node::Key { name, setting } => {
                let (name, note) = (key(name), Comment::behind(setting.note.as_ref()));
                text.push_str(&format!("{indent}{name}: {}{note}\n", scalar(&setting.value)));
            }
            Node::Section { name, nodes } => {
                text.push_str(&format!("{indent}{}:\n", key(name)));
                write_mapping(nodes, depth + 1, text);
            }
        }
    }
}

/// A value as YAML: words that nothing else could mean are not quoted; the rest is JSON, which YAML holds.
pub fn scalar(value: &Value) -> String {
    match value {
        Value::String(word) if is_plain(word) => word.clone(),
        Value::Number(number) if number.is_f64() => {
            // Without a point, YAML 1.1 takes `1e-8` for a word.
            let text = number.to_string();
            match text.split_once('e') {
                Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
                _ => text,
            }
        }
        other => json::written(other),
    }
}

/// A key: plain where it may be.
pub fn key(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { quoted(name) }
}

fn is_plain(word: &str) -> bool {
    let is_keyword = matches!(
        word.to_ascii_lowercase().as_str(),
        "" | "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n"
    );
    let mut characters = word.chars();
    let is_word = characters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
    is_word && !is_keyword
}

/// The settings of a YAML text.
pub fn read(text: &str) -> Result<Vec<Found>, SyntaxError> {
    let places = Places::new(text);
    let mut reader = Reader { text, places: &places, found: Vec::new(), open: Vec::new() };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| SyntaxError::Malformed {
            line: error.marker().line(),
            reason: format!("it is not YAML: {}", error.info()),
        })?;
        reader.take(event, span)?;
    }
    Ok(reader.found)
}

/// A collection whose end has not come.
enum Open {
    /// A mapping whose keys are settings; behind a key the bytes of it.
    Section {
        path: String,
        key: Option<(String, std::ops::Range<usize>)>,
    },
    /// A list, or a mapping inside one, which is a value.
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

struct Reader<'a> {
    text: &'a str,
    places: &'a Places,
    found: Vec<Found>,
    /// With where each begins.
    open: Vec<(Open, usize)>,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), SyntaxError> {
        let (start, end) = (self.places.byte(span.start.index()), self.places.byte(span.end.index()));
        match event {
            Event::Scalar(word, style, _, _) => {
                let value = if style == ScalarStyle::Plain { plain(&word) } else { Value::from(&*word) };
                // A key is a word, whatever it looks like.
                self.put(value, Some(&word), start..end)
            }
            Event::SequenceStart(..) => self.open(Open::List(Vec::new()), start),
            Event::MappingStart(..) => {
                let inner = match self.open.last() {
                    None => Some(String::new()),
                    Some((Open::Section { path, key: Some((key, _)) }, _)) => Some(joined(path, key)),
                    Some((Open::Section { key: None, .. }, _)) => {
                        return Err(SyntaxError::at(self.text, start, "a key is a word, not a mapping"));
                    }
                    Some(_) => None,
                };
                match inner {
                    Some(path) => self.open(Open::Section { path, key: None }, start),
                    None => self.open(Open::Map(Map::new(), None), start),
                }
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((Open::List(list), start)) => self.put(Value::Array(list), None, start..end.max(start)),
                Some((Open::Map(map, _), start)) => self.put(Value::Object(map), None, start..end.max(start)),
                Some((Open::Section { .. }, _)) => {
                    if let Some((Open::Section { key, .. }, _)) = self.open.last_mut() {
                        *key = None;
                    }
                    Ok(())
                }
                None => Ok(()),
            },
            Event::Alias(_) => {
                Err(SyntaxError::at(self.text, start, "aliases are not followed; write it out"))
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, open: Open, start: usize) -> Result<(), SyntaxError> {
        if self.open.len() >= DEEPEST {
            return Err(SyntaxError::TooDeep { line: line_of(self.text, start), deepest: DEEPEST });
        }
        if let Some((Open::Section { key: None, .. }, _)) = self.open.last() {
            return Err(SyntaxError::at(self.text, start, "a key is a word, not a collection"));
        }
        self.open.push((open, start));
        Ok(())
    }

    /// Puts a value, or a key where one is due, into the collection that is open.
    fn put(
        &mut self,
        value: Value,
        word: Option<&str>,
        span: std::ops::Range<usize>,
    ) -> Result<(), SyntaxError> {
        match self.open.last_mut().map(|(open, _)| open) {
            None if value.is_null() => Ok(()),
            None => Err(SyntaxError::at(self.text, span.start, "it holds no keys")),
            Some(Open::List(list)) => {
                list.push(value);
                Ok(())
            }
            Some(Open::Map(map, key)) => match (key.take(), word) {
                (Some(name), _) => {
                    map.insert(name, value);
                    Ok(())
                }
                (None, Some(word)) => {
                    *key = Some(word.to_owned());
                    Ok(())
                }
                (None, None) => Err(SyntaxError::at(self.text, span.start, "a key is a word")),
            },
            Some(Open::Section { path, key }) => match (key.take(), word) {
                (Some((name, place)), _) => {
                    let path = joined(path, &name);
                    let entry = place.start..span.end.max(place.end);
                    self.found.push(Found { path, value, entry, span, is_open: false });
                    Ok(())
                }
                (None, Some(word)) => {
                    *key = Some((word.to_owned(), span));
                    Ok(())
                }
                (None, None) => Err(SyntaxError::at(self.text, span.start, "a key is a word")),
            },
        }
    }
}

/// What an unquoted word means in the YAML that Python's loaders read.
pub(super) fn plain(word: &str) -> Value {
    match word {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    let digits = word.replace('_', "");
    if let Ok(whole) = digits.parse::<i64>() {
        return Value::from(whole);
    }
    let is_number =
        digits.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+' | '.'));
    match digits.parse::<f64>() {
        Ok(number) if is_number && number.is_finite() => Value::from(number),
        _ => Value::from(word),
    }
}

/// Bytes of the characters of a text, which the parser counts.
struct Places {
    /// Empty where all characters are single bytes.
    bytes: Vec<usize>,
}

impl Places {
    fn new(text: &str) -> Self {
        let bytes = match text.is_ascii() {
            true => Vec::new(),
            false => text.char_indices().map(|(at, _)| at).chain([text.len()]).collect(),
        };
        Self { bytes }
    }

    fn byte(&self, character: usize) -> usize {
        if self.bytes.is_empty() { character } else { self.bytes.get(character).copied().unwrap_or_default() }
    }
}
