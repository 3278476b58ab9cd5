//! Expressions of Python that settings are made of: literals, products of numbers, names, calls.

use std::ops::Range;

use serde_json::{Map, Value};

use super::python::trimmed;
use super::python_lines::string_end;
use super::{DEEPEST, SyntaxError, line_of, python_string};

/// An expression and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub span: Range<usize>,
    pub kind: Kind,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Literal(Value),
    /// A name, or anything else whose value only Python knows.
    Name(String),
    /// A call, with its named arguments.
    Call {
        callee: String,
        arguments: Vec<Argument>,
    },
}

/// An argument by its name, or its place; `start` is where it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    pub name: String,
    pub start: usize,
    pub value: Expression,
}

/// The expression in a part of `text`.
pub fn expression(text: &str, range: Range<usize>) -> Result<Expression, SyntaxError> {
    deep(text, range, 0)
}

fn deep(text: &str, range: Range<usize>, depth: usize) -> Result<Expression, SyntaxError> {
    let span = trimmed(text, range);
    if depth >= DEEPEST {
        return Err(SyntaxError::TooDeep { line: line_of(text, span.start), deepest: DEEPEST });
    }
    let source = &text[span.clone()];
    let kind = match source.as_bytes().first() {
        None => return Err(SyntaxError::at(text, span.start, "a value is missing")),
        Some(b'[') if closes(text, &span)? => Kind::Literal(list(text, &span, depth)?),
        Some(b'(') if closes(text, &span)? => {
            let parts = parts(text, span.start + 1..span.end - 1)?;
            match parts.as_slice() {
                // Brackets around one value are no list.
                [one] if !source.trim_end_matches(')').trim_end().ends_with(',') => {
                    deep(text, one.clone(), depth + 1)?.kind
                }
                _ => Kind::Literal(list(text, &span, depth)?),
            }
        }
        Some(b'{') if closes(text, &span)? => Kind::Literal(mapping(text, &span, depth)?),
        Some(b'\'' | b'"') if string_end(text, span.start)? == span.end => {
            Kind::Literal(Value::from(python_string::text(source)))
        }
        Some(first) if first.is_ascii_alphabetic() || *first == b'_' => name_or_call(text, &span, depth)?,
        _ => number(source).map_or_else(|| Kind::Name(source.to_owned()), Kind::Literal),
    };
    Ok(Expression { span, kind })
}

/// Whether the bracket that begins `span` closes at its end.
fn closes(text: &str, span: &Range<usize>) -> Result<bool, SyntaxError> {
    Ok(bracket_end(text, span.start)? == span.end)
}

