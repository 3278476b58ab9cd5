//! Patterns of a shell: `*`, `?`, `[…]`, and what is quoted in them.

use super::value::{Piece, Text};

/// A pattern, one token a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(Vec<Token>);

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Is(char),
    Any,
    Run,
    OneOf { is_negated: bool, ranges: Vec<(char, char)>, classes: Vec<fn(char) -> bool> },
}

impl Pattern {
    /// The pattern of `text`, whose quoted pieces are themselves; none if not all of it is known.
    pub fn of(text: &Text) -> Option<Self> {
        let mut letters = Vec::new();
        for piece in &text.pieces {
            let Piece::Known { text, is_quoted, .. } = piece else { return None };
            letters.extend(text.chars().map(|letter| (letter, *is_quoted)));
        }
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&(letter, is_quoted)) = letters.get(at) {
            at += 1;
            let token = match letter {
                _ if is_quoted => Token::Is(letter),
                '*' => Token::Run,
                '?' => Token::Any,
                '[' => match one_of(&letters[at..]) {
                    Some((token, length)) => {
                        at += length;
                        token
                    }
                    None => Token::Is('['),
                },
                _ => Token::Is(letter),
            };
            if token != Token::Run || tokens.last() != Some(&Token::Run) {
                tokens.push(token);
            }
        }
        Some(Self(tokens))
    }

    /// Whether all of `text` is of the pattern.
    pub fn matches(&self, text: &[char]) -> bool {
        self.ends(text).last() == Some(&text.len())
    }

    /// Where what it matches at the beginning of `text` may end, in order.
    pub fn ends(&self, text: &[char]) -> Vec<usize> {
        // The places that the tokens so far can have come to.
        let mut places = vec![false; text.len() + 1];
        places[0] = true;
        for token in &self.0 {
            if *token == Token::Run {
                if let Some(first) = places.iter().position(|is| *is) {
                    places[first..].fill(true);
                }
                continue;
            }
            for at in (0..text.len()).rev() {
                places[at + 1] = places[at] && token.takes(text[at]);
            }
            places[0] = false;
        }
        places.iter().enumerate().filter(|(_, is)| **is).map(|(at, _)| at).collect()
    }
}

impl Token {
    fn takes(&self, letter: char) -> bool {
        match self {
            Self::Is(own) => *own == letter,
            Self::Any | Self::Run => true,
            Self::OneOf { is_negated, ranges, classes } => {
                let is_in = ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter));
                (is_in || classes.iter().any(|is| is(letter))) != *is_negated
            }
        }
    }
}

/// A class behind its bracket, and how many letters it takes.
fn one_of(letters: &[(char, bool)]) -> Option<(Token, usize)> {
    let letter = |at: usize| letters.get(at).map(|(letter, _)| *letter);
    let is_negated = matches!(letter(0), Some('!' | '^'));
    let mut at = usize::from(is_negated);
    let (mut ranges, mut classes) = (Vec::new(), Vec::new());
    let start = at;
    loop {
        let first = letter(at)?;
        if first == ']' && at > start {
            return Some((Token::OneOf { is_negated, ranges, classes }, at + 1));
        }
        if first == '[' && letter(at + 1) == Some(':') {
            let name: String =
                letters[at + 2..].iter().map(|(letter, _)| *letter).take_while(|c| *c != ':').collect();
            classes.push(class(&name)?);
            at += name.len() + 4;
        } else if letter(at + 1) == Some('-') && letter(at + 2).is_some_and(|last| last != ']') {
            ranges.push((first, letter(at + 2)?));
            at += 3;
        } else {
            ranges.push((first, first));
            at += 1;
        }
    }
}

fn class(name: &str) -> Option<fn(char) -> bool> {
    Some(match name {
        "digit" => |c| c.is_ascii_digit(),
        "alpha" => char::is_alphabetic,
        "alnum" => char::is_alphanumeric,
        "space" => char::is_whitespace,
        "blank" => |c| matches!(c, ' ' | '\t'),
        "upper" => char::is_uppercase,
        "lower" => char::is_lowercase,
        "punct" => |c| c.is_ascii_punctuation(),
        _ => return None,
    })
}
