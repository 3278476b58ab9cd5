//! Conditions: `[[ … ]]`, and `test` or `[` with its words.

use super::super::SyntaxError;
use super::machine::Machine;
use super::pattern::Pattern;
use super::regular;
use super::state::State;
use super::tree::{Test, Word};
use super::value::{Cause, Causes, Piece, Text, Truth, What};

impl Machine<'_> {
    /// Whether `[[ … ]]` holds.
    pub fn holds(&mut self, state: &mut State, test: &Test) -> Result<Truth, SyntaxError> {
        Ok(match test {
            Test::Not(inside) => self.holds(state, inside)?.not(),
            Test::And(one, other) | Test::Or(one, other) => {
                let is_or = matches!(test, Test::Or(..));
                let first = self.holds(state, one)?;
                // The second is not looked at where the first settles it.
                match &first {
                    Truth::Known { holds, .. } if *holds == is_or => first,
                    _ => {
                        let second = self.holds(state, other)?;
                        first.with(|| second, is_or)
                    }
                }
            }
            Test::Unary(sign, word) => {
                let text = self.text(state, word)?;
                self.unary(state, sign, &text, word.span.start)
            }
            Test::Binary(left, sign, right) => {
                let left_text = self.text(state, left)?;
                match sign.as_str() {
                    "=" | "==" | "!=" => {
                        let pattern = self.text(state, right)?;
                        let work = left_text.size().saturating_mul(pattern.size()) / 64;
                        self.step(left.span.start, work)?;
                        let truth = matches(&left_text, &pattern);
                        if sign == "!=" { truth.not() } else { truth }
                    }
                    "=~" => {
                        let pattern = self.text(state, right)?;
                        self.matches_expression(&left_text, &pattern, right)?
                    }
                    _ => {
                        let right_text = self.text(state, right)?;
                        self.compared(state, &left_text, sign, &right_text, left)?
                    }
                }
            }
        })
    }

    fn matches_expression(&mut self, text: &Text, pattern: &Text, word: &Word) -> Result<Truth, SyntaxError> {
        let presumed = text.presumed.clone().and(&pattern.presumed);
        let (known, expression) = match (text.settled(), pattern.settled()) {
            (Ok(text), Ok(pattern)) => (text, pattern),
            (Err(causes), _) | (_, Err(causes)) => return Ok(Truth::Unknown(causes)),
        };
        let quoted = |piece: &Piece| matches!(piece, Piece::Known { is_quoted: true, .. });
        let expression = match pattern.pieces.iter().all(quoted) && !pattern.pieces.is_empty() {
            true => regular::plain(&expression),
            false => expression,
        };
        let found =
            regular::is_match(&expression, &known).map_err(|reason| self.error(word.span.start, reason))?;
        self.step(word.span.start, 1 + known.len() / 16)?;
        Ok(Truth::known(found).presuming(&presumed))
    }

    /// Whether the words of `test` hold.
    pub fn test(&mut self, state: &mut State, words: &[Text], at: usize) -> Result<Truth, SyntaxError> {
        let mut place = 0;
        if words.is_empty() {
            return Ok(Truth::known(false));
        }
        let truth = self.any(state, words, &mut place, at)?;
        match place == words.len() {
            true => Ok(truth),
            false => Err(self.error(at, "the condition has more words than a shell knows to read")),
        }
    }

    fn any(
        &mut self,
        state: &mut State,
        words: &[Text],
        place: &mut usize,
        at: usize,
    ) -> Result<Truth, SyntaxError> {
        let mut truth = self.all(state, words, place, at)?;
        while word(words, *place) == "-o" {
            *place += 1;
            let next = self.all(state, words, place, at)?;
            truth = truth.with(|| next, true);
        }
        Ok(truth)
    }

    fn all(
        &mut self,
        state: &mut State,
        words: &[Text],
        place: &mut usize,
        at: usize,
    ) -> Result<Truth, SyntaxError> {
        let mut truth = self.one(state, words, place, at)?;
        while word(words, *place) == "-a" {
            *place += 1;
            let next = self.one(state, words, place, at)?;
            truth = truth.with(|| next, false);
        }
        Ok(truth)
    }

    fn one(
        &mut self,
        state: &mut State,
        words: &[Text],
        place: &mut usize,
        at: usize,
    ) -> Result<Truth, SyntaxError> {
        let left = words.len() - *place;
        let (first, second) = (word(words, *place), word(words, *place + 1));
        let is_binary = left >= 3 && (BINARY.contains(&second.as_str()));
        if !is_binary && first == "!" && left > 1 {
            *place += 1;
            return Ok(self.deeper(at, |machine| machine.one(state, words, place, at))?.not());
        }
        if !is_binary && first == "(" && left > 2 {
            *place += 1;
            let truth = self.deeper(at, |machine| machine.any(state, words, place, at))?;
            if word(words, *place) != ")" {
                return Err(self.error(at, "a parenthesis of the condition is not closed"));
            }
            *place += 1;
            return Ok(truth);
        }
        let Some(text) = words.get(*place) else {
            return Err(self.error(at, "the condition lacks a word"));
        };
        if is_binary {
            let (sign, right) = (second, &words[*place + 2]);
            *place += 3;
            let span = Word { parts: Vec::new(), span: at..at };
            return self.compared(state, text, &sign, right, &span);
        }
        let is_unary = left >= 2
            && first.len() == 2
            && first.starts_with('-')
            && !matches!(second.as_str(), "-a" | "-o");
        if is_unary {
            *place += 2;
            return Ok(self.unary(state, &first, &words[*place - 1], at));
        }
        *place += 1;
        Ok(text.is_empty().not())
    }

    fn unary(&mut self, state: &State, sign: &str, text: &Text, at: usize) -> Truth {
        match sign {
            "-z" => text.is_empty(),
            "-n" => text.is_empty().not(),
            "-v" => {
                let Ok(name) = text.settled() else { return Truth::Unknown(text.causes()) };
                match state.variables.get(name.as_str()) {
                    Some(variable) => Truth::known(variable.first().is_some()),
                    None if self.given(&name).is_some() => Truth::known(true),
                    None => {
                        let cause = Cause { name: Some(name), what: What::Environment, at };
                        Truth::known(false).presuming(&Causes::of(cause))
                    }
                }
            }
            _ => {
                let name = text.text().unwrap_or_else(|| "a file".to_owned());
                let what = What::Outcome(format!("whether {name} is there"));
                Truth::Unknown(text.causes().and(&Causes::of(Cause { name: None, what, at })))
            }
        }
    }

    /// Two words of which the sign between them says how they are compared.
    fn compared(
        &mut self,
        state: &mut State,
        left: &Text,
        sign: &str,
        right: &Text,
        word: &Word,
    ) -> Result<Truth, SyntaxError> {
        let presumed = left.presumed.clone().and(&right.presumed);
        let (one, other) = match (left.settled(), right.settled(), sign) {
            (Ok(one), Ok(other), _) => (one, other),
            (_, _, "=" | "==") => return Ok(equal(left, right)),
            (_, _, "!=") => return Ok(equal(left, right).not()),
            _ => return Ok(Truth::Unknown(left.causes().and(&right.causes()))),
        };
        let holds = match sign {
            "=" | "==" => one == other,
            "!=" => one != other,
            "<" => one < other,
            ">" => one > other,
            "-ef" | "-nt" | "-ot" => {
                let what = What::Outcome(format!("how the files {one} and {other} compare"));
                return Ok(Truth::Unknown(Causes::of(Cause { name: None, what, at: word.span.start })));
            }
            _ => {
                let (one, other) =
                    (self.computed(state, &one, &word.span)?, self.computed(state, &other, &word.span)?);
                let ((one, first), (other, second)) = match (one, other) {
                    (Ok(one), Ok(other)) => (one, other),
                    (Err(causes), _) | (_, Err(causes)) => return Ok(Truth::Unknown(causes)),
                };
                let holds = match sign {
                    "-eq" => one == other,
                    "-ne" => one != other,
                    "-lt" => one < other,
                    "-le" => one <= other,
                    "-gt" => one > other,
                    _ => one >= other,
                };
                return Ok(Truth::known(holds).presuming(&presumed).presuming(&first).presuming(&second));
            }
        };
        Ok(Truth::known(holds).presuming(&presumed))
    }
}

