//! Text inside Markdown: as words, as code, in the cell of a table.

use crate::spelling::hidden::shown;

/// `text` as words that say what it says: nothing in it is markup, a link, a picture or HTML.
pub fn words(text: &str) -> String {
    escaped(text, |c| is_structure(c) || matches!(c, '`' | '*' | '_' | '~' | '$' | '#' | '!'))
}

/// A sentence of this program, which may hold code in backquotes, and in which names stand: it begins no block and holds
/// no links and no HTML.
pub fn sentence(text: &str) -> String {
    escaped(text, is_structure)
}

/// `text` as code.
pub fn code(text: &str) -> String {
    let text = shown(text);
    let runs = text.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(1 + runs.max().unwrap_or(0));
    // A span of nothing would be two fences.
    let pad =
        if text.is_empty() || text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// What makes links, pictures, HTML, entities, cells, and what takes that away.
const fn is_structure(c: char) -> bool {
    matches!(c, '\\' | '[' | ']' | '<' | '>' | '&' | '|')
}

fn escaped(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let text = shown(text);
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_special(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
