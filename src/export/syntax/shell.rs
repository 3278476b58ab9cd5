//! The words of a shell script or line, with quotes taken off and the variables that the text sets put in.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::SyntaxError;
use super::shell_string::escape;

/// One word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Without quotes.
    pub text: String,
    /// Bytes of it in the script, quotes included.
    pub span: Range<usize>,
    /// It stands behind a line's end that is not escaped.
    pub begins_line: bool,
    /// Something in it is known to the shell only.
    pub is_open: bool,
    /// It stands for all of a list, as `"${ARGS[@]}"`.
    pub is_list: bool,
}

impl Word {
    /// Whether it ends a command.
    pub fn is_separator(&self) -> bool {
        matches!(self.text.as_str(), "|" | "||" | "&" | "&&" | ";" | "(" | ")" | "{" | "}" | ">" | "<" | ">>")
    }
}

/// All words of `text`.
///
/// # Errors
/// If a quote is not closed.
pub fn words(text: &str) -> Result<Vec<Word>, SyntaxError> {
    let mut splitter = Splitter {
        text,
        at: 0,
        words: Vec::new(),
        variables: HashMap::new(),
        lists: HashSet::new(),
        begins_line: true,
        left: MOST_PUT_IN,
    };
    splitter.all()?;
    Ok(splitter.words)
}

/// Bytes of variables that are put in at the most: a short script can name one twice in the next, thirty times over.
const MOST_PUT_IN: usize = 1 << 20;

struct Splitter<'a> {
    text: &'a str,
    at: usize,
    words: Vec<Word>,
    variables: HashMap<String, String>,
    /// Variables whose words were read where they are set.
    lists: HashSet<String>,
    begins_line: bool,
    /// Bytes of variables that may still be put in.
    left: usize,
}

