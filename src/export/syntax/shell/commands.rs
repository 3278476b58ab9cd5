//! Commands of a script: lists, pipelines, and commands by their names.

use std::cell::OnceCell;
use std::rc::Rc;

use super::super::SyntaxError;
use super::parameters::is_name;
use super::scan::{Parser, Pending};
use super::tree::{
    AndOr, Argument, Assigned, Assignment, Command, Element, Join, Kind, List, Part, Pipeline, Redirect,
    Simple,
};

/// Words that end a list where a command could begin.
const ENDS: &[&str] = &["then", "else", "elif", "fi", "do", "done", "esac", "}"];

/// Commands whose arguments may be assignments.
const DECLARATIONS: &[&str] = &["export", "local", "readonly", "declare", "typeset"];

impl Parser<'_> {
    /// Commands up to what ends their list.
    pub fn list(&mut self) -> Result<List, SyntaxError> {
        let mut list = Vec::new();
        loop {
            self.lines()?;
            while self.rest().starts_with(';')
                && !self.rest().starts_with(";;")
                && !self.rest().starts_with(";&")
            {
                self.next();
                self.lines()?;
            }
            let rest = self.rest();
            let is_over = rest.is_empty() || rest.starts_with([')', ';']) || ENDS.contains(&self.bare());
            if is_over {
                return Ok(List(list));
            }
            let start = self.at;
            list.push(self.and_or()?);
            self.blanks();
            if self.rest().starts_with('&') && !self.rest().starts_with("&&") {
                self.next();
            }
            if self.at == start {
                return Err(self.error(start, "it is no command of a shell"));
            }
        }
    }

    fn and_or(&mut self) -> Result<AndOr, SyntaxError> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.blanks();
            let join = match () {
                () if self.takes("&&") => Join::And,
                () if self.takes("||") => Join::Or,
                () => return Ok(AndOr { first, rest }),
            };
            self.lines()?;
            rest.push((join, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline, SyntaxError> {
        let mut is_negated = false;
        loop {
            self.blanks();
            if self.takes_word("!") {
                is_negated = !is_negated;
            } else if !self.takes_word("time") {
                break;
            }
        }
        let mut commands = vec![self.nested(Self::command)?];
        loop {
            self.blanks();
            if self.rest().starts_with("||") || !(self.takes("|&") || self.takes("|")) {
                return Ok(Pipeline { is_negated, commands });
            }
            self.lines()?;
            commands.push(self.nested(Self::command)?);
        }
    }

    fn command(&mut self) -> Result<Command, SyntaxError> {
        let start = self.at;
        let at = self.span(start, start).start;
        let mut redirects = Vec::new();
        let kind = match self.compound()? {
            Some(kind) => kind,
            None => self.simple(&mut redirects)?,
        };
        // A function's body is a command with redirections of its own.
        if !matches!(kind, Kind::Simple(_)) {
            self.blanks();
            while self.redirect(&mut redirects)? {
                self.blanks();
            }
        }
        Ok(Command { kind, at, redirects })
    }

    fn simple(&mut self, redirects: &mut Vec<Redirect>) -> Result<Kind, SyntaxError> {
        let mut simple = Simple::default();
        let mut declares = false;
        loop {
            self.blanks();
            if self.redirect(redirects)? {
                continue;
            }
            let is_end = |c: char| matches!(c, '\n' | ';' | '&' | '|' | ')');
            if self.peek().is_none_or(is_end) {
                return Ok(Kind::Simple(simple));
            }
            if (simple.arguments.is_empty() || declares)
                && let Some(assignment) = self.assignment()?
            {
                match declares {
                    true => simple.arguments.push(Argument::Assignment(assignment)),
                    false => simple.assignments.push(assignment),
                }
                continue;
            }
            let start = self.at;
            let word = self.word()?;
            if self.at == start {
                return Err(self.error(start, "a command, a quote or an array is not closed before this"));
            }
            if simple.arguments.is_empty() {
                let name = match word.parts.as_slice() {
                    [Part::Text { text, is_quoted: false, .. }] => text.as_str(),
                    _ => "",
                };
                declares = DECLARATIONS.contains(&name);
                self.blanks();
                if simple.assignments.is_empty() && !name.is_empty() && self.takes("(") {
                    return self.function(name.to_owned(), start);
                }
            }
            simple.arguments.push(Argument::Word(word));
        }
    }

    /// What stands behind the name of a function and its first parenthesis.
    fn function(&mut self, name: String, start: usize) -> Result<Kind, SyntaxError> {
        self.blanks();
        if !self.takes(")") {
            return Err(self.error(start, "a parenthesis stands where a shell knows none"));
        }
        self.lines()?;
        let body = Rc::new(self.nested(Self::command)?);
        Ok(Kind::Function { name, body })
    }

    /// `function name { … }`, behind its first word.
    pub fn named_function(&mut self) -> Result<Kind, SyntaxError> {
        self.blanks();
        let name = self.bare().to_owned();
        self.at += name.len();
        self.blanks();
        if self.takes("(") {
            self.blanks();
            self.takes(")");
        }
        self.lines()?;
        let body = Rc::new(self.nested(Self::command)?);
        Ok(Kind::Function { name, body })
    }

    /// `NAME=value`, `NAME+=value`, `NAME[index]=value` or one with an array.
    fn assignment(&mut self) -> Result<Option<Assignment>, SyntaxError> {
        let start = self.at;
        let rest = self.rest();
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        if length == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return Ok(None);
        }
        let name = rest[..length].to_owned();
        self.at += length;
        let mut index = None;
        if self.takes("[") {
            let word = self.until(&[']', '\n'], true)?;
            if self.takes("]") {
                index = Some(word);
            }
        }
        let is_more = self.takes("+=");
        if !is_more && !self.takes("=") {
            self.at = start;
            return Ok(None);
        }
        self.names.insert(name.clone());
        let value = match self.takes("(") {
            true => Assigned::Array(self.nested(|parser| parser.elements(start))?),
            false => Assigned::Scalar(self.word()?),
        };
        Ok(Some(Assignment { name, index, is_more, value, span: self.span(start, self.at) }))
    }

    /// The elements of an array, whose parenthesis is open.
    fn elements(&mut self, start: usize) -> Result<Vec<Element>, SyntaxError> {
        let mut elements = Vec::new();
        loop {
            self.lines()?;
            if self.takes(")") {
                return Ok(elements);
            }
            let here = self.at;
            let mut index = None;
            if self.takes("[") {
                let word = self.until(&[']', '\n', ')'], true)?;
                match self.takes("]=") {
                    true => index = Some(word),
                    false => self.at = here,
                }
            }
            let value = self.word()?;
            if self.at == here {
                return Err(self.error(start, "the array is not closed"));
            }
            elements.push(Element { index, value });
        }
    }

    /// A redirection, if one is next.
    fn redirect(&mut self, redirects: &mut Vec<Redirect>) -> Result<bool, SyntaxError> {
        let start = self.at;
        self.at += self.rest().find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        if self.rest().starts_with("<(") || self.rest().starts_with(">(") {
            self.at = start;
            return Ok(false);
        }
        if self.takes("<<<") {
            self.blanks();
            redirects.push(Redirect::HereString(self.word()?));
        } else if self.takes("<<") {
            let strips_tabs = self.takes("-");
            self.blanks();
            let word = self.word()?;
            let is_quoted = !matches!(word.parts.as_slice(), [Part::Text { is_quoted: false, .. }]);
            let body = Rc::new(OnceCell::new());
            let delimiter = word.parts.iter().map(bare).collect();
            self.pending.push(Pending { delimiter, strips_tabs, is_quoted, body: Rc::clone(&body) });
            redirects.push(Redirect::Here(body));
        } else if let Some(sign) =
            ["&>>", "&>", ">>", ">|", ">&", "<&", "<>", ">", "<"].iter().find(|sign| self.takes(sign))
        {
            let number = self.text[start..self.at].trim_end_matches(*sign);
            let takes_output = !sign.starts_with('<') && matches!(number, "" | "1");
            self.blanks();
            self.word()?;
            redirects.push(Redirect::File { takes_output });
        } else {
            self.at = start;
            return Ok(false);
        }
        Ok(true)
    }
}

/// The text of a part as it stands.
fn bare(part: &Part) -> String {
    match part {
        Part::Text { text, .. } => text.clone(),
        Part::Double(parts) => parts.iter().map(bare).collect(),
        _ => String::new(),
    }
}
