//! Splits PTX into words and signs, each with its line.

use crate::fault::{Fault, fault};

#[derive(Clone, Debug)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// Words hold letters, digits and `_ $ % .`, and `::` inside; everything else is a sign of its own.
pub fn tokens(text: &str) -> Result<Vec<Token>, Fault> {
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    let is_word = |at: usize| {
        characters.get(at).is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.'))
    };
    let pair = |at: usize, first: char, second: char| {
        characters[at] == first && characters.get(at + 1) == Some(&second)
    };
    while at < characters.len() {
        let start = at;
        if characters[at] == '\n' {
            line += 1;
            at += 1;
        } else if characters[at].is_whitespace() || characters[at] == '\0' {
            at += 1;
        } else if pair(at, '/', '/') {
            while at < characters.len() && characters[at] != '\n' {
                at += 1;
            }
        } else if pair(at, '/', '*') {
            while at < characters.len() && !pair(at, '*', '/') {
                line += usize::from(characters[at] == '\n');
                at += 1;
            }
            at += 2;
        } else if characters[at] == '"' {
            at += 1;
            while at < characters.len() && characters[at] != '"' {
                at += 1;
            }
            at += 1;
            tokens.push(Token { text: "\"\"".into(), line });
        } else if is_word(at) {
            while is_word(at) || (at + 2 < characters.len() && pair(at, ':', ':') && is_word(at + 2)) {
                at += if characters[at] == ':' { 2 } else { 1 };
            }
            tokens.push(Token { text: characters[start..at].iter().collect(), line });
        } else if ",;{}[]()|!@+-<>=:".contains(characters[at]) {
            at += 1;
            tokens.push(Token { text: characters[start].to_string(), line });
        } else {
            return fault(format!("PTX line {line}: the character {:?} isn't understood", characters[at]));
        }
    }
    Ok(tokens)
}
