//! Words of commands, as a shell reads them.

use std::fmt::Write as _;

use crate::spelling::hidden::is_hidden;

/// `word` so that a shell takes it as one word, as it is: bare if nothing in it means anything to a shell, in quotes, or
/// as `$'…'` if it holds characters that are not shown (POSIX.1-2024; bash, zsh and ksh for long). A word cannot hold
/// U+0000, for which U+FFFD stands.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,=+@%".contains(c);
    // zsh reads a word that begins with = as the path of a command.
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.chars().any(is_hidden) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let mut text = "$'".to_owned();
    for c in word.chars() {
        match c {
            '\0' => text.push('\u{fffd}'),
            '\'' | '\\' => text.extend(['\\', c]),
            // Bytes, which do not depend on the locale; of octal digits a shell takes three and no more.
            c if is_hidden(c) => {
                for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                    // Nothing fails that writes to a String.
                    let _ = write!(text, "\\{byte:03o}");
                }
            }
            c => text.push(c),
        }
    }
    text + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_bare_quoted_or_spelt() {
        assert_eq!(quoted("llama-3.1_8b"), "llama-3.1_8b");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("it's $(x)"), r"'it'\''s $(x)'");
        assert_eq!(quoted("a\n1'\\"), r"$'a\0121\'\\'");
        assert_eq!(quoted("\u{2028}\0"), "$'\\342\\200\\250\u{fffd}'");
    }
}
