//! Commands that hold others: groups, branches, loops, cases and conditions.

use super::super::SyntaxError;
use super::parameters::is_name;
use super::scan::Parser;
use super::tree::{CaseArm, CaseEnd, Kind, List, Test, Word};

/// Signs between two words of `[[ … ]]`, those first that begin like others.
const SIGNS: &[&str] = &["==", "!=", "=~", "=", "<", ">"];

impl Parser<'_> {
    /// A command that holds others, if one is next.
    pub fn compound(&mut self) -> Result<Option<Kind>, SyntaxError> {
        let start = self.at;
        if self.rest().starts_with("((") {
            self.at += 2;
            return self.arithmetic(start).map(|word| Some(Kind::Arithmetic(word)));
        }
        if self.takes("(") {
            let list = self.list()?;
            self.closes(start)?;
            return Ok(Some(Kind::Subshell(list)));
        }
        let word = self.bare();
        let begins = ["{", "[[", "if", "for", "select", "while", "until", "case", "function"];
        if !begins.contains(&word) {
            return Ok(None);
        }
        self.at += word.len();
        let kind = match word {
            "{" => {
                let list = self.list()?;
                self.expects("}", start)?;
                Kind::Group(list)
            }
            "[[" => {
                let test = self.any_test(start)?;
                self.lines()?;
                self.expects("]]", start)?;
                Kind::Test(test)
            }
            "if" => self.branches(start)?,
            "for" | "select" => self.for_loop(start)?,
            "while" | "until" => {
                let condition = self.list()?;
                let body = self.body(start)?;
                Kind::While { is_negated: word == "until", condition, body }
            }
            "case" => self.case(start)?,
            _ => self.named_function()?,
        };
        Ok(Some(kind))
    }

    /// Takes a reserved word.
    fn expects(&mut self, word: &str, start: usize) -> Result<(), SyntaxError> {
        match self.takes_word(word) {
            true => Ok(()),
            false => Err(self.error(start, format!("`{word}` is missing behind this"))),
        }
    }

    fn branches(&mut self, start: usize) -> Result<Kind, SyntaxError> {
        let mut arms = Vec::new();
        loop {
            let condition = self.list()?;
            self.expects("then", start)?;
            arms.push((condition, self.list()?));
            if self.takes_word("elif") {
                continue;
            }
            let otherwise = if self.takes_word("else") { Some(self.list()?) } else { None };
            self.expects("fi", start)?;
            return Ok(Kind::If { arms, otherwise });
        }
    }

    /// `do … done`.
    fn body(&mut self, start: usize) -> Result<List, SyntaxError> {
        self.lines()?;
        if self.takes(";") {
            self.lines()?;
        }
        self.expects("do", start)?;
        let body = self.list()?;
        self.expects("done", start)?;
        Ok(body)
    }

    fn for_loop(&mut self, start: usize) -> Result<Kind, SyntaxError> {
        self.blanks();
        if self.takes("((") {
            let first = self.expression(&[";"])?;
            self.takes(";");
            let condition = self.expression(&[";"])?;
            self.takes(";");
            let step = self.arithmetic(start)?;
            self.blanks();
            let body = self.body(start)?;
            return Ok(Kind::Count { first, condition, step, body });
        }
        let rest = self.rest();
        let name = rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())].to_owned();
        if name.is_empty() {
            return Err(self.error(start, "the loop has no variable"));
        }
        self.at += name.len();
        self.lines()?;
        let mut words = None;
        if self.takes_word("in") {
            let mut list = Vec::new();
            loop {
                self.blanks();
                let here = self.at;
                let word = self.word()?;
                if self.at == here {
                    break;
                }
                list.push(word);
            }
            words = Some(list);
        }
        let body = self.body(start)?;
        Ok(Kind::For { name, words, body })
    }

    fn case(&mut self, start: usize) -> Result<Kind, SyntaxError> {
        self.blanks();
        let word = self.word()?;
        self.lines()?;
        self.expects("in", start)?;
        let mut arms = Vec::new();
        loop {
            self.lines()?;
            if self.takes_word("esac") {
                return Ok(Kind::Case { word, arms });
            }
            self.takes("(");
            let mut patterns = Vec::new();
            loop {
                self.blanks();
                let here = self.at;
                patterns.push(self.word()?);
                if self.at == here {
                    return Err(self.error(start, "a pattern is missing in this case"));
                }
                self.blanks();
                if !self.takes("|") {
                    break;
                }
            }
            if !self.takes(")") {
                return Err(self.error(start, "a pattern of this case is not closed"));
            }
            let body = self.list()?;
            let end = match () {
                () if self.takes(";;&") => CaseEnd::TriesOn,
                () if self.takes(";;") => CaseEnd::Done,
                () if self.takes(";&") => CaseEnd::FallsThrough,
                () => CaseEnd::Done,
            };
            arms.push(CaseArm { patterns, body, end });
        }
    }

    fn any_test(&mut self, start: usize) -> Result<Test, SyntaxError> {
        let mut test = self.all_test(start)?;
        loop {
            self.lines()?;
            if !self.takes("||") {
                return Ok(test);
            }
            test = Test::Or(Box::new(test), Box::new(self.all_test(start)?));
        }
    }

    fn all_test(&mut self, start: usize) -> Result<Test, SyntaxError> {
        let mut test = self.nested(|parser| parser.one_test(start))?;
        loop {
            self.lines()?;
            if !self.takes("&&") {
                return Ok(test);
            }
            test = Test::And(Box::new(test), Box::new(self.nested(|parser| parser.one_test(start))?));
        }
    }

    fn one_test(&mut self, start: usize) -> Result<Test, SyntaxError> {
        self.lines()?;
        if self.takes_word("!") {
            return Ok(Test::Not(Box::new(self.nested(|parser| parser.one_test(start))?)));
        }
        if self.takes("(") {
            let test = self.any_test(start)?;
            self.closes(start)?;
            return Ok(test);
        }
        let bare = self.bare();
        let is_unary =
            bare.len() == 2 && bare.starts_with('-') && bare.ends_with(|c: char| c.is_ascii_alphabetic());
        if is_unary {
            let sign = bare.to_owned();
            self.at += sign.len();
            return Ok(Test::Unary(sign, self.operand(start)?));
        }
        let left = self.operand(start)?;
        self.blanks();
        let sign = SIGNS.iter().find(|sign| self.rest().starts_with(**sign)).map(|sign| (*sign).to_owned());
        let worded = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-ef", "-nt", "-ot"];
        let sign = sign.or_else(|| worded.contains(&self.bare()).then(|| self.bare().to_owned()));
        let Some(sign) = sign else { return Ok(Test::Unary("-n".to_owned(), left)) };
        self.at += sign.len();
        let right = match sign.as_str() {
            "=~" => self.expression_word(start)?,
            _ => self.operand(start)?,
        };
        Ok(Test::Binary(left, sign, right))
    }

    fn operand(&mut self, start: usize) -> Result<Word, SyntaxError> {
        self.blanks();
        let here = self.at;
        let word = self.word()?;
        match self.at == here {
            true => Err(self.error(start, "the condition lacks a word")),
            false => Ok(word),
        }
    }

    /// A regular expression, in which parentheses and bars are its own.
    fn expression_word(&mut self, start: usize) -> Result<Word, SyntaxError> {
        self.blanks();
        let begin = self.at;
        let mut parts = Vec::new();
        let mut depth = 0_usize;
        loop {
            let word = self.word()?;
            parts.extend(word.parts);
            let sign = match self.peek() {
                Some(sign @ ('(' | ')' | '|')) if sign != ')' || depth > 0 => sign,
                _ if self.at > begin => return Ok(Word { parts, span: self.span(begin, self.at) }),
                _ => return Err(self.error(start, "the condition lacks a word")),
            };
            if self.rest().starts_with("||") && depth == 0 {
                return Ok(Word { parts, span: self.span(begin, self.at) });
            }
            depth = if sign == '(' { depth + 1 } else { depth - usize::from(sign == ')') };
            let here = self.at;
            self.next();
            let span = self.span(here, self.at);
            parts.push(super::tree::Part::Text {
                text: sign.to_string(),
                span,
                is_quoted: false,
                is_exact: false,
            });
        }
    }
}
