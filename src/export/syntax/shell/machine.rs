//! The machine that goes through a script: what it is given, how much it may do, and the files that it reads.
//!
//! It starts no program and opens no file but those that lie beside the script and are sourced.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use super::super::{SyntaxError, line_of};
use super::run::Waiting;
use super::scan::Parser;
use super::state::{State, Variable};
use super::tree::List;
use super::value::{Causes, Text};
use super::{Part, Surroundings};

/// Steps at the most: commands, rounds of loops, and what copies of states take.
const MOST_STEPS: usize = 400_000;
/// Bytes of values at the most that are made.
const MOST_BYTES: usize = 16 << 20;
/// Bytes of a file that is sourced, at the most.
const LARGEST: usize = 1 << 20;
/// Commands inside each other at the most, functions and files included.
const DEEPEST: usize = 80;

pub struct Machine<'a> {
    given: &'a Surroundings<'a>,
    /// The script and what it sources, one after the other.
    pub parts: Vec<Part>,
    steps: usize,
    bytes: usize,
    depth: usize,
    /// Variables that were made to stand for what is not known.
    opened: usize,
    /// States that left a function or a loop where others went on.
    pub waiting: Vec<Waiting>,
    /// What a reader should know: one sentence each.
    pub notes: BTreeSet<String>,
    /// Variables of the environment that were asked for.
    pub asked: BTreeSet<String>,
    /// Variables that the script sets somewhere, if not where it went.
    own: BTreeSet<String>,
    /// The variable that is being set.
    pub setting: Option<String>,
    /// What was set last by its name, where that may be an argument of a line without a command.
    pub assigned: BTreeMap<String, (Range<usize>, Text)>,
}

impl<'a> Machine<'a> {
    pub const fn new(given: &'a Surroundings<'a>) -> Self {
        Self {
            given,
            parts: Vec::new(),
            steps: 0,
            bytes: 0,
            depth: 0,
            opened: 0,
            waiting: Vec::new(),
            notes: BTreeSet::new(),
            asked: BTreeSet::new(),
            own: BTreeSet::new(),
            setting: None,
            assigned: BTreeMap::new(),
        }
    }

    /// The error that stands at `at`.
    pub fn error(&self, at: usize, reason: impl Into<String>) -> SyntaxError {
        let reason = reason.into();
        match self.part(at) {
            Some((0, part)) => SyntaxError::at(&part.text, at, reason),
            Some((_, part)) => SyntaxError::Malformed {
                line: line_of(&part.text, at - part.base),
                reason: format!("of `{}`: {reason}", part.name),
            },
            None => SyntaxError::Malformed { line: 1, reason },
        }
    }

    fn part(&self, at: usize) -> Option<(usize, &Part)> {
        self.parts.iter().enumerate().rfind(|(_, part)| part.base <= at)
    }

    /// The line of `at` in words.
    pub fn line(&self, at: usize) -> String {
        match self.part(at) {
            Some((0, part)) => format!("line {}", line_of(&part.text, at)),
            Some((_, part)) => format!("line {} of {}", line_of(&part.text, at - part.base), part.name),
            None => "line 1".to_owned(),
        }
    }

    /// Counts `steps`.
    ///
    /// # Errors
    /// If they are more than any script takes.
    pub fn step(&mut self, at: usize, steps: usize) -> Result<(), SyntaxError> {
        self.steps += steps;
        match self.steps > MOST_STEPS {
            true => {
                Err(self.error(at, "the script does not come to an end here in as many steps as are taken"))
            }
            false => Ok(()),
        }
    }

    /// Counts the bytes of a value.
    pub fn makes(&mut self, text: &Text, at: usize) -> Result<(), SyntaxError> {
        self.bytes += text.size();
        match self.bytes > MOST_BYTES {
            true => Err(self.error(at, "the values that the script makes are longer than any command line")),
            false => Ok(()),
        }
    }

    /// Does something that may come back to itself.
    pub fn deeper<T>(
        &mut self,
        at: usize,
        run: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.depth >= DEEPEST {
            let rule = format!("commands, functions and files are nested deeper than {DEEPEST} here");
            return Err(self.error(at, rule));
        }
        self.depth += 1;
        let found = run(self);
        self.depth -= 1;
        found
    }

    /// A copy of `state` for a branch.
    pub fn copy(&mut self, state: &State, at: usize) -> Result<State, SyntaxError> {
        self.step(at, 1 + state.variables.len() / 4 + state.recorded.len() / 16)?;
        Ok(state.clone())
    }

