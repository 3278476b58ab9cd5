//! Logical lines of a Python file: brackets join lines, comments and strings hide what is in them.

use std::ops::Range;

use super::SyntaxError;

/// A statement on one logical line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its bytes, without indentation and without a comment behind it.
    pub span: Range<usize>,
    /// It stands in a branch or a loop, so it may not be run.
    pub is_conditional: bool,
}

/// All statements of `text`.
///
/// # Errors
/// If a string or a bracket is not closed, or closes what is not open.
pub fn lines(text: &str) -> Result<Vec<Line>, SyntaxError> {
    let mut list = Vec::new();
    // Indentations of branches and loops that are open.
    let mut branches: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let end = line_end(text, at)?;
        let code = code_of(text, at..end)?;
        let source = &text[code.clone()];
        if !source.trim().is_empty() {
            let indent = source.len() - source.trim_start().len();
            let span = super::python::trimmed(text, code);
            branches.retain(|outer| indent > *outer);
            let word = text[span.clone()].split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            list.push(Line { span, is_conditional: !branches.is_empty() });
            if matches!(word, "if" | "elif" | "else" | "for" | "while" | "try" | "except") {
                branches.push(indent);
            }
        }
        at = end + 1;
    }
    Ok(list)
}

/// Where the logical line that begins at `start` ends.
fn line_end(text: &str, start: usize) -> Result<usize, SyntaxError> {
    let mut open: Vec<(u8, usize)> = Vec::new();
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'#' => at = text[at..].find('\n').map_or(bytes.len(), |end| at + end),
            b'\n' if open.is_empty() => return Ok(at),
            b'\'' | b'"' => at = string_end(text, at)?,
            b'\\' => at += 2,
            byte @ (b'(' | b'[' | b'{') => {
                open.push((byte, at));
                at += 1;
            }
            byte @ (b')' | b']' | b'}') => {
                let opener = match byte {
                    b')' => b'(',
                    b']' => b'[',
                    _ => b'{',
                };
                match open.pop() {
                    Some((known, _)) if known == opener => at += 1,
                    _ => return Err(SyntaxError::at(text, at, "a bracket closes what is not open")),
                }
            }
            _ => at += 1,
        }
    }
    match open.pop() {
        Some((_, at)) => Err(SyntaxError::at(text, at, "the bracket is not closed")),
        None => Ok(bytes.len()),
    }
}

/// The line without a comment at its end.
fn code_of(text: &str, line: Range<usize>) -> Result<Range<usize>, SyntaxError> {
    let bytes = text.as_bytes();
    let mut at = line.start;
    let mut last = line.start;
    while at < line.end {
        match bytes[at] {
            b'#' => {
                at = text[at..line.end].find('\n').map_or(line.end, |end| at + end);
                continue;
            }
            b'\'' | b'"' => at = string_end(text, at)?.min(line.end),
            _ => at += 1,
        }
        last = at;
    }
    Ok(line.start..last)
}

/// Where the string that begins at `start` ends: behind its last quote.
pub fn string_end(text: &str, start: usize) -> Result<usize, SyntaxError> {
    let bytes = text.as_bytes();
    let quote = &text[start..=start];
    let triple = quote.repeat(3);
    let close = if text[start..].starts_with(&triple) { triple.as_str() } else { quote };
    let mut at = start + close.len();
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'\n' if close.len() == 1 => break,
            _ if text.is_char_boundary(at) && text[at..].starts_with(close) => return Ok(at + close.len()),
            _ => at += 1,
        }
    }
    Err(SyntaxError::at(text, start, "the string is not closed"))
}
