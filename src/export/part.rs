//! Settings that one setting holds: as a value with fields, as JSON in a word, or in the file that it names.

use serde_json::{Map, Value};

use super::beside::Beside;
use super::syntax::{Document, Found, Origin, Place, Syntax};

/// Fields inside each other of one value, as in any syntax.
const DEEPEST: usize = 32;

/// The settings that `found`, said at `origin`, holds.
///
/// # Errors
/// In words, if it holds none.
pub fn held(found: &Found, origin: &Origin, beside: Beside<'_>) -> Result<Document, String> {
    match &found.value {
        Value::Object(map) => {
            let mut document = Document::translated(Syntax::Json);
            fields(map, "", origin, &mut document, 0);
            Ok(document)
        }
        Value::String(word) if word.trim_start().starts_with('{') => {
            let Ok(Value::Object(map)) = serde_json::from_str(word) else {
                return Err("it is not JSON".to_owned());
            };
            let mut document = Document::translated(Syntax::Json);
            fields(&map, "", origin, &mut document, 0);
            Ok(document)
        }
        Value::String(name) => file(name, beside),
        _ => Err("settings are needed here, or the name of a file that holds them".to_owned()),
    }
}

fn fields(map: &Map<String, Value>, outer: &str, origin: &Origin, document: &mut Document, depth: usize) {
    for (name, value) in map {
        let path = if outer.is_empty() { name.clone() } else { format!("{outer}.{name}") };
        match value {
            Value::Object(inner) if depth < DEEPEST => fields(inner, &path, origin, document, depth + 1),
            value => {
                let named = Origin { path: format!("{}.{path}", origin.path), place: origin.place.clone() };
                document.set(&path, value.clone(), named);
            }
        }
    }
}

/// The settings of the file called `name`.
fn file(name: &str, beside: Beside<'_>) -> Result<Document, String> {
    let text = beside.text(name)?;
    let ending = name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let syntax = if ["yaml", "yml"].contains(&ending.as_str()) { Syntax::Yaml } else { Syntax::Json };
    let read = syntax.read(&text).map_err(|error| format!("`{name}`, {error}"))?;
    let mut document = Document::translated(syntax);
    for found in &read.found {
        let place = Place::File(name.to_owned(), read.line(found));
        document.set(&found.path, found.value.clone(), Origin { path: found.path.clone(), place });
    }
    Ok(document)
}
