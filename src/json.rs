//! Reading JSON documents: which field is at fault, and what it holds.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;

use crate::spelling::hidden::{first_hidden, is_hidden, shown};

/// Under this name a document of others is kept as it is: a model's `config.json` in a layer graph.
const FOREIGN: &str = "config";

/// Why a text is not the JSON document that it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// The field at fault, such as `levels[0].span`; none where the text is no JSON, or the whole is of another form.
    pub field: Option<String>,
    /// What it holds, as it is written.
    pub value: Option<String>,
    pub reason: String,
    /// The text ends in the middle.
    pub is_cut_off: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.field, &self.value) {
            (Some(field), Some(value)) => write!(f, "{field} is {value}: {}", self.reason),
            (Some(field), None) => write!(f, "{field}: {}", self.reason),
            _ => f.write_str(&self.reason),
        }
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self { is_cut_off: error.is_eof(), reason: error.to_string(), ..Self::default() }
    }
}

impl Fault {
    /// The same of the file at `path`, which is what is at fault where no field is.
    pub fn in_file(self, path: &str) -> Self {
        if self.value.is_some() {
            return self;
        }
        Self { value: Some(path.to_owned()), reason: format!("`{path}`: {}", self.reason), ..self }
    }
}

/// The document that `text` holds; a mark of byte order before it does not count.
///
/// # Errors
/// The field at fault and its fault; also a string of more than one line of shown characters, see [`plain`].
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Such characters are in the text by themselves or after a backslash.
    let is_blank = |c: char| matches!(c, '\n' | '\r' | '\t');
    if text.chars().any(|c| c == '\\' || (is_hidden(c) && !is_blank(c)))
        && let Ok(whole) = serde_json::from_str::<Value>(text)
    {
        plain(&whole)?;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let document = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let error = error.into_inner();
        let is_of_field = error.classify() == Category::Data && path != ".";
        let whole: Option<Value> = serde_json::from_str(text).ok().filter(|_| is_of_field);
        let value = whole.as_ref().and_then(|whole| written(whole, &path));
        Fault { field: is_of_field.then_some(path), value, ..error.into() }
    })?;
    reader.end()?;
    Ok(document)
}

/// Whether all names and texts of `document` are one line each, without characters that are not shown but obeyed: what is
/// read here goes into scripts, tables and onto terminals.
///
/// # Errors
/// The first field that is otherwise, with what it holds.
pub fn plain(document: &Value) -> Result<(), Fault> {
    searched(document, &mut String::new())
}

/// `path` is that of `value`, and is left as it was.
fn searched(value: &Value, path: &mut String) -> Result<(), Fault> {
    let fault = |text: &str, field: &str| match first_hidden(text) {
        None => Ok(()),
        Some(c) => Err(Fault {
            field: Some(shown(field).into_owned()),
            value: Some(shown(text).into_owned()),
            reason: hidden(c),
            is_cut_off: false,
        }),
    };
    let length = path.len();
    match value {
        Value::String(text) => fault(text, path)?,
        Value::Array(list) => {
            for (place, value) in list.iter().enumerate() {
                path.push_str(&format!("[{place}]"));
                searched(value, path)?;
                path.truncate(length);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields.iter().filter(|(name, _)| *name != FOREIGN) {
                path.push_str(if length == 0 { "" } else { "." });
                path.push_str(name);
                fault(name, path)?;
                searched(value, path)?;
                path.truncate(length);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Why a text with `c` will not do.
pub fn hidden(c: char) -> String {
    format!(
        "it holds the character U+{:04X}, which is not shown; one line of shown characters is needed",
        c as u32
    )
}

/// What `document` holds at `path`, such as `levels[0].span`, as it is written; of lists and objects how many there are.
pub fn written(document: &Value, path: &str) -> Option<String> {
    let mut value = document;
    for step in path.split(['.', '[']).filter(|step| !step.is_empty()) {
        value = match step.strip_suffix(']') {
            Some(place) => value.get(place.parse::<usize>().ok()?)?,
            None => value.get(step)?,
        };
    }
    Some(match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("(a list of {})", list.len()),
        Value::Object(fields) => format!("(an object of {} fields)", fields.len()),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[expect(dead_code)]
        levels: Vec<Level>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Level {
        #[expect(dead_code)]
        span: u64,
    }

    #[test]
    fn the_field_at_fault_is_named_with_what_it_holds() {
        let fault = |text: &str| read::<Outer>(text).unwrap_err();
        let of = |text: &str| (fault(text).field, fault(text).value);
        let is = |field: &str, value: &str| (Some(field.to_owned()), Some(value.to_owned()));
        assert_eq!(of(r#"{"levels": [{"span": -1}]}"#), is("levels[0].span", "-1"));
        assert_eq!(of(r#"{"levels": [{"span": 8}, {"span": "wide"}]}"#), is("levels[1].span", "wide"));
        assert_eq!(of(r#"{"levels": {}}"#), is("levels", "(an object of 0 fields)"));
        assert_eq!(of("[]"), (None, None));
        assert!(fault(r#"{"levels": ["#).is_cut_off);
        assert!(!fault("prose").is_cut_off);
        assert!(fault(r#"{"levels": []} more"#).reason.contains("trailing"));
        assert!(read::<Outer>("\u{feff}{\"levels\": []}").is_ok());
    }

    #[test]
    fn texts_are_one_line_of_shown_characters() {
        let fault = |text: &str| read::<Value>(text).unwrap_err();
        for hidden in ["\\n", "\\u0000", "\\u001b[2J", "\u{7f}", "\u{85}", "\u{2028}", "\u{202e}"] {
            let found = fault(&format!("{{\"levels\": [{{\n\t\"name\": \"a{hidden}b\"}}]}}"));
            assert_eq!(found.field.as_deref(), Some("levels[0].name"), "{hidden}");
            let text = found.to_string();
            assert!(text.contains("U+") && first_hidden(&text).is_none(), "{text}");
        }
        assert_eq!(fault("{\"a\": {\"b\\tc\": 1}}").field.as_deref(), Some("a.b\\u0009c"));
        let others = r#"{"graph": {"config": {"prefix": "a\nb"}}, "source": "C:\\x \"é\""}"#;
        assert!(read::<Value>(others).is_ok());
    }
}
