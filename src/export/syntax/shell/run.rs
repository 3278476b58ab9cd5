//! Going through commands one after the other.

use std::rc::Rc;

use super::super::SyntaxError;
use super::machine::Machine;
use super::state::{Arguments, Field, Item, Recorded, State, Variable};
use super::tree::{
    AndOr, Argument, Assigned, Assignment, Command, Element, Join, Kind, List, Pipeline, Redirect, Simple,
};
use super::value::{Cause, Causes, Text, Truth, What};

/// Where a script goes on behind a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    On,
    Exit,
    Return,
    Break(usize),
    Continue(usize),
}

/// A state that left what runs, where it hangs on something whether it did.
pub struct Waiting {
    pub flow: Flow,
    pub state: State,
    pub causes: Causes,
}

impl Machine<'_> {
    pub fn list(&mut self, state: &mut State, list: &List) -> Result<Flow, SyntaxError> {
        for and_or in &list.0 {
            let flow = self.and_or(state, and_or)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn and_or(&mut self, state: &mut State, and_or: &AndOr) -> Result<Flow, SyntaxError> {
        let flow = self.pipeline(state, &and_or.first)?;
        match flow {
            Flow::On => self.joined_pipelines(state, &and_or.rest),
            other => Ok(other),
        }
    }

    fn joined_pipelines(
        &mut self,
        state: &mut State,
        rest: &[(Join, Pipeline)],
    ) -> Result<Flow, SyntaxError> {
        let mut rest = rest;
        while let [(join, pipeline), more @ ..] = rest {
            rest = more;
            let truth = match join {
                Join::And => state.status.clone(),
                Join::Or => state.status.clone().not(),
            };
            // A command that nobody runs here is taken to end well, as its author does.
            let truth = match truth {
                Truth::Unknown(causes) if is_outcome(&causes) => Truth::known(*join == Join::And),
                other => other,
            };
            match truth {
                Truth::Known { holds: false, presumed } if presumed.is_empty() => {}
                Truth::Known { holds: true, presumed } if presumed.is_empty() => {
                    let flow = self.pipeline(state, pipeline)?;
                    if flow != Flow::On {
                        return Ok(flow);
                    }
                }
                open => {
                    let at = pipeline.commands.first().map_or(0, |command| command.at);
                    let flow = self.branch(
                        state,
                        open,
                        at,
                        &mut |machine, state| machine.pipeline(state, pipeline),
                        &mut |_, _| Ok(Flow::On),
                    )?;
                    if flow != Flow::On {
                        return Ok(flow);
                    }
                }
            }
        }
        Ok(Flow::On)
    }

    fn pipeline(&mut self, state: &mut State, pipeline: &Pipeline) -> Result<Flow, SyntaxError> {
        let flow = match pipeline.commands.as_slice() {
            [one] => self.command(state, one)?,
            several => {
                // Each runs in a shell of its own.
                let mut input = None;
                for (index, command) in several.iter().enumerate() {
                    let mut inner = self.copy(state, command.at)?;
                    let is_last = index + 1 == several.len();
                    inner.output = if is_last { state.output.clone() } else { Some(Text::default()) };
                    let marks = self.waiting.len();
                    match self.calculated(&mut inner, command, input.take())? {
                        true => {}
                        false => {
                            self.command(&mut inner, command)?;
                        }
                    }
                    self.waiting.truncate(marks);
                    (state.recorded, state.status) = (inner.recorded, inner.status);
                    match is_last {
                        true => state.output = inner.output,
                        false => input = inner.output,
                    }
                }
                Flow::On
            }
        };
        if pipeline.is_negated {
            state.status = state.status.clone().not();
        }
        Ok(flow)
    }

    /// `… | bc`, of whole numbers; false if the command is another.
    fn calculated(
        &mut self,
        state: &mut State,
        command: &Command,
        input: Option<Text>,
    ) -> Result<bool, SyntaxError> {
        let Kind::Simple(simple) = &command.kind else { return Ok(false) };
        let fields = self.argument_fields(state, &simple.arguments)?;
        let [name] = fields.as_slice() else { return Ok(false) };
        let (Some(name), Some(input)) = (name.known(), input) else { return Ok(false) };
        let Some(known) = input.text().filter(|text| !text.contains('.') && !text.contains('^')) else {
            return Ok(false);
        };
        if name == "cat" {
            state.write(input);
            return Ok(true);
        }
        if name != "bc" {
            return Ok(false);
        }
        let span = command.at..command.at;
        match self.computed(state, known.trim(), &span)? {
            Ok((number, presumed)) => {
                state.write(
                    Text::known(format!("{number}\n"), span).presuming(&presumed).presuming(&input.presumed),
                );
            }
            Err(causes) => state.write(Text::unknown(causes, span)),
        }
        Ok(true)
    }

    pub fn command(&mut self, state: &mut State, command: &Command) -> Result<Flow, SyntaxError> {
        self.step(command.at, 1)?;
        let hides = command
            .redirects
            .iter()
            .any(|redirect| matches!(redirect, Redirect::File { takes_output: true }));
        let kept = hides.then(|| state.output.take()).flatten();
        let flow = self.deeper(command.at, |machine| machine.kind(state, command))?;
        if kept.is_some() {
            state.output = kept;
        }
        Ok(flow)
    }

    fn kind(&mut self, state: &mut State, command: &Command) -> Result<Flow, SyntaxError> {
        match &command.kind {
            Kind::Simple(simple) => self.simple(state, simple, command),
            Kind::Group(list) => self.list(state, list),
            Kind::Subshell(list) => self.apart(state, command.at, |machine, state| machine.list(state, list)),
            Kind::If { arms, otherwise } => self.branches(state, arms, otherwise.as_ref(), command.at),
            Kind::For { name, words, body } => self.for_each(state, name, words.as_deref(), body, command.at),
            Kind::Count { first, condition, step, body } => {
                let _ = self.number(state, first)?;
                self.repeat(state, super::flow::Condition::Number(condition), body, Some(step), command.at)
            }
            Kind::While { is_negated, condition, body } => {
                let condition = super::flow::Condition::List { list: condition, is_negated: *is_negated };
                self.repeat(state, condition, body, None, command.at)
            }
            Kind::Case { word, arms } => {
                let text = self.text(state, word)?;
                self.case(state, &text, arms, command.at)
            }
            Kind::Test(test) => {
                state.status = self.holds(state, test)?;
                Ok(Flow::On)
            }
            Kind::Arithmetic(word) => {
                state.status = match self.number(state, word)? {
                    Ok((number, presumed)) => Truth::known(number != 0).presuming(&presumed),
                    Err(causes) => Truth::Unknown(causes),
                };
                Ok(Flow::On)
            }
            Kind::Function { name, body } => {
                state.functions.insert(name.clone(), Rc::clone(body));
                state.status = Truth::known(true);
                Ok(Flow::On)
            }
        }
    }

    /// Runs something in a shell of its own: its commands and what it writes stay.
    pub fn apart(
        &mut self,
        state: &mut State,
        at: usize,
        run: impl FnOnce(&mut Self, &mut State) -> Result<Flow, SyntaxError>,
    ) -> Result<Flow, SyntaxError> {
        let mut inner = self.copy(state, at)?;
        let marks = self.waiting.len();
        run(self, &mut inner)?;
        self.waiting.truncate(marks);
        (state.recorded, state.output, state.status) = (inner.recorded, inner.output, inner.status);
        Ok(Flow::On)
    }

    fn simple(&mut self, state: &mut State, simple: &Simple, command: &Command) -> Result<Flow, SyntaxError> {
        let fields = self.argument_fields(state, &simple.arguments)?;
        if fields.is_empty() {
            state.status = Truth::known(true);
            for assignment in &simple.assignments {
                self.assignment(state, assignment)?;
            }
            return Ok(Flow::On);
        }
        let name = fields[0].known();
        if let Some(name) = &name
            && let Some(body) = state.functions.get(name.as_str()).cloned()
        {
            for assignment in &simple.assignments {
                self.assignment(state, assignment)?;
            }
            return self.call(state, &body, &fields[1..], command.at);
        }
        // What stands before a command holds for it alone.
        let mut before = Vec::new();
        for assignment in &simple.assignments {
            before.push((assignment.name.as_str(), state.variables.get(assignment.name.as_str()).cloned()));
            self.assignment(state, assignment)?;
        }
        let declared: Vec<&Assignment> = (simple.arguments.iter())
            .filter_map(|argument| match argument {
                Argument::Assignment(assignment) => Some(assignment),
                Argument::Word(_) => None,
            })
            .collect();
        let builtin = match &name {
            Some(name) => self.builtin(state, name, &fields, &declared, command)?,
            None => None,
        };
        let flow = match builtin {
            Some(flow) => flow,
            None => self.program(state, fields, command)?,
        };
        let keeps = matches!(name.as_deref(), Some("source" | "." | "eval" | "export" | "readonly"));
        for (name, variable) in before.into_iter().rev().filter(|_| !keeps) {
            match variable {
                Some(variable) => state.variables.insert(Rc::from(name), variable),
                None => state.variables.remove(name),
            };
        }
        Ok(flow)
    }

    /// A program that is not started.
    fn program(
        &mut self,
        state: &mut State,
        fields: Vec<Field>,
        command: &Command,
    ) -> Result<Flow, SyntaxError> {
        if let Some(flow) = self.inner_script(state, &fields, command)? {
            return Ok(flow);
        }
        let name = fields[0].known().unwrap_or_else(|| "a command".to_owned());
        let cause = |what| Causes::of(Cause { name: None, what, at: command.at });
        state.status = Truth::Unknown(cause(What::Outcome(format!("how {name} ends"))));
        if state.output.is_some() {
            state.write(Text::unknown(cause(What::Output(name)), command.at..command.at));
        }
        state.recorded.push(Rc::new(Recorded { fields, at: command.at, when: Causes::default() }));
        Ok(Flow::On)
    }

    /// Runs a function.
    fn call(
        &mut self,
        state: &mut State,
        body: &Command,
        arguments: &[Field],
        at: usize,
    ) -> Result<Flow, SyntaxError> {
        let list: Vec<Text> = arguments.iter().map(Field::value).collect();
        let own = Arguments { are_given: true, list };
        let outer = std::mem::replace(&mut state.arguments, own);
        state.hidden.push(Vec::new());
        let marks = self.waiting.len();
        let flow = self.deeper(at, |machine| machine.command(state, body))?;
        for waiting in self.waiting.split_off(marks) {
            if waiting.flow == Flow::Return && flow != Flow::Exit {
                self.rejoin(state, waiting);
            }
        }
        state.reveal();
        state.arguments = outer;
        Ok(if flow == Flow::Exit { Flow::Exit } else { Flow::On })
    }

    /// Sets what an assignment says.
    pub fn assignment(&mut self, state: &mut State, assignment: &Assignment) -> Result<(), SyntaxError> {
        let name = assignment.name.as_str();
        let before = state.variables.get(name).cloned();
        match (&assignment.value, &assignment.index) {
            (Assigned::Array(elements), _) => {
                let mut list = match (before.as_deref(), assignment.is_more) {
                    (Some(Variable::List(list)), true) => list.clone(),
                    (Some(Variable::Scalar(text)), true) => vec![(0, Item::One(text.clone()))],
                    _ => Vec::new(),
                };
                let is_map = matches!(before.as_deref(), Some(Variable::Map(_)));
                if is_map {
                    return self.map(state, name, elements, assignment.is_more);
                }
                self.elements(state, elements, &mut list)?;
                self.step(assignment.span.start, 1 + list.len() / 8)?;
                self.assign(state, name, Variable::List(list));
            }
            (Assigned::Scalar(word), None) => {
                let outer = self.setting.replace(name.to_owned());
                let text = self.text(state, word);
                self.setting = outer;
                let mut text = text?;
                text.span = None;
                self.assigned.insert(name.to_owned(), (assignment.span.clone(), text.clone()));
                // The value may have set the variable.
                let before = state.variables.get(name).cloned();
                if assignment.is_more {
                    let start = match before.as_deref() {
                        Some(variable) => variable.first().unwrap_or_default(),
                        None => self
                            .given(name)
                            .unwrap_or_else(|| Text::environment(name, assignment.span.clone())),
                    };
                    if let Some(Variable::List(list)) = before.as_deref() {
                        let mut list = list.clone();
                        let mut first = start;
                        first.push(text);
                        match list.iter_mut().find(|(index, _)| *index == 0) {
                            Some((_, item)) => *item = Item::One(first),
                            None => list.insert(0, (0, Item::One(first))),
                        }
                        self.assign(state, name, Variable::List(list));
                        return Ok(());
                    }
                    let mut all = start;
                    all.push(text);
                    self.makes(&all, assignment.span.start)?;
                    text = all;
                }
                let variable = match before.as_deref() {
                    Some(Variable::List(list)) => {
                        let rest = list.iter().filter(|(index, _)| *index != 0).cloned();
                        Variable::List([(0, Item::One(text))].into_iter().chain(rest).collect())
                    }
                    _ => Variable::Scalar(text),
                };
                self.assign(state, name, variable);
            }
            (Assigned::Scalar(word), Some(index)) => {
                let element = Element { index: Some(index.clone()), value: word.clone() };
                if matches!(before.as_deref(), Some(Variable::Map(_))) {
                    return self.map(state, name, &[element], true);
                }
                let mut list = match before.as_deref() {
                    Some(Variable::List(list)) => list.clone(),
                    Some(Variable::Scalar(text)) => vec![(0, Item::One(text.clone()))],
                    _ => Vec::new(),
                };
                self.elements(state, &[element], &mut list)?;
                self.step(assignment.span.start, 1 + list.len() / 8)?;
                self.assign(state, name, Variable::List(list));
            }
        }
        Ok(())
    }

    /// Puts elements behind those of `list`, or at their numbers.
    fn elements(
        &mut self,
        state: &mut State,
        elements: &[Element],
        list: &mut Vec<(i64, Item)>,
    ) -> Result<(), SyntaxError> {
        let mut next = list.last().map_or(0, |(index, _)| index.saturating_add(1));
        for element in elements {
            if let Some(index) = &element.index {
                let text = self.text(state, &element.value)?.with_quotes(false);
                if let Ok((index, _)) = self.number(state, index)? {
                    next = index;
                }
                list.retain(|(index, _)| *index != next);
                let at = list.partition_point(|(index, _)| *index < next);
                let text = Text { span: Some(element.value.span.clone()), ..text };
                list.insert(at, (next, Item::One(text)));
                next = next.saturating_add(1);
                continue;
            }
            let mut fields = Vec::new();
            self.word_fields(state, &element.value, &mut fields)?;
            for field in fields {
                list.push((next, item(field)));
                next = next.saturating_add(1);
            }
        }
        Ok(())
    }

    fn map(
        &mut self,
        state: &mut State,
        name: &str,
        elements: &[Element],
        keeps: bool,
    ) -> Result<(), SyntaxError> {
        let mut list = match state.variables.get(name).map(|variable| &**variable) {
            Some(Variable::Map(list)) if keeps => list.clone(),
            _ => Vec::new(),
        };
        for element in elements {
            let Some(index) = &element.index else { continue };
            let key = self.text(state, index)?.text().unwrap_or_default();
            let text = self.text(state, &element.value)?.with_quotes(false);
            match list.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = text,
                None => list.push((key, text)),
            }
        }
        self.step(0, 1 + list.len() / 8)?;
        self.assign(state, name, Variable::Map(list));
        Ok(())
    }
}

/// A word as an element of a list.
fn item(field: Field) -> Item {
    match field {
        Field::One { text, span, .. } => Item::One(Text { span: Some(span), ..text.with_quotes(false) }),
        Field::Either { one, other, causes } => {
            let items = |fields: Vec<Field>| fields.into_iter().map(item).collect();
            Item::Either { one: items(one), other: items(other), causes }
        }
    }
}

/// Whether only programs say it, by how they end.
pub fn is_outcome(causes: &Causes) -> bool {
    causes.iter().all(|cause| matches!(&cause.what, What::Outcome(what) if what.starts_with("how ")))
}
