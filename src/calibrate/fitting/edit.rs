//! Sets one number in the text of a cost model and leaves all else as it stands.

use serde_json::{Value, json};

/// `text` (JSON) with the value at the path of keys `path` replaced by `new`; none if nothing stands there.
pub fn replaced(text: &str, path: &[&str], new: &str) -> Option<String> {
    let (start, end) = find(text, path)?;
    Some(format!("{}{new}{}", &text[..start], &text[end..]))
}

/// A sourced number on one line, as cost models are written.
pub fn sourced(value: &Value, source: &str) -> String {
    format!(r#"{{ "value": {value}, "kind": "fitted", "source": {} }}"#, json!(source))
}

/// Where the value at `path` begins and ends.
fn find(text: &str, path: &[&str]) -> Option<(usize, usize)> {
    let mut at = skip_blanks(text, 0);
    for &wanted in path {
        if text.as_bytes().get(at) != Some(&b'{') {
            return None;
        }
        at += 1;
        loop {
            at = skip_blanks(text, at);
            match text.as_bytes().get(at)? {
                b',' => at += 1,
                b'"' => {
                    let end = end_of(text, at)?;
                    let key: String = serde_json::from_str(&text[at..end]).ok()?;
                    at = skip_blanks(text, end) + 1;
                    at = skip_blanks(text, at);
                    if key == wanted {
                        break;
                    }
                    at = end_of(text, at)?;
                }
                _ => return None,
            }
        }
    }
    Some((at, end_of(text, at)?))
}

fn skip_blanks(text: &str, at: usize) -> usize {
    at + text[at..].len() - text[at..].trim_start().len()
}

/// The end of the JSON value that begins at `at`.
fn end_of(text: &str, at: usize) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<serde::de::IgnoredAny>();
    values.next()?.ok()?;
    Some(at + values.byte_offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
  "a": { "text, with \"{\"": [1, 2], "b": { "value": 1.5, "kind": "estimate" } },
  "b": 7
}"#;

    #[test]
    fn one_value_is_replaced_and_nothing_else() {
        let new = replaced(TEXT, &["a", "b"], "null").unwrap();
        assert_eq!(new, TEXT.replace(r#"{ "value": 1.5, "kind": "estimate" }"#, "null"));
        assert_eq!(replaced(TEXT, &["b"], "8").unwrap(), TEXT.replace('7', "8"));
        assert_eq!(replaced(TEXT, &["a", "c"], "8"), None);
        assert_eq!(replaced(TEXT, &["b", "c"], "8"), None);
    }

    #[test]
    fn numbers_are_written_as_cost_models_have_them() {
        let text = sourced(&json!(0.25), "a \"fit\"");
        assert_eq!(text, r#"{ "value": 0.25, "kind": "fitted", "source": "a \"fit\"" }"#);
    }
}
