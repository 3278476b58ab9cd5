//! Branches, cases and loops. Where it is not known which way a script goes, it goes both.

use super::super::SyntaxError;
use super::conditions::matches;
use super::machine::Machine;
use super::merge::Choice;
use super::run::{Flow, Waiting};
use super::state::{Item, State, Variable};
use super::tree::{CaseArm, CaseEnd, List, Word};
use super::value::{Cause, Causes, Text, Truth, What};

/// One way that a script may go.
type Way<'w> = &'w mut dyn FnMut(&mut Machine<'_>, &mut State) -> Result<Flow, SyntaxError>;

/// What a loop goes on by.
pub enum Condition<'a> {
    List { list: &'a List, is_negated: bool },
    Number(&'a Word),
}

impl Machine<'_> {
    /// Goes `one` way where `truth` holds, and the `other` where it does not.
    pub fn branch(
        &mut self,
        state: &mut State,
        truth: Truth,
        at: usize,
        one: Way<'_>,
        other: Way<'_>,
    ) -> Result<Flow, SyntaxError> {
        let (holds, causes, is_open) = match truth {
            Truth::Known { holds, presumed } if presumed.is_empty() => {
                return if holds { one(self, state) } else { other(self, state) };
            }
            Truth::Known { holds, presumed } => (holds, presumed, false),
            Truth::Unknown(causes) => (true, causes, true),
        };
        let mut second = self.copy(state, at)?;
        let marks = self.waiting.len();
        let first_flow = if holds { one(self, state)? } else { other(self, state)? };
        if !is_open {
            let waiting: Vec<Waiting> = self.waiting.drain(marks..).collect();
            let notes = self.notes.clone();
            let second_flow = if holds { other(self, &mut second)? } else { one(self, &mut second)? };
            self.waiting.truncate(marks);
            self.notes = notes;
            // A script that ends where something is not given is not run so.
            if first_flow == Flow::Exit
                && second_flow != Flow::Exit
                && state.recorded.len() <= second.recorded.len()
            {
                *state = second;
                return Ok(second_flow);
            }
            self.waiting.extend(waiting);
            if second_flow != Flow::Exit {
                self.merge(state, second, Choice::First(&causes));
            }
            return Ok(first_flow);
        }
        let second_flow = other(self, &mut second)?;
        Ok(match (first_flow, second_flow) {
            (first, second_flow) if first == second_flow => {
                self.merge(state, second, Choice::Open(&causes));
                first
            }
            (Flow::Exit, flow) => {
                ended(&mut second, state, &causes);
                *state = second;
                flow
            }
            (flow, Flow::Exit) => {
                ended(state, &second, &causes);
                flow
            }
            (Flow::On, flow) => {
                self.waiting.push(Waiting { flow, state: second, causes });
                Flow::On
            }
            (flow, second_flow) => {
                let first = std::mem::replace(state, second);
                self.waiting.push(Waiting { flow, state: first, causes });
                second_flow
            }
        })
    }

    fn merge(&mut self, state: &mut State, other: State, choice: Choice<'_>) {
        let mut settled = Vec::new();
        let first = std::mem::take(state);
        *state = first.or(other, choice, |name| {
            let text = self.said(name)?;
            settled.push(name.to_owned());
            Some(text)
        });
        self.asked.extend(settled);
    }

    /// A state that waited joins the one that went on.
    pub fn rejoin(&mut self, state: &mut State, waiting: Waiting) {
        let causes = waiting.causes;
        self.merge(state, waiting.state, Choice::Open(&causes));
    }

    pub fn branches(
        &mut self,
        state: &mut State,
        arms: &[(List, List)],
        otherwise: Option<&List>,
        at: usize,
    ) -> Result<Flow, SyntaxError> {
        let mut arms = arms;
        while let [(condition, body), rest @ ..] = arms {
            arms = rest;
            let flow = self.list(state, condition)?;
            if flow != Flow::On {
                return Ok(flow);
            }
            match state.status.clone() {
                Truth::Known { holds, presumed } if presumed.is_empty() => {
                    if holds {
                        return self.list(state, body);
                    }
                }
                open => {
                    return self.deeper(at, |machine| {
                        machine.branch(
                            state,
                            open,
                            at,
                            &mut |machine, state| machine.list(state, body),
                            &mut |machine, state| machine.branches(state, rest, otherwise, at),
                        )
                    });
                }
            }
        }
        match otherwise {
            Some(list) => self.list(state, list),
            None => {
                state.status = Truth::known(true);
                Ok(Flow::On)
            }
        }
    }

    pub fn case(
        &mut self,
        state: &mut State,
        text: &Text,
        arms: &[CaseArm],
        at: usize,
    ) -> Result<Flow, SyntaxError> {
        let mut arms = arms;
        while let [arm, rest @ ..] = arms {
            let mut truth = Truth::known(false);
            for pattern in &arm.patterns {
                let pattern = self.text(state, pattern)?;
                self.step(at, 1 + text.size().saturating_mul(pattern.size()) / 1024)?;
                let own = matches(text, &pattern);
                truth = truth.with(|| own, true);
            }
            match truth {
                Truth::Known { holds, presumed } if presumed.is_empty() => {
                    if holds {
                        return self.arm(state, text, arms, at);
                    }
                    arms = rest;
                }
                open => {
                    let all = arms;
                    return self.deeper(at, |machine| {
                        machine.branch(
                            state,
                            open,
                            at,
                            &mut |machine, state| machine.arm(state, text, all, at),
                            &mut |machine, state| machine.case(state, text, rest, at),
                        )
                    });
                }
            }
        }
        state.status = Truth::known(true);
        Ok(Flow::On)
    }

    /// Runs the first of `arms`, and what it goes on to.
    fn arm(
        &mut self,
        state: &mut State,
        text: &Text,
        arms: &[CaseArm],
        at: usize,
    ) -> Result<Flow, SyntaxError> {
        let mut arms = arms;
        while let [arm, rest @ ..] = arms {
            let flow = self.list(state, &arm.body)?;
            match arm.end {
                _ if flow != Flow::On => return Ok(flow),
                CaseEnd::Done => break,
                CaseEnd::FallsThrough => arms = rest,
                CaseEnd::TriesOn => return self.case(state, text, rest, at),
            }
        }
        Ok(Flow::On)
    }

    pub fn for_each(
        &mut self,
        state: &mut State,
        name: &str,
        words: Option<&[Word]>,
        body: &List,
        at: usize,
    ) -> Result<Flow, SyntaxError> {
        let mut fields = Vec::new();
        match words {
            Some(words) => {
                for word in words {
                    self.word_fields(state, word, &mut fields)?;
                }
            }
            None => {
                let list = state.arguments.list.iter().cloned();
                fields.extend(list.map(|text| super::state::Field::One {
                    text,
                    span: at..at,
                    is_many: false,
                }));
            }
        }
        state.status = Truth::known(true);
        for field in fields {
            let (text, is_open) = match &field {
                super::state::Field::One { text, is_many, .. } => (text.clone(), *is_many),
                super::state::Field::Either { causes, .. } => (Text::unknown(causes.clone(), at..at), true),
            };
            let causes = text.causes();
            let text = Text { span: None, ..text };
            let mut round = |machine: &mut Machine<'_>, state: &mut State| {
                machine.assign(state, name, Variable::Scalar(text.clone()));
                machine.round(state, body)
            };
            let flow = match is_open {
                false => round(self, state)?,
                true => self.uncounted(state, causes, at, &mut round)?,
            };
            match flow {
                Flow::On | Flow::Continue(1) => {}
                Flow::Break(1) => break,
                Flow::Break(more) => return Ok(Flow::Break(more - 1)),
                Flow::Continue(more) => return Ok(Flow::Continue(more - 1)),
                other => return Ok(other),
            }
        }
        Ok(Flow::On)
    }

    /// One round of a loop, with those states that left it early.
    fn round(&mut self, state: &mut State, body: &List) -> Result<Flow, SyntaxError> {
        let marks = self.waiting.len();
        let flow = self.list(state, body)?;
        for waiting in self.waiting.split_off(marks) {
            match waiting.flow {
                Flow::Continue(1) | Flow::Break(1) => self.rejoin(state, waiting),
                Flow::Continue(more) => {
                    self.waiting.push(Waiting { flow: Flow::Continue(more - 1), ..waiting })
                }
                Flow::Break(more) => self.waiting.push(Waiting { flow: Flow::Break(more - 1), ..waiting }),
                _ => self.waiting.push(waiting),
            }
        }
        Ok(flow)
    }

    pub fn repeat(
        &mut self,
        state: &mut State,
        condition: Condition<'_>,
        body: &List,
        step: Option<&Word>,
        at: usize,
    ) -> Result<Flow, SyntaxError> {
        let mut status = Truth::known(true);
        loop {
            self.step(at, 1)?;
            let truth = match condition {
                Condition::List { list, is_negated } => {
                    let flow = self.list(state, list)?;
                    if flow != Flow::On {
                        return Ok(flow);
                    }
                    if is_negated { state.status.clone().not() } else { state.status.clone() }
                }
                // Nothing is true.
                Condition::Number(word) if word.parts.is_empty() => Truth::known(true),
                Condition::Number(word) => match self.number(state, word)? {
                    Ok((number, presumed)) => Truth::known(number != 0).presuming(&presumed),
                    Err(causes) => Truth::Unknown(causes),
                },
            };
            let mut round = |machine: &mut Machine<'_>, state: &mut State| {
                let flow = machine.round(state, body)?;
                if let (Some(step), Flow::On | Flow::Continue(1)) = (step, flow) {
                    // What the step sets is what it is for.
                    let _ = machine.number(state, step)?;
                }
                Ok(flow)
            };
            let (flow, goes_on) = match truth {
                Truth::Known { holds: true, .. } => (round(self, state)?, true),
                Truth::Known { holds: false, presumed } if presumed.is_empty() => {
                    state.status = status;
                    return Ok(Flow::On);
                }
                Truth::Known { holds: false, presumed } => {
                    // What the loop would set hangs on what is not given.
                    let truth = Truth::known(false).presuming(&presumed);
                    self.branch(state, truth, at, &mut round, &mut |_, _| Ok(Flow::On))?;
                    state.status = status;
                    return Ok(Flow::On);
                }
                Truth::Unknown(causes) => (self.uncounted(state, causes, at, &mut round)?, false),
            };
            status = state.status.clone();
            match flow {
                Flow::On | Flow::Continue(1) if goes_on => {}
                Flow::On | Flow::Continue(1) | Flow::Break(1) => return Ok(Flow::On),
                Flow::Break(more) => return Ok(Flow::Break(more - 1)),
                Flow::Continue(more) => return Ok(Flow::Continue(more - 1)),
                other => return Ok(other),
            }
        }
    }

    /// Rounds of which nobody knows the number: what they change is not known behind them.
    fn uncounted(
        &mut self,
        state: &mut State,
        causes: Causes,
        at: usize,
        round: Way<'_>,
    ) -> Result<Flow, SyntaxError> {
        let before = self.copy(state, at)?;
        let flow = round(self, state)?;
        let cause = Cause { name: None, what: What::Loop, at };
        let causes = if causes.is_empty() { Causes::of(cause) } else { causes };
        let changed: Vec<(String, bool)> = (state.variables.iter())
            .filter(|(name, variable)| {
                before.variables.get(&**name).is_none_or(|known| !known.is_same(variable))
            })
            .map(|(name, variable)| (name.to_string(), matches!(**variable, Variable::List(_))))
            .collect();
        for (name, is_list) in changed {
            let text = Text::unknown(causes.clone().named(&name), at..at);
            let variable = match is_list {
                true => Variable::List(vec![(0, Item::One(text))]),
                false => Variable::Scalar(text),
            };
            self.assign(state, &name, variable);
        }
        state.status = Truth::known(true);
        Ok(if flow == Flow::Exit { Flow::On } else { flow })
    }
}

/// The commands of a branch after which the script ended are kept, as they may have run.
fn ended(state: &mut State, other: &State, causes: &Causes) {
    let alike = (state.recorded.iter().zip(&other.recorded))
        .take_while(|(one, other)| std::rc::Rc::ptr_eq(one, other))
        .count();
    for command in &other.recorded[alike..] {
        let mut own = (**command).clone();
        own.when.add(causes);
        state.recorded.push(std::rc::Rc::new(own));
    }
}