impl Splitter<'_> {
    fn all(&mut self) -> Result<(), SyntaxError> {
        while self.skip_blanks() {
            if !self.argument_string()? {
                self.word()?;
            }
        }
        Ok(())
    }

    /// `NAME="--one 1 --two 2"`, which an unquoted `$NAME` hands over as several words: these are read here, where they
    /// stand. False where something else is next.
    fn argument_string(&mut self) -> Result<bool, SyntaxError> {
        let rest = &self.text[self.at..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())];
        let Some(quote) = rest[name.len()..].strip_prefix('=').and_then(|value| value.chars().next()) else {
            return Ok(false);
        };
        if name.is_empty() || !matches!(quote, '"' | '\'') {
            return Ok(false);
        }
        let start = self.at + name.len() + 2;
        let inside = &self.text[start..];
        let Some(length) = inside.find(quote) else { return Ok(false) };
        if !inside[..length].split_whitespace().any(|word| word.starts_with("--")) {
            return Ok(false);
        }
        let mut inner = Splitter {
            text: &self.text[..start + length],
            at: start,
            words: Vec::new(),
            variables: std::mem::take(&mut self.variables),
            lists: std::mem::take(&mut self.lists),
            begins_line: true,
            left: self.left,
        };
        inner.all()?;
        // Inside quotes the end of a line is a blank.
        inner.words.iter_mut().skip(1).for_each(|word| word.begins_line = false);
        self.words.append(&mut inner.words);
        (self.variables, self.lists, self.left) = (inner.variables, inner.lists, inner.left);
        self.lists.insert(name.to_owned());
        self.at = start + length + 1;
        self.begins_line = true;
        Ok(true)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Goes to the next word; false at the end.
    fn skip_blanks(&mut self) -> bool {
        while let Some(next) = self.peek() {
            match next {
                '\n' => self.begins_line = true,
                '\\' if self.text[self.at + 1..].starts_with(['\n', '\r']) => {
                    self.at += 1;
                    if self.peek() == Some('\r') {
                        self.at += 1;
                    }
                }
                '#' => {
                    self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
                    continue;
                }
                blank if blank.is_whitespace() => {}
                _ => return true,
            }
            self.next();
        }
        false
    }

    fn word(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        let mut word = Word {
            text: String::new(),
            span: start..start,
            begins_line: std::mem::take(&mut self.begins_line),
            is_open: false,
            is_list: false,
        };
        while let Some(next) = self.peek() {
            match next {
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '`' => {
                    word.is_open = true;
                    word.text.push(next);
                    self.next();
                }
                '$' if self.text[self.at + 1..].starts_with('\'') => self.spelt(&mut word)?,
                '$' => self.variable(&mut word),
                '\\' if self.text[self.at + 1..].starts_with(['\n', '\r']) => break,
                '\\' => {
                    self.next();
                    word.text.extend(self.next());
                }
                '(' | ')' | ';' | '|' | '&' if word.span.start == self.at => {
                    word.text.extend(self.next());
                    if self.peek() == Some(next) && matches!(next, '|' | '&') {
                        word.text.extend(self.next());
                    }
                    break;
                }
                '(' | ')' | ';' | '|' | '&' => break,
                blank if blank.is_whitespace() => break,
                other => {
                    word.text.push(other);
                    self.next();
                }
            }
        }
        word.span.end = self.at;
        self.remember(&word);
        self.words.push(word);
        Ok(())
    }

    /// A variable that the word sets.
    fn remember(&mut self, word: &Word) {
        if word.is_open {
            return;
        }
        if let Some((name, value)) = word.text.split_once('=')
            && !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
    }

    fn single_quoted(&mut self, word: &mut Word) -> Result<(), SyntaxError> {
        let start = self.at;
        self.next();
        let rest = &self.text[self.at..];
        let end =
            rest.find('\'').ok_or_else(|| SyntaxError::at(self.text, start, "the quote ' is not closed"))?;
        word.text.push_str(&rest[..end]);
        self.at += end + 1;
        Ok(())
    }

    /// `$'…'`, in which backslashes spell characters.
    fn spelt(&mut self, word: &mut Word) -> Result<(), SyntaxError> {
        let start = self.at;
        self.at += 2;
        let mut bytes = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let not_closed = || SyntaxError::at(self.text, start, "the quote $' is not closed");
            let next = rest.chars().next().ok_or_else(not_closed)?;
            self.at += next.len_utf8();
            match next {
                '\'' => break,
                '\\' => self.at += escape(&rest[1..], &mut bytes),
                other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        word.text.push_str(&String::from_utf8_lossy(&bytes));
        Ok(())
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), SyntaxError> {
        let start = self.at;
        self.next();
        loop {
            match self.peek() {
                None => return Err(SyntaxError::at(self.text, start, "the quote \" is not closed")),
                Some('"') => {
                    self.next();
                    return Ok(());
                }
                Some('$') => self.variable(word),
                Some('\\') => {
                    self.next();
                    match self.next() {
                        Some('\n') => {}
                        Some(escaped) => {
                            if !matches!(escaped, '"' | '\\' | '$' | '`') {
                                word.text.push('\\');
                            }
                            word.text.push(escaped);
                        }
                        None => {}
                    }
                }
                Some('`') => {
                    word.is_open = true;
                    word.text.extend(self.next());
                }
                Some(other) => {
                    word.text.push(other);
                    self.next();
                }
            }
        }
    }

    /// `$NAME`, `${NAME}`, `$(command)` and the like.
    fn variable(&mut self, word: &mut Word) {
        let start = self.at;
        self.next();
        let rest = &self.text[self.at..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = match rest.chars().next() {
            Some('{') => {
                let end = rest.find('}').map_or(rest.len(), |end| end + 1);
                self.at += end;
                rest[1..end].trim_end_matches('}')
            }
            Some('(') => {
                let mut depth = 0_usize;
                let end = rest.char_indices().find(|(_, c)| {
                    match c {
                        '(' => depth += 1,
                        ')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    depth == 0
                });
                self.at += end.map_or(rest.len(), |(at, _)| at + 1);
                ""
            }
            _ => {
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                self.at += end;
                &rest[..end]
            }
        };
        if name.ends_with("[@]") || name.ends_with("[*]") || name == "@" {
            word.is_list = true;
        }
        if self.lists.contains(name) {
            word.is_list = true;
            return;
        }
        match self.variables.get(name).filter(|value| value.len() <= self.left) {
            Some(value) => {
                self.left -= value.len();
                word.text.push_str(value);
            }
            None => {
                word.is_open = true;
                word.text.push_str(&self.text[start..self.at]);
            }
        }
    }
}
