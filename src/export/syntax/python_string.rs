//! Strings of Python: what one between quotes says.

/// The text of a string with its quotes, escapes read.
pub fn text(source: &str) -> String {
    let close = if source.starts_with("\"\"\"") || source.starts_with("'''") { 3 } else { 1 };
    let mut rest = source.get(close..source.len().saturating_sub(close)).unwrap_or_default();
    let mut text = String::with_capacity(rest.len());
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let (meant, length) = meaning(escape);
        match meant {
            Some(meant) => text.push_str(&meant),
            // An escape that means nothing is itself.
            None => text.push_str(&rest[at..at + 1 + length]),
        }
        rest = &escape[length..];
    }
    text + rest
}

/// The character that the text after a backslash means, and how many bytes of it there are.
fn meaning(escape: &str) -> (Option<String>, usize) {
    let Some(first) = escape.chars().next() else { return (None, 0) };
    let one = |c: char| (Some(c.to_string()), 1);
    match first {
        '\n' => (Some(String::new()), 1),
        '\\' | '\'' | '"' => one(first),
        'a' => one('\u{7}'),
        'b' => one('\u{8}'),
        'f' => one('\u{c}'),
        'n' => one('\n'),
        'r' => one('\r'),
        't' => one('\t'),
        'v' => one('\u{b}'),
        'x' => number(escape, 1, 2, 16),
        'u' => number(escape, 1, 4, 16),
        'U' => number(escape, 1, 8, 16),
        '0'..='7' => {
            let digits = escape.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
            number(escape, 0, digits, 8)
        }
        other => (None, other.len_utf8()),
    }
}

/// The character whose number is in `digits` places of `escape` from `start`.
fn number(escape: &str, start: usize, digits: usize, radix: u32) -> (Option<String>, usize) {
    let places = escape
        .get(start..start + digits)
        .filter(|places| places.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let code = places.and_then(|places| u32::from_str_radix(places, radix).ok());
    match code.and_then(char::from_u32) {
        Some(c) => (Some(c.to_string()), start + digits),
        None => (None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_as_python_reads_them() {
        for (source, meant) in [
            (r#""a\n\t\\n\"'""#, "a\n\t\\n\"'"),
            (r"'\x41\u00e9\U0001f999\101\0'", "Aé🦙A\0"),
            (r"'\d\N{DASH}\ud800'", r"\d\N{DASH}\ud800"),
            ("'''a\\\nb'''", "ab"),
            ("\"\"", ""),
        ] {
            assert_eq!(text(source), meant, "{source}");
        }
    }
}