    /// The commands of `text`, which is file `name` from now on.
    pub fn file(&mut self, name: &str, text: &str) -> Result<List, SyntaxError> {
        let base = self.parts.last().map_or(0, |part| part.base + part.text.len() + 1);
        self.parts.push(Part { name: name.to_owned(), base, text: text.to_owned() });
        let mut parser = Parser::new(text, base, None);
        let list = whole(&mut parser);
        self.own.append(&mut parser.names);
        list.map_err(|error| match base {
            0 => error,
            _ => SyntaxError::Malformed { line: error.line(), reason: format!("of `{name}`: {error}") },
        })
    }

    /// The commands of a text that stands in no file as it is, but comes of what is at `span`.
    pub fn made(&self, text: &str, span: Range<usize>) -> Result<List, SyntaxError> {
        let mut parser = Parser::new(text, 0, Some(span.clone()));
        whole(&mut parser)
            .map_err(|error| self.error(span.start, format!("what runs here is no script: {error}")))
    }

    /// The text of a file beside the script.
    pub fn beside(&self, name: &str) -> Result<String, String> {
        let text = self.given.beside.text(name)?;
        match text.len() > LARGEST {
            true => Err("it is larger than any script".to_owned()),
            false => Ok(text),
        }
    }

    /// What somebody says that the environment has.
    pub fn given(&mut self, name: &str) -> Option<Text> {
        self.asked.insert(name.to_owned());
        self.said(name)
    }

    /// The same where nobody asks.
    pub fn said(&self, name: &str) -> Option<Text> {
        let value = self.given.environment.iter().rfind(|(known, _)| known == name)?;
        Some(Text::known(value.1.clone(), 0..0))
    }

    /// Whether the variable `name`, which is not set, is the script's own: it is empty then, as in a branch that did not
    /// run, unless the script takes it from the environment.
    pub fn is_own(&self, name: &str) -> bool {
        self.own.contains(name) && self.setting.as_deref() != Some(name)
    }

    /// The name of a variable that no script has, and none had before.
    pub fn open_name(&mut self) -> String {
        self.opened += 1;
        format!("_open_{}", self.opened)
    }

    /// The variable `name`, where somebody says it.
    pub fn settled(&mut self, name: &str) -> Option<Text> {
        self.said(name)?;
        self.given(name)
    }

    /// Sets a variable; what is not known of it is taken from what somebody says.
    pub fn assign(&mut self, state: &mut State, name: &str, variable: Variable) {
        let variable = match variable {
            Variable::Scalar(text) => {
                let causes = text.causes();
                let is_open = text.text().is_none();
                match is_open.then(|| self.settled(name)).flatten() {
                    Some(given) => Variable::Scalar(given),
                    None if is_open && causes.iter().any(|cause| cause.name.is_none()) => {
                        Variable::Scalar(renamed(text, name))
                    }
                    None => Variable::Scalar(text.with_quotes(false)),
                }
            }
            other => other,
        };
        state.set(name, variable);
    }

    /// What is given as the script's own arguments.
    pub fn arguments(&mut self) -> Vec<Text> {
        let numbers: BTreeMap<usize, String> = (self.given.environment.iter())
            .filter_map(|(name, value)| Some((name.parse().ok()?, value.clone())))
            .collect();
        let most = numbers.keys().last().copied().unwrap_or(0).min(64);
        (1..=most)
            .map(|number| {
                self.asked.insert(number.to_string());
                Text::known(numbers.get(&number).cloned().unwrap_or_default(), 0..0)
            })
            .collect()
    }
}

/// `text` with causes that the variable `name` settles.
fn renamed(text: Text, name: &str) -> Text {
    use super::value::{Either, Piece};
    let pieces = text.pieces.into_iter().map(|piece| match piece {
        Piece::Unknown { causes, place, is_unset } => {
            Piece::Unknown { causes: causes.named(name), place, is_unset }
        }
        Piece::Either(either) => {
            let Either { one, other, causes } = &*either;
            let either =
                Either { one: one.clone(), other: other.clone(), causes: causes.clone().named(name) };
            Piece::Either(Rc::new(either))
        }
        known @ Piece::Known { .. } => known,
    });
    let text = Text { pieces: pieces.collect(), ..text };
    text.with_quotes(false)
}

/// All commands of a text.
fn whole(parser: &mut Parser<'_>) -> Result<List, SyntaxError> {
    let list = parser.nested(Parser::list)?;
    match parser.rest() {
        "" => Ok(list),
        _ => {
            let word = parser.bare();
            let word = if word.is_empty() { &parser.rest()[..1] } else { word };
            Err(parser.error(parser.at, format!("`{word}` ends what was not begun")))
        }
    }
}

/// What `causes` ask for, in words.
pub fn asked_names(causes: &Causes) -> Vec<String> {
    let mut names: Vec<String> = causes.iter().filter_map(|cause| cause.name.clone()).collect();
    names.dedup();
    names
}
