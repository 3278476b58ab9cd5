//! Going through the text of a script: blanks, comments, ends of lines, here-documents and reserved words.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use super::super::SyntaxError;
use super::tree::Word;

/// Commands, quotes and expansions inside each other at the most.
const DEEPEST: usize = 48;

/// Characters that end a word unless they are quoted.
pub const META: &[char] = &[' ', '\t', '\n', '\r', ';', '&', '|', '(', ')', '<', '>'];

/// Reads a script.
pub struct Parser<'a> {
    pub text: &'a str,
    pub at: usize,
    /// Where the text's first byte is among those of all files.
    base: usize,
    /// The place of all that is read, where the text stands in no file as it is.
    fixed: Option<Range<usize>>,
    depth: usize,
    /// Here-documents that begin behind this line.
    pub pending: Vec<Pending>,
    /// Variables that are set somewhere.
    pub names: BTreeSet<String>,
}

/// A here-document whose text is still to come.
pub struct Pending {
    pub delimiter: String,
    pub strips_tabs: bool,
    pub is_quoted: bool,
    pub body: Rc<OnceCell<Word>>,
}

impl<'a> Parser<'a> {
    pub const fn new(text: &'a str, base: usize, fixed: Option<Range<usize>>) -> Self {
        Self { text, at: 0, base, fixed, depth: 0, pending: Vec::new(), names: BTreeSet::new() }
    }

    /// A parser of `text` at the same depth, whose places are all `span`.
    pub fn inside<'t>(&self, text: &'t str, span: Range<usize>) -> Parser<'t> {
        Parser {
            text,
            at: 0,
            base: 0,
            fixed: Some(span),
            depth: self.depth,
            pending: Vec::new(),
            names: BTreeSet::new(),
        }
    }

    /// The place of bytes `start` to `end`.
    pub fn span(&self, start: usize, end: usize) -> Range<usize> {
        self.fixed.clone().unwrap_or(self.base + start..self.base + end)
    }

    /// Whether places are those of the bytes read.
    pub const fn is_exact(&self) -> bool {
        self.fixed.is_none()
    }

    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Takes `text` if it is next.
    pub fn takes(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    pub fn error(&self, at: usize, reason: impl Into<String>) -> SyntaxError {
        SyntaxError::at(self.text, at, reason)
    }

    /// Reads something that may hold itself.
    pub fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.depth >= DEEPEST {
            return Err(SyntaxError::TooDeep {
                line: super::super::line_of(self.text, self.at),
                deepest: DEEPEST,
            });
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// An end of a line behind a backslash, of any system.
    pub fn takes_continuation(&mut self) -> bool {
        self.takes("\\\r\n") || self.takes("\\\n")
    }

    /// Goes over blanks, comments and escaped ends of lines, and not over ends of lines.
    pub fn blanks(&mut self) {
        loop {
            if self.takes_continuation() {
                continue;
            }
            match self.peek() {
                Some('\n') => return,
                Some('#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                Some(blank) if blank.is_whitespace() => {
                    self.next();
                }
                _ => return,
            }
        }
    }

    /// Goes over blanks, comments and ends of lines.
    pub fn lines(&mut self) -> Result<(), SyntaxError> {
        loop {
            self.blanks();
            if !self.line_end()? {
                return Ok(());
            }
        }
    }

    /// Takes the end of a line and the here-documents behind it.
    pub fn line_end(&mut self) -> Result<bool, SyntaxError> {
        if !self.takes("\n") {
            return Ok(false);
        }
        for pending in std::mem::take(&mut self.pending) {
            self.here_document(pending)?;
        }
        Ok(true)
    }

    fn here_document(&mut self, pending: Pending) -> Result<(), SyntaxError> {
        let start = self.at;
        let mut body = String::new();
        loop {
            let rest = self.rest();
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            let line = &rest[..length];
            let shown = if pending.strips_tabs { line.trim_start_matches('\t') } else { line };
            self.at += length;
            if shown.trim_end_matches(['\n', '\r']) == pending.delimiter || length == 0 {
                break;
            }
            body.push_str(shown);
        }
        let span = self.span(start, self.at);
        let word = match pending.is_quoted {
            true => Word { parts: vec![super::words::plain(body, span.clone())], span },
            false => {
                let parts = self.inside(&body, span.clone()).here()?;
                Word { parts, span }
            }
        };
        // It is set once, as each document is read once.
        let _ = pending.body.set(word);
        Ok(())
    }

    /// The bare word that is next, where a reserved word may stand.
    pub fn bare(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(META).unwrap_or(rest.len())]
    }

    /// Takes `word` if it is next as a word of its own.
    pub fn takes_word(&mut self, word: &str) -> bool {
        self.bare() == word && self.takes(word)
    }
}
