//! Text in double quotes, in the one spelling that JSON, TOML, YAML and Python share.

use crate::spelling::hidden::{escape, is_hidden};

/// `text` in double quotes: after backslashes only what all four read alike.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if is_hidden(c) => escape(c, &mut quoted),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