const BINARY: &[&str] =
    &["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-ef", "-nt", "-ot"];

fn word(words: &[Text], place: usize) -> String {
    words.get(place).and_then(Text::text).unwrap_or_default()
}

/// Whether `text` is of the pattern that `pattern` says.
pub fn matches(text: &Text, pattern: &Text) -> Truth {
    let presumed = text.presumed.clone().and(&pattern.presumed);
    match (text.text(), Pattern::of(pattern)) {
        (Some(text), Some(pattern)) => {
            Truth::known(pattern.matches(&text.chars().collect::<Vec<_>>())).presuming(&presumed)
        }
        (None, Some(any)) if any.matches(&[]) && any.matches(&['a', 'b']) && any.matches(&['0']) => {
            Truth::known(true)
        }
        _ => equal(text, pattern),
    }
}

/// Whether two texts of which not all is known are equal.
fn equal(one: &Text, other: &Text) -> Truth {
    let open = Truth::Unknown(one.causes().and(&other.causes()));
    let (open_text, known) = match (one.text(), other.text()) {
        (None, Some(known)) => (one, known),
        (Some(known), None) => (other, known),
        _ => return open,
    };
    let prefix: String = open_text
        .pieces
        .iter()
        .map_while(|piece| match piece {
            Piece::Known { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    match known.strip_prefix(&prefix) {
        None => Truth::known(false),
        // What is asked is whether it is given at all.
        Some("") => Text { pieces: open_text.pieces.clone(), ..Text::default() }.without_known(&open),
        Some(_) => open,
    }
}

impl Text {
    /// Whether all but what is known of it is empty; `open` where nobody knows.
    fn without_known(mut self, open: &Truth) -> Truth {
        self.pieces.retain(|piece| !matches!(piece, Piece::Known { .. }));
        match self.is_empty() {
            Truth::Unknown(_) => open.clone(),
            known => known,
        }
    }
}
