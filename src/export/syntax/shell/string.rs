//! Strings of the shell that begin with `$'`: what a backslash spells.

/// Adds what `escape`, the text after a backslash of `$'…'`, begins with; how many bytes of it that is.
pub fn escape(escape: &str, bytes: &mut Vec<u8>) -> usize {
    let Some(first) = escape.chars().next() else { return 0 };
    let digits = |from: usize, most: usize, radix: u32| {
        escape[from..].chars().take(most).take_while(|c| c.is_digit(radix)).count()
    };
    let (start, most, radix) = match first {
        '0'..='7' => (0, 3, 8),
        'x' => (1, 2, 16),
        'u' => (1, 4, 16),
        'U' => (1, 8, 16),
        other => {
            let meant = match other {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'e' | 'E' => '\u{1b}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                '\\' | '\'' | '"' | '?' => other,
                _ => {
                    bytes.push(b'\\');
                    other
                }
            };
            bytes.extend(meant.encode_utf8(&mut [0; 4]).bytes());
            return other.len_utf8();
        }
    };
    let length = digits(start, most, radix);
    let Ok(code) = u32::from_str_radix(&escape[start..start + length], radix) else {
        bytes.extend([b'\\', first as u8]);
        return 1;
    };
    match char::from_u32(code).filter(|_| most > 3) {
        Some(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        // Octal and short hexadecimal numbers are bytes.
        None => bytes.push(code as u8),
    }
    start + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_read_as_a_shell_reads_them() {
        let read = |source: &str| {
            let mut bytes = Vec::new();
            let length = escape(source, &mut bytes);
            (String::from_utf8(bytes).unwrap(), length)
        };
        for (source, meant, length) in [
            ("n1", "\n", 1),
            ("0121", "\n", 3),
            ("x41B", "A", 3),
            ("u2028", "\u{2028}", 5),
            ("'", "'", 1),
            ("\\", "\\", 1),
            ("xyz", "\\x", 1),
            ("dé", "\\d", 1),
            ("é", "\\é", 2),
            ("", "", 0),
        ] {
            assert_eq!(read(source), (meant.to_owned(), length), "{source}");
        }
    }
}