/// Behind the bracket that closes the one at `start`.
fn bracket_end(text: &str, start: usize) -> Result<usize, SyntaxError> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, start);
    while at < bytes.len() {
        match bytes[at] {
            b'#' => {
                at = text[at..].find('\n').map_or(bytes.len(), |end| at + end);
                continue;
            }
            b'\'' | b'"' => {
                at = string_end(text, at)?;
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    Err(SyntaxError::at(text, start, "the bracket is not closed"))
}

/// What commas separate.
fn parts(text: &str, inside: Range<usize>) -> Result<Vec<Range<usize>>, SyntaxError> {
    split(text, inside, b',').map(|parts| {
        let has_code = |part: &Range<usize>| !without_comments(&text[part.clone()]).trim().is_empty();
        parts.into_iter().filter(has_code).map(|part| behind_comments(text, part)).collect()
    })
}

/// What `separator` separates outside brackets and strings.
fn split(text: &str, inside: Range<usize>, separator: u8) -> Result<Vec<Range<usize>>, SyntaxError> {
    let bytes = text.as_bytes();
    let (mut list, mut start, mut at) = (Vec::new(), inside.start, inside.start);
    while at < inside.end {
        match bytes[at] {
            b'#' => at = text[at..].find('\n').map_or(inside.end, |end| at + end),
            b'\'' | b'"' => at = string_end(text, at)?,
            b'(' | b'[' | b'{' => at = bracket_end(text, at)?,
            byte if byte == separator => {
                list.push(start..at);
                at += 1;
                start = at;
            }
            _ => at += 1,
        }
    }
    list.push(start..inside.end);
    Ok(list)
}

fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split('#').next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The part without comments before its first word, nor behind its last.
fn behind_comments(text: &str, part: Range<usize>) -> Range<usize> {
    let mut span = trimmed(text, part);
    while text[span.clone()].starts_with('#') {
        let end = text[span.clone()].find('\n').map_or(span.end, |end| span.start + end);
        span = trimmed(text, end..span.end);
    }
    let source = &text[span.clone()];
    let has_string = source.contains(['"', '\'']);
    match source.find('#').filter(|_| !has_string) {
        Some(comment) => trimmed(text, span.start..span.start + comment),
        None => span,
    }
}

fn list(text: &str, span: &Range<usize>, depth: usize) -> Result<Value, SyntaxError> {
    let values = parts(text, span.start + 1..span.end - 1)?
        .into_iter()
        .map(|part| deep(text, part, depth + 1).map(|expression| plain(&expression.kind)));
    Ok(Value::Array(values.collect::<Result<_, _>>()?))
}

fn mapping(text: &str, span: &Range<usize>, depth: usize) -> Result<Value, SyntaxError> {
    let mut map = Map::new();
    for part in parts(text, span.start + 1..span.end - 1)? {
        let pair = split(text, part.clone(), b':')?;
        let [key, value] = pair.as_slice() else { continue };
        let key = match plain(&deep(text, key.clone(), depth + 1)?.kind) {
            Value::String(word) => word,
            other => other.to_string(),
        };
        map.insert(key, plain(&deep(text, value.clone(), depth + 1)?.kind));
    }
    Ok(Value::Object(map))
}

/// An expression inside a list, as a value.
fn plain(kind: &Kind) -> Value {
    match kind {
        Kind::Literal(value) => value.clone(),
        Kind::Name(name) => Value::from(name.as_str()),
        Kind::Call { callee, .. } => Value::from(format!("{callee}()")),
    }
}

fn name_or_call(text: &str, span: &Range<usize>, depth: usize) -> Result<Kind, SyntaxError> {
    let source = &text[span.clone()];
    match source {
        "True" => return Ok(Kind::Literal(Value::Bool(true))),
        "False" => return Ok(Kind::Literal(Value::Bool(false))),
        "None" => return Ok(Kind::Literal(Value::Null)),
        _ => {}
    }
    let end = source.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(source.len());
    let opening = span.start + end;
    if !source[end..].starts_with('(') || bracket_end(text, opening)? != span.end {
        return Ok(Kind::Name(source.to_owned()));
    }
    let mut arguments = Vec::new();
    for (place, part) in parts(text, opening + 1..span.end - 1)?.into_iter().enumerate() {
        let pair = split(text, part.clone(), b'=')?;
        let [name, value] = pair.as_slice() else {
            // What has no name goes by its place.
            let value = deep(text, part, depth + 1)?;
            arguments.push(Argument { name: place.to_string(), start: value.span.start, value });
            continue;
        };
        let name = trimmed(text, name.clone());
        let value = deep(text, value.clone(), depth + 1)?;
        arguments.push(Argument { name: text[name.clone()].to_owned(), start: name.start, value });
    }
    Ok(Kind::Call { callee: source[..end].to_owned(), arguments })
}

/// A number, or a product, sum or power of numbers.
fn number(source: &str) -> Option<Value> {
    let source: String = source.chars().filter(|c| !c.is_whitespace() && !matches!(c, '(' | ')')).collect();
    if let Ok(number) = serde_json::from_str::<serde_json::Number>(&source) {
        return Some(Value::Number(number));
    }
    let sum = source.replace("**", "^");
    let terms: Option<Vec<f64>> = sum.split('+').map(product).collect();
    let total: f64 = terms?.iter().sum();
    let is_whole = !sum.contains(['.', 'e', 'E']) && total.fract() == 0.0 && total.abs() < 9e15;
    Some(if is_whole { Value::from(total as i64) } else { Value::from(total) })
}

fn product(term: &str) -> Option<f64> {
    term.split('*')
        .map(|factor| {
            let (base, power) = factor.split_once('^').map_or((factor, "1"), |(base, power)| (base, power));
            let real = |text: &str| text.replace('_', "").parse::<f64>().ok().filter(|real| real.is_finite());
            Some(real(base)?.powf(real(power)?))
        })
        .product()
}
