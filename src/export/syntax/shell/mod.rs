//! Shell scripts as they are: a small interpreter of what they set and choose, which starts nothing.
//!
//! A script is read into a tree ([`tree`]) and gone through ([`machine`]). What it cannot decide by itself, a variable of the
//! environment or what a program writes, is a value that is not known, and is carried along with what it hangs on
//! ([`value`]); where a branch hangs on one, both ways are gone and joined ([`merge`]). What comes out are the commands that
//! the script would start, each with its words. Syntax and expansions are those of POSIX.1-2024 and of bash 5.2's manual.

mod arithmetic;
mod brace;
mod builtins;
mod commands;
mod compound;
mod conditions;
mod expand;
mod flow;
mod machine;
mod merge;
mod numbers;
mod parameters;
mod pattern;
mod regular;
mod run;
mod scan;
mod scripts;
mod split;
mod state;
mod string;
mod tree;
mod value;
mod variables;
mod words;

use std::ops::Range;
use std::rc::Rc;

use super::SyntaxError;
use crate::export::beside::Beside;
use machine::Machine;
pub use state::Field;
use state::{Arguments, Item, Recorded, State, Variable};
pub use value::{Causes, Text, What};

/// What a script finds outside of itself.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Variables by name, as somebody gives them.
    pub environment: &'a [(String, String)],
    /// The files beside it.
    pub beside: Beside<'a>,
}

impl Surroundings<'_> {
    /// Nothing.
    pub const NONE: Surroundings<'static> = Surroundings { environment: &[], beside: Beside::Nothing };
}

/// A file of a script: the first is the script itself, the others are what it sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    /// Where its text begins, in bytes of all files one after the other.
    pub base: usize,
    pub text: String,
}

impl Part {
    fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

/// What a script comes to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The commands that it would start, in order.
    pub commands: Vec<Rc<Recorded>>,
    /// What its variables hold in the end, where that may be arguments; in the order of their names.
    pub variables: Vec<Vec<Field>>,
    /// `name=value` as words, of what was set, in the order of the text.
    pub assigned: Vec<Field>,
    pub parts: Vec<Part>,
    /// What a reader should know: one sentence each.
    pub notes: Vec<String>,
    /// Variables of the environment that it asks for.
    pub asked: Vec<String>,
}

/// Goes through the script `text`.
///
/// # Errors
/// If it is no script, or does not come to an end in a bounded number of steps.
pub fn run(text: &str, surroundings: &Surroundings<'_>) -> Result<Outcome, SyntaxError> {
    let mut machine = Machine::new(surroundings);
    let list = machine.file("script", text)?;
    let mut state = State::default();
    let arguments = machine.arguments();
    state.arguments = Arguments { are_given: !arguments.is_empty(), list: arguments };
    machine.list(&mut state, &list)?;
    let is_own = |name: &str| !matches!(name, "IFS" | "OPTARG" | "OPTIND");
    let variables =
        state.variables.iter().filter(|(name, _)| is_own(name)).map(|(_, variable)| held(variable));
    let mut assigned: Vec<(String, (Range<usize>, Text))> = machine.assigned.into_iter().collect();
    assigned.sort_by_key(|(_, (span, _))| span.start);
    let word = |(name, (span, value)): (String, (Range<usize>, Text))| {
        let mut text = Text::known(format!("{name}="), span.clone());
        text.push(value);
        Field::One { text, span, is_many: false }
    };
    Ok(Outcome {
        assigned: assigned.into_iter().map(word).collect(),
        variables: variables.filter(|fields| !fields.is_empty()).collect(),
        commands: state.recorded,
        parts: machine.parts,
        notes: machine.notes.into_iter().collect(),
        asked: machine.asked.into_iter().collect(),
    })
}

/// The words that a variable stands for where it stands bare.
fn held(variable: &Variable) -> Vec<Field> {
    let items = match variable {
        Variable::Scalar(text) => {
            let pieces =
                text.pieces.iter().cloned().map(|piece| split::Segment::Piece { piece, splits: true });
            let presumed = split::Segment::Presumed(text.presumed.clone());
            return split::split([presumed].into_iter().chain(pieces).collect(), &(0..0), " \t\n");
        }
        other => other.items(),
    };
    let items: Vec<Item> = items;
    split::split(vec![split::Segment::Items { items, is_quoted: true }], &(0..0), " \t\n")
}

/// What to do where names are asked for.
pub fn advice(names: &[String]) -> String {
    match names {
        [] => "write what it is into the script".to_owned(),
        names => {
            let given: Vec<String> = names.iter().map(|name| format!("--env {name}=VALUE")).collect();
            format!("give {}", given.join(" or "))
        }
    }
}

#[cfg(test)]
mod tests_against_bash;
