//! Text inside Markdown: as words, as code, in the cell of a table.

use crate::spelling::hidden::shown;

/// `text` as words that say what it says: nothing in it is markup, a link in brackets, a picture or HTML.
pub fn words(text: &str) -> String {
    escaped(text, |c| is_structure(c) || matches!(c, '`' | '*' | '_' | '~' | '$' | '#' | '!'))
}

/// A sentence of this program, which may hold code in backquotes and names: it begins no block, and holds no links in brackets
/// and no HTML.
pub fn sentence(text: &str) -> String {
    let text = escaped(text.trim_start(), is_structure);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &text[digits..];
    // A list, a heading or a fence. A decimal point begins no list.
    let is_block = if digits > 0 {
        let after = rest.strip_prefix(['.', ')']);
        after.is_some_and(|after| after.is_empty() || after.starts_with(char::is_whitespace))
    } else {
        ["#", "- ", "+ ", "* ", "~~~", "```"].iter().any(|sign| rest.starts_with(sign))
    };
    if is_block { format!("{}\\{}", &text[..digits], &text[digits..]) } else { text }
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

/// Characters that make links, pictures, HTML, entities and cells, and the one that takes that away.
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
