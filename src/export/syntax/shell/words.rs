//! Words of a script: quotes, and what a dollar begins.

use std::ops::Range;
use std::rc::Rc;

use super::super::SyntaxError;
use super::scan::{META, Parser};
use super::string::escape;
use super::tree::{Part, Word};

/// Text that is what it is.
pub const fn plain(text: String, span: Range<usize>) -> Part {
    Part::Text { text, span, is_quoted: true, is_exact: false }
}

impl Parser<'_> {
    /// The word that is next; it may be empty.
    pub fn word(&mut self) -> Result<Word, SyntaxError> {
        let start = self.at;
        let mut parts = Vec::new();
        while let Some(next) = self.peek() {
            if self.takes_continuation() {
                break;
            }
            let is_process = matches!(next, '<' | '>') && self.rest()[1..].starts_with('(');
            if META.contains(&next) && !is_process {
                break;
            }
            self.part(&mut parts, META)?;
        }
        Ok(Word { parts, span: self.span(start, self.at) })
    }

    /// One more part; bare text goes up to one of `ends`.
    fn part(&mut self, parts: &mut Vec<Part>, ends: &[char]) -> Result<(), SyntaxError> {
        let start = self.at;
        match self.peek() {
            Some('\'') => {
                let text = self.single()?;
                let span = self.span(start + 1, self.at - 1);
                let is_exact = self.is_exact();
                parts.push(Part::Text { text, span, is_quoted: true, is_exact });
            }
            Some('"') => {
                self.next();
                let inside = self.nested(|parser| parser.double(start))?;
                parts.push(Part::Double(inside));
            }
            Some('\\') => {
                self.next();
                if let Some(next) = self.next() {
                    parts.push(plain(next.to_string(), self.span(start, self.at)));
                }
            }
            Some('$' | '`') => match self.dollar(false)? {
                Some(part) => parts.push(part),
                None => self.bare_text(parts, &['$']),
            },
            Some('<' | '>') if self.rest()[1..].starts_with('(') => {
                self.at += 2;
                self.nested(Self::list)?;
                self.closes(start)?;
                parts.push(Part::Process { span: self.span(start, self.at) });
            }
            _ => self.bare_text(parts, ends),
        }
        Ok(())
    }

    /// Bare text up to one of `ends` or what has a meaning; at least one character.
    fn bare_text(&mut self, parts: &mut Vec<Part>, ends: &[char]) {
        let start = self.at;
        self.next();
        let is_end = |c: char| ends.contains(&c) || matches!(c, '\'' | '"' | '\\' | '$' | '`');
        self.at += self.rest().find(is_end).unwrap_or(self.rest().len());
        let text = self.text[start..self.at].to_owned();
        let (span, is_exact) = (self.span(start, self.at), self.is_exact());
        parts.push(Part::Text { text, span, is_quoted: false, is_exact });
    }

    fn single(&mut self) -> Result<String, SyntaxError> {
        let start = self.at;
        self.next();
        let end = self.rest().find('\'').ok_or_else(|| self.error(start, "the quote ' is not closed"))?;
        let text = self.rest()[..end].to_owned();
        self.at += end + 1;
        Ok(text)
    }

    /// `'…'` behind a dollar, in which backslashes spell characters.
    fn spelt(&mut self) -> Result<Part, SyntaxError> {
        let start = self.at;
        self.at += 2;
        let mut bytes = Vec::new();
        loop {
            let rest = self.rest();
            match self.next() {
                None => return Err(self.error(start, "the quote $' is not closed")),
                Some('\'') => break,
                Some('\\') => self.at += escape(&rest[1..], &mut bytes),
                Some(other) => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        Ok(plain(String::from_utf8_lossy(&bytes).into_owned(), self.span(start, self.at)))
    }

    /// What stands in double quotes, of which the first is read.
    fn double(&mut self, start: usize) -> Result<Vec<Part>, SyntaxError> {
        let parts = self.quoted_until(|parser| parser.rest().starts_with('"'))?;
        match self.takes("\"") {
            true => Ok(parts),
            false => Err(self.error(start, "the quote \" is not closed")),
        }
    }

    /// The text of a here-document, in which quotes are themselves.
    pub fn here(&mut self) -> Result<Vec<Part>, SyntaxError> {
        self.nested(|parser| parser.quoted_until(|_| false))
    }

    /// Text and expansions as in double quotes, up to `is_end` or the end of the text.
    pub fn quoted_until(&mut self, is_end: impl Fn(&Self) -> bool) -> Result<Vec<Part>, SyntaxError> {
        let mut parts = Vec::new();
        let mut start = self.at;
        loop {
            let here = self.at;
            let is_over = self.peek().is_none() || is_end(self);
            let is_part = matches!(self.peek(), Some('$' | '`' | '\\')) && !is_over;
            if (is_over || is_part) && here > start {
                let text = self.text[start..here].to_owned();
                let (span, is_exact) = (self.span(start, here), self.is_exact());
                parts.push(Part::Text { text, span, is_quoted: true, is_exact });
            }
            if is_over {
                return Ok(parts);
            }
            if !is_part {
                self.next();
                continue;
            }
            if self.takes_continuation() {
                start = self.at;
                continue;
            }
            start = here;
            if self.takes("\\") {
                // Before anything else the backslash is itself.
                if let Some(escaped @ ('"' | '\\' | '$' | '`')) = self.peek() {
                    self.next();
                    parts.push(plain(escaped.to_string(), self.span(here, self.at)));
                    start = self.at;
                }
            } else if let Some(part) = self.dollar(true)? {
                parts.push(part);
                start = self.at;
            } else {
                self.next();
            }
        }
    }

    /// What a dollar or a backquote begins; none if it stands for itself.
    fn dollar(&mut self, is_double: bool) -> Result<Option<Part>, SyntaxError> {
        let start = self.at;
        if self.takes("`") {
            return self.backquoted(start).map(Some);
        }
        let mut next = self.rest().chars().skip(1);
        match next.next() {
            Some('\'') if !is_double => self.spelt().map(Some),
            // A text that is translated, which it is not here.
            Some('"') if !is_double => {
                self.at += 2;
                self.nested(|parser| parser.double(start)).map(|parts| Some(Part::Double(parts)))
            }
            Some('(') if next.next() == Some('(') => {
                self.at += 3;
                let expression = self.nested(|parser| parser.arithmetic(start))?;
                Ok(Some(Part::Arithmetic { expression, span: self.span(start, self.at) }))
            }
            Some('(') => {
                self.at += 2;
                let list = self.nested(Self::list)?;
                self.closes(start)?;
                let text = self.text[start..self.at].to_owned();
                Ok(Some(Part::Command { list: Rc::new(list), span: self.span(start, self.at), text }))
            }
            _ => self.nested(|parser| parser.parameter(is_double)),
        }
    }

    /// The parenthesis that closes a list which begins at `start`.
    pub fn closes(&mut self, start: usize) -> Result<(), SyntaxError> {
        self.lines()?;
        match self.takes(")") {
            true => Ok(()),
            false => Err(self.error(start, "the parenthesis is not closed")),
        }
    }

    fn backquoted(&mut self, start: usize) -> Result<Part, SyntaxError> {
        let mut inside = String::new();
        loop {
            match self.next() {
                None => return Err(self.error(start, "the quote ` is not closed")),
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(escaped @ ('`' | '\\' | '$')) => inside.push(escaped),
                    Some(other) => inside.extend(['\\', other]),
                    None => {}
                },
                Some(other) => inside.push(other),
            }
        }
        let span = self.span(start, self.at);
        let mut parser = self.inside(&inside, span.clone());
        let list = parser.nested(Parser::list).map_err(|_| self.error(start, "it is no command"))?;
        Ok(Part::Command { list: Rc::new(list), span, text: self.text[start..self.at].to_owned() })
    }

    /// An expression up to the two parentheses that close it.
    pub fn arithmetic(&mut self, start: usize) -> Result<Word, SyntaxError> {
        let begin = self.at;
        let word = self.expression(&["))"])?;
        match self.takes("))") {
            true => Ok(Word { span: self.span(begin, self.at), ..word }),
            false => Err(self.error(start, "the parentheses are not closed")),
        }
    }

    /// An expression up to one of `ends` outside its own parentheses.
    pub fn expression(&mut self, ends: &[&str]) -> Result<Word, SyntaxError> {
        let start = self.at;
        let mut parts = Vec::new();
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            if rest.is_empty() || (depth == 0 && ends.iter().any(|end| rest.starts_with(end))) {
                break;
            }
            match self.peek() {
                Some('$' | '`') => match self.dollar(true)? {
                    Some(part) => parts.push(part),
                    None => self.bare_text(&mut parts, &['$']),
                },
                Some('"') => {
                    self.next();
                }
                Some(next) => {
                    match next {
                        '(' => depth += 1,
                        ')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    let here = self.at;
                    self.next();
                    if next != '\\' {
                        let span = self.span(here, self.at);
                        let text = next.to_string();
                        parts.push(Part::Text { text, span, is_quoted: true, is_exact: false });
                    }
                }
                None => break,
            }
        }
        Ok(Word { parts, span: self.span(start, self.at) })
    }

    /// Parts up to one of `ends`, as in `${name:-…}`: in double quotes only these end a text, and single quotes are
    /// themselves.
    pub fn until(&mut self, ends: &[char], is_double: bool) -> Result<Word, SyntaxError> {
        let start = self.at;
        let mut parts = Vec::new();
        while let Some(next) = self.peek() {
            if ends.contains(&next) {
                break;
            }
            match next {
                '\\' if is_double && !self.rest()[1..].starts_with(['$', '`', '"', '\\', '}', '\n']) => {
                    self.next();
                    parts.push(plain("\\".to_owned(), self.span(self.at - 1, self.at)));
                }
                '$' | '`' if is_double => match self.dollar(true)? {
                    Some(part) => parts.push(part),
                    None => self.bare_text(&mut parts, &['$']),
                },
                '\\' | '"' | '$' | '`' => self.part(&mut parts, ends)?,
                '\'' if !is_double => self.part(&mut parts, ends)?,
                '\'' => {
                    self.next();
                    parts.push(plain("'".to_owned(), self.span(self.at - 1, self.at)));
                }
                _ => self.bare_text(&mut parts, ends),
            }
        }
        Ok(Word { parts, span: self.span(start, self.at) })
    }
}
