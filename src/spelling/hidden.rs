//! Characters that are not shown but obeyed: by terminals, by readers of lines, by whoever lays out text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether `c` is a control character, ends a line, turns the direction of what follows, or is no character at all. What
/// reads a text may take it for an order; no name needs one.
pub fn is_hidden(c: char) -> bool {
    match c {
        // Separators of lines and paragraphs; marks, embeddings, overrides and isolates of direction.
        '\u{61c}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' => true,
        // The mark of byte order, and what is no character.
        '\u{feff}' | '\u{fffe}' | '\u{ffff}' => true,
        c => c.is_control(),
    }
}

/// The first such character of `text`.
pub fn first_hidden(text: &str) -> Option<char> {
    text.chars().find(|c| is_hidden(*c))
}

/// `text` on one line, with such characters as `\u000a`.
pub fn shown(text: &str) -> Cow<'_, str> {
    shown_but(text, |_| false)
}

/// The same but for characters that are `meant`.
pub fn shown_but(text: &str, meant: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_spelt = |c: char| is_hidden(c) && !meant(c);
    if !text.chars().any(is_spelt) {
        return Cow::Borrowed(text);
    }
    let mut spelt = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_spelt(c) { escape(c, &mut spelt) } else { spelt.push(c) }
    }
    Cow::Owned(spelt)
}

/// Adds a hidden `c` as JSON, TOML, YAML and Python spell it in double quotes: `\u` and four digits, which do for all of
/// them.
pub fn escape(c: char, text: &mut String) {
    // Nothing fails that writes to a String.
    let _ = write!(text, "\\u{:04x}", c as u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_spelt_and_the_rest_is_left() {
        let steering =
            "\0\u{7}\t\n\r\u{1b}\u{7f}\u{85}\u{9b}\u{200f}\u{2028}\u{2029}\u{202e}\u{2066}\u{feff}\u{ffff}";
        assert!(steering.chars().all(is_hidden));
        let left = "llama-3.1 `$(x)` \"'\\ # é 模型 \u{200d} 🦙 \u{fffd}";
        assert_eq!(shown(left), left);
        assert_eq!(shown("a\nb\u{1b}[2J"), "a\\u000ab\\u001b[2J");
        assert!((char::MIN..=char::MAX).filter(|c| is_hidden(*c)).all(|c| (c as u32) < 0x1_0000));
        assert_eq!(shown_but("a\tb\r", |c| c == '\t'), "a\tb\\u000d");
    }
}
