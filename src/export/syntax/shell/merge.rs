//! Two states of which one holds: what they agree on is known, the rest hangs on what chooses between them.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::state::{Field, Item, Recorded, State, Variable};
use super::value::{Causes, Text, Truth};

/// How one of two states is chosen.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'a> {
    /// Nothing says which.
    Open(&'a Causes),
    /// The first, as long as these are not given.
    First(&'a Causes),
}

impl State {
    /// This state or `other`. `given` says what a variable is that somebody settled.
    pub fn or(
        mut self,
        other: Self,
        choice: Choice<'_>,
        mut given: impl FnMut(&str) -> Option<Text>,
    ) -> Self {
        let names: BTreeSet<&Rc<str>> = self.variables.keys().chain(other.variables.keys()).collect();
        let mut changed = Vec::new();
        for name in names {
            let [one, two] = [&self, &other].map(|state| state.variables.get(&**name));
            let is_same = match (one, two) {
                (Some(one), Some(two)) => Rc::ptr_eq(one, two) || one.is_same(two),
                _ => false,
            };
            if is_same {
                continue;
            }
            let merged = match choice {
                Choice::First(causes) => match (one, given(name)) {
                    (None, Some(text)) => Variable::Scalar(text),
                    _ => presumed(one.map(|one| &**one), causes),
                },
                Choice::Open(causes) => match given(name) {
                    Some(text) => Variable::Scalar(text),
                    None => either(name, one.map(|one| &**one), two.map(|two| &**two), causes),
                },
            };
            changed.push((name.clone(), merged));
        }
        for (name, variable) in changed {
            self.set(&name, variable);
        }
        for (name, function) in other.functions {
            self.functions.entry(name).or_insert(function);
        }
        if let Choice::Open(causes) = choice {
            self.recorded = commands(self.recorded, other.recorded, causes);
            self.output = self.output.zip(other.output).map(|(one, other)| one.either(other, causes));
            self.status = Truth::Unknown(causes.clone());
            // Which arguments there are is not known where their number differs.
            let is_same = self.arguments.list.len() == other.arguments.list.len()
                && self
                    .arguments
                    .list
                    .iter()
                    .zip(&other.arguments.list)
                    .all(|(one, other)| one.is_same(other));
            if !is_same {
                self.arguments = super::state::Arguments::default();
            }
        }
        self
    }
}

fn presumed(taken: Option<&Variable>, causes: &Causes) -> Variable {
    match taken {
        Some(Variable::Scalar(text)) => Variable::Scalar(text.clone().presuming(causes)),
        Some(Variable::List(list)) => {
            let mut list = list.clone();
            if let Some((_, Item::One(text))) = list.last_mut() {
                text.presumed.add(causes);
            }
            Variable::List(list)
        }
        Some(other) => other.clone(),
        None => Variable::Scalar(Text::default().presuming(causes)),
    }
}

fn either(name: &str, one: Option<&Variable>, other: Option<&Variable>, causes: &Causes) -> Variable {
    let causes = causes.clone().named(name);
    let lists = |variable: Option<&Variable>| match variable {
        Some(Variable::List(list)) => Some(list.clone()),
        Some(Variable::Unset) | None => Some(Vec::new()),
        _ => None,
    };
    let has_list = [one, other].iter().any(|variable| matches!(variable, Some(Variable::List(_))));
    if let Some((one, other)) = lists(one).zip(lists(other)).filter(|_| has_list) {
        let alike = one.iter().zip(&other).take_while(|((_, one), (_, other))| one.is_same(other)).count();
        let rest = |list: &[(i64, Item)]| list[alike..].iter().map(|(_, item)| item.clone()).collect();
        let item = Item::Either { one: rest(&one), other: rest(&other), causes };
        let place = i64::try_from(alike).unwrap_or(i64::MAX);
        return Variable::List(one.into_iter().take(alike).chain([(place, item)]).collect());
    }
    let text = |variable: Option<&Variable>| match variable {
        Some(Variable::Scalar(text)) => Some(text.clone()),
        // What only the other way sets is empty here.
        Some(Variable::Unset) | None => Some(Text::default()),
        _ => None,
    };
    match text(one).zip(text(other)) {
        Some((one, other)) => Variable::Scalar(one.either(other, &causes)),
        None => Variable::Scalar(Text::unknown(causes, 0..0)),
    }
}

/// The commands of both: those before they part, then pairs of which one runs, then those of one alone.
fn commands(mut one: Vec<Rc<Recorded>>, other: Vec<Rc<Recorded>>, causes: &Causes) -> Vec<Rc<Recorded>> {
    let alike = one.iter().zip(&other).take_while(|(one, other)| Rc::ptr_eq(one, other)).count();
    let alone = |command: Rc<Recorded>| {
        let when = command.when.clone().and(causes);
        Rc::new(Recorded { fields: command.fields.clone(), when, ..*command })
    };
    let mut other = other.into_iter().skip(alike);
    for command in one.split_off(alike) {
        one.push(match other.next() {
            Some(second) => Rc::new(Recorded {
                at: command.at,
                when: command.when.clone().and(&second.when),
                fields: match is_same_words(&command.fields, &second.fields) {
                    true => command.fields.clone(),
                    false => vec![Field::Either {
                        one: command.fields.clone(),
                        other: second.fields.clone(),
                        causes: causes.clone(),
                    }],
                },
            }),
            None => alone(command),
        });
    }
    one.extend(other.map(alone));
    one
}

fn is_same_words(one: &[Field], other: &[Field]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| match (one, other) {
            (Field::One { text, .. }, Field::One { text: second, .. }) => text.is_same(second),
            _ => false,
        })
}
