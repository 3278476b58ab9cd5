//! Arithmetic of a script: expressions over its variables.

use super::super::SyntaxError;
use super::arithmetic::{Binary, Expression, apply, parse};
use super::machine::Machine;
use super::state::{State, Variable};
use super::tree::Word;
use super::value::{Causes, Text};

/// A number and what was presumed for it; or what it hangs on.
pub type Number = Result<(i64, Causes), Causes>;

/// Variables whose values are expressions of others, at the most.
const DEEPEST: usize = 16;

/// What a number is computed in.
struct Place<'m, 's> {
    state: &'m mut State,
    span: &'s std::ops::Range<usize>,
    depth: usize,
}

impl Machine<'_> {
    /// The number that the expression in `word` is.
    pub fn number(&mut self, state: &mut State, word: &Word) -> Result<Number, SyntaxError> {
        let text = self.text(state, word)?;
        let presumed = text.presumed.clone();
        let known = match text.settled() {
            Ok(known) => known,
            Err(causes) => return Ok(Err(causes)),
        };
        let number = self.computed(state, &known, &word.span)?;
        Ok(number.map(|(number, own)| (number, presumed.and(&own))))
    }

    /// The number that `text` says.
    pub fn computed(
        &mut self,
        state: &mut State,
        text: &str,
        span: &std::ops::Range<usize>,
    ) -> Result<Number, SyntaxError> {
        let expression = parse(text).map_err(|reason| self.error(span.start, reason))?;
        self.evaluate(&mut Place { state, span, depth: 0 }, &expression)
    }

    fn evaluate(
        &mut self,
        place: &mut Place<'_, '_>,
        expression: &Expression,
    ) -> Result<Number, SyntaxError> {
        self.step(place.span.start, 1)?;
        let plain = |number| Ok(Ok((number, Causes::default())));
        match expression {
            Expression::Number(number) => plain(*number),
            Expression::Variable { name, index: None } => self.value_of(place, name),
            Expression::Variable { name, index: Some(index) } => {
                let (index, presumed) = match self.evaluate(place, index)? {
                    Ok(index) => index,
                    Err(causes) => return Ok(Err(causes)),
                };
                let items = place.state.variables.get(name.as_str()).map(|variable| variable.items());
                let item = usize::try_from(index).ok().and_then(|index| items?.into_iter().nth(index));
                match item.map(|item| item.text()) {
                    None => plain(0),
                    Some(text) => {
                        let number = self.text_number(place, &text)?;
                        Ok(number.map(|(number, own)| (number, presumed.and(&own))))
                    }
                }
            }
            Expression::Unary(sign, inside) => {
                let number = self.evaluate(place, inside)?;
                Ok(number.map(|(number, presumed)| {
                    let number = match sign {
                        '-' => number.wrapping_neg(),
                        '!' => i64::from(number == 0),
                        '~' => !number,
                        _ => number,
                    };
                    (number, presumed)
                }))
            }
            Expression::Binary(operator, left, right) => self.binary(place, *operator, left, right),
            Expression::Choice(condition, one, other) => match self.evaluate(place, condition)? {
                Ok((condition, presumed)) => {
                    let number = self.evaluate(place, if condition != 0 { one } else { other })?;
                    Ok(number.map(|(number, own)| (number, presumed.and(&own))))
                }
                Err(causes) => Ok(Err(causes)),
            },
            Expression::Assign { name, operator, value } => {
                let mut number = self.evaluate(place, value)?;
                if let Some(operator) = operator {
                    let before = self.value_of(place, name)?;
                    number = self.applied(place, *operator, before, number)?;
                }
                self.store(place, name, &number);
                Ok(number)
            }
            Expression::Step { name, by, is_before } => {
                let before = self.value_of(place, name)?;
                let after = before.clone().map(|(number, presumed)| (number.wrapping_add(*by), presumed));
                self.store(place, name, &after);
                Ok(if *is_before { after } else { before })
            }
        }
    }

    fn binary(
        &mut self,
        place: &mut Place<'_, '_>,
        operator: Binary,
        left: &Expression,
        right: &Expression,
    ) -> Result<Number, SyntaxError> {
        let left = self.evaluate(place, left)?;
        // The second is not looked at where the first settles it.
        match (&left, operator) {
            (Ok((0, _)), Binary::And) => return Ok(left),
            (Ok((number, presumed)), Binary::Or) if *number != 0 => return Ok(Ok((1, presumed.clone()))),
            _ => {}
        }
        let right = self.evaluate(place, right)?;
        self.applied(place, operator, left, right)
    }

    fn applied(
        &self,
        place: &Place<'_, '_>,
        operator: Binary,
        left: Number,
        right: Number,
    ) -> Result<Number, SyntaxError> {
        match (left, right) {
            (Ok((left, one)), Ok((right, other))) => {
                let number =
                    apply(operator, left, right).map_err(|reason| self.error(place.span.start, reason))?;
                Ok(Ok((number, one.and(&other))))
            }
            (Err(one), Err(other)) => Ok(Err(one.and(&other))),
            (Err(causes), _) | (_, Err(causes)) => Ok(Err(causes)),
        }
    }

    fn store(&mut self, place: &mut Place<'_, '_>, name: &str, number: &Number) {
        let span = place.span.clone();
        let text = match number {
            Ok((number, presumed)) => Text::known(number.to_string(), span).presuming(presumed),
            Err(causes) => Text::unknown(causes.clone(), span),
        };
        self.assign(place.state, name, Variable::Scalar(text));
    }

    /// The number that a variable has; nothing is 0.
    fn value_of(&mut self, place: &mut Place<'_, '_>, name: &str) -> Result<Number, SyntaxError> {
        let text = match place.state.variables.get(name) {
            Some(variable) => variable.first().unwrap_or_default(),
            None => match self.given(name) {
                Some(text) => text,
                None => {
                    let open = Text::environment(name, place.span.clone());
                    if self.is_own(name) { Text::default().presuming(&open.causes()) } else { open }
                }
            },
        };
        self.text_number(place, &text)
    }

    fn text_number(&mut self, place: &mut Place<'_, '_>, text: &Text) -> Result<Number, SyntaxError> {
        let known = match text.settled() {
            Ok(known) => known,
            Err(causes) => return Ok(Err(causes)),
        };
        if place.depth >= DEEPEST {
            return Err(self.error(place.span.start, "a variable is an expression of itself"));
        }
        let expression = parse(&known).map_err(|reason| self.error(place.span.start, reason))?;
        place.depth += 1;
        let number = self.evaluate(place, &expression)?;
        place.depth -= 1;
        Ok(number.map(|(number, own)| (number, text.presumed.clone().and(&own))))
    }
}
