//! What stands behind a dollar: the name of a variable, and what is done with its value.

use super::super::SyntaxError;
use super::scan::Parser;
use super::tree::{DefaultKind, Operator, Parameter, Part, Replace, Subscript};

pub fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl Parser<'_> {
    /// `$name` or `${…}`; none if the dollar stands for itself.
    pub fn parameter(&mut self, is_double: bool) -> Result<Option<Part>, SyntaxError> {
        let start = self.at;
        let behind = &self.rest()[1..];
        let Some(first) = behind.chars().next() else { return Ok(None) };
        if first == '{' {
            self.at += 2;
            return self.braced(start, is_double).map(Some);
        }
        let length = self.name_length(behind, false);
        if length == 0 {
            return Ok(None);
        }
        self.at += 1 + length;
        Ok(Some(Part::Parameter(Box::new(Parameter {
            name: behind[..length].to_owned(),
            subscript: None,
            is_indirect: false,
            operator: Operator::None,
            span: self.span(start, self.at),
        }))))
    }

    /// Bytes of the name that `text` begins with: of a variable, an argument's number, or one special sign.
    fn name_length(&self, text: &str, has_braces: bool) -> usize {
        let Some(first) = text.chars().next() else { return 0 };
        let run = |is: fn(char) -> bool| text.find(|c| !is(c)).unwrap_or(text.len());
        match first {
            '0'..='9' if has_braces => run(|c| c.is_ascii_digit()),
            '0'..='9' | '@' | '*' | '#' | '?' | '$' | '!' | '-' => 1,
            first if is_name(first) => run(is_name),
            _ => 0,
        }
    }

    fn braced(&mut self, start: usize, is_double: bool) -> Result<Part, SyntaxError> {
        let rest = self.rest();
        let is_special =
            |text: &str| text.starts_with(['}', ':', '-', '+', '=', '?', '%']) || text.is_empty();
        let is_length = rest.starts_with('#') && !is_special(&rest[1..]);
        let is_indirect = rest.starts_with('!') && !is_special(&rest[1..]);
        self.at += usize::from(is_length || is_indirect);
        let length = self.name_length(self.rest(), true);
        let name = self.rest()[..length].to_owned();
        self.at += length;
        let refused = |parser: &Self| parser.error(start, "it is no variable of a shell");
        if name.is_empty() {
            return Err(refused(self));
        }
        let subscript = match self.takes("[") {
            false => None,
            true => {
                let subscript = match self.rest() {
                    rest if rest.starts_with("@]") => Subscript::All { is_joined: false },
                    rest if rest.starts_with("*]") => Subscript::All { is_joined: true },
                    _ => Subscript::At(self.until(&[']'], true)?),
                };
                self.at += usize::from(matches!(subscript, Subscript::All { .. }));
                if !self.takes("]") {
                    return Err(refused(self));
                }
                Some(subscript)
            }
        };
        let operator = match is_length {
            true => Operator::Length,
            false => self.operator(is_double)?,
        };
        if !self.takes("}") {
            return Err(refused(self));
        }
        let span = self.span(start, self.at);
        Ok(Part::Parameter(Box::new(Parameter { name, subscript, is_indirect, operator, span })))
    }

    fn operator(&mut self, is_double: bool) -> Result<Operator, SyntaxError> {
        let Some(first) = self.peek().filter(|first| *first != '}') else { return Ok(Operator::None) };
        let has_colon = self.rest().starts_with(":-")
            || self.rest().starts_with(":=")
            || self.rest().starts_with(":?")
            || self.rest().starts_with(":+");
        if has_colon {
            self.next();
        }
        let kind = match self.peek() {
            Some('-') => Some(DefaultKind::Value),
            Some('=') => Some(DefaultKind::Assign),
            Some('?') => Some(DefaultKind::Error),
            Some('+') => Some(DefaultKind::Alternative),
            _ => None,
        };
        if let Some(kind) = kind {
            self.next();
            return Ok(Operator::Default { kind, has_colon, word: self.until(&['}'], is_double)? });
        }
        self.next();
        Ok(match first {
            '#' | '%' => {
                let is_longest = self.takes(&first.to_string());
                Operator::Remove { is_prefix: first == '#', is_longest, pattern: self.until(&['}'], false)? }
            }
            '/' => {
                let place = match self.peek() {
                    Some('/') => Replace::All,
                    Some('#') => Replace::Prefix,
                    Some('%') => Replace::Suffix,
                    _ => Replace::First,
                };
                self.at += usize::from(place != Replace::First);
                let pattern = self.until(&['/', '}'], false)?;
                let with = if self.takes("/") { self.until(&['}'], false)? } else { Default::default() };
                Operator::Replace { place, pattern, with }
            }
            ':' => {
                let offset = self.expression(&[":", "}"])?;
                let length = if self.takes(":") { Some(self.expression(&["}"])?) } else { None };
                Operator::Slice { offset, length }
            }
            '^' | ',' => {
                let is_all = self.takes(&first.to_string());
                self.until(&['}'], is_double)?;
                Operator::Case { is_upper: first == '^', is_all }
            }
            _ => {
                self.until(&['}'], is_double)?;
                Operator::Transform
            }
        })
    }
}
