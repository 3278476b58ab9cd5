//! Interpolations of a file of Hydra: a value that names another, and products of values.

use serde_json::Value;

use crate::export::syntax::Document;

/// Names that lead to names, as far as they are followed.
const DEEPEST: usize = 8;

/// The value of `path` with what it names in its place: `${model.hidden_size}`, `${.hidden_size}` beside it, and
/// `${multiply:4, ${.hidden_size}}`. None where it is not there, or names what the file does not say.
pub fn value(document: &Document, path: &str) -> Option<Value> {
    of(document, path, 0)
}

/// Whether the value is made of others.
pub fn is_made(value: &Value) -> bool {
    value.as_str().is_some_and(|word| word.contains("${"))
}

fn of(document: &Document, path: &str, depth: usize) -> Option<Value> {
    let value = &document.get(path)?.value;
    match value.as_str() {
        Some(word) if word.contains("${") => made(document, word.trim(), path, depth),
        _ => Some(value.clone()),
    }
}

/// The value of `${...}`, or of a plain number.
fn made(document: &Document, word: &str, path: &str, depth: usize) -> Option<Value> {
    let Some(inside) = word.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) else {
        return word.parse::<i64>().ok().map(Value::from);
    };
    if depth >= DEEPEST {
        return None;
    }
    if let Some(factors) = inside.strip_prefix("multiply:") {
        let factor = |word: &str| made(document, word.trim(), path, depth + 1)?.as_i64();
        let (one, other) = halves(factors)?;
        return factor(one)?.checked_mul(factor(other)?).map(Value::from);
    }
    let is_path = inside.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    let named = is_path.then(|| beside(path, inside))??;
    of(document, &named, depth + 1)
}

/// The two arguments of a function, the comma between which is in no braces.
fn halves(arguments: &str) -> Option<(&str, &str)> {
    let mut inside = 0_usize;
    for (at, c) in arguments.char_indices() {
        match c {
            '{' => inside += 1,
            '}' => inside = inside.saturating_sub(1),
            ',' if inside == 0 => return Some((&arguments[..at], &arguments[at + 1..])),
            _ => {}
        }
    }
    None
}

/// The path that `name`, said at `path`, means: one dot before it is the section of `path`, each more one further out.
fn beside(path: &str, name: &str) -> Option<String> {
    let rest = name.trim_start_matches('.');
    let dots = name.len() - rest.len();
    if dots == 0 {
        return Some(rest.to_owned());
    }
    let sections: Vec<&str> = path.split('.').collect();
    let kept = sections.len().checked_sub(dots)?;
    Some([&sections[..kept], &[rest]].concat().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::syntax::Syntax;

    #[test]
    fn names_are_followed_and_products_made() {
        let text = "model:\n  hidden: 64\n  inner: ${multiply:4, ${.hidden}}\n  own: ${model.hidden}\n  data:\n    \
                    length: ${..length}\n  length: 128\n  round: ${.round}\n  far: ${oc.env:HOME}\n  word: ${.none}\n";
        let document = Syntax::Yaml.read(text).unwrap();
        let value = |path: &str| value(&document, path);
        assert_eq!(value("model.inner"), Some(256.into()));
        assert_eq!(value("model.own"), Some(64.into()));
        assert_eq!(value("model.data.length"), Some(128.into()));
        for path in ["model.round", "model.far", "model.word", "model.none"] {
            assert_eq!(value(path), None, "{path}");
        }
    }
}
