//! What holds at a point of a script: variables, functions, arguments, and the commands that ran.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

use super::tree::Command;
use super::value::{Causes, Text, Truth};

/// A variable that the script has touched.
#[derive(Clone, Debug)]
pub enum Variable {
    Scalar(Text),
    /// Elements by number, in order.
    List(Vec<(i64, Item)>),
    /// Elements by name.
    Map(Vec<(String, Text)>),
    Unset,
}

/// An element of a list, or what stands in its place where that is not known.
#[derive(Clone, Debug)]
pub enum Item {
    One(Text),
    Either { one: Vec<Self>, other: Vec<Self>, causes: Causes },
}

/// A word as a command gets it.
#[derive(Clone, Debug)]
pub enum Field {
    One {
        text: Text,
        span: Range<usize>,
        /// It may be several words or none.
        is_many: bool,
    },
    Either {
        one: Vec<Self>,
        other: Vec<Self>,
        causes: Causes,
    },
}

/// A command that ran, of which no more is known than its words.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub fields: Vec<Field>,
    pub at: usize,
    /// What it hangs on whether it runs.
    pub when: Causes,
}

/// Arguments of the script or of a function.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    pub list: Vec<Text>,
    /// There are no others; of a script that is read without any, the rest is not known.
    pub are_given: bool,
}

/// All of it. A branch that may or may not run works on a copy.
#[derive(Clone, Debug)]
pub struct State {
    pub variables: BTreeMap<Rc<str>, Rc<Variable>>,
    pub functions: HashMap<String, Rc<Command>>,
    pub arguments: Arguments,
    /// Variables that functions hide, the innermost last.
    pub hidden: Vec<Vec<(String, Option<Rc<Variable>>)>>,
    pub recorded: Vec<Rc<Recorded>>,
    /// What was written so far, where a substitution takes it.
    pub output: Option<Text>,
    pub status: Truth,
}

impl Default for State {
    fn default() -> Self {
        Self {
            variables: BTreeMap::new(),
            functions: HashMap::new(),
            arguments: Arguments::default(),
            hidden: Vec::new(),
            recorded: Vec::new(),
            output: None,
            status: Truth::known(true),
        }
    }
}

impl State {
    pub fn set(&mut self, name: &str, variable: Variable) {
        self.variables.insert(Rc::from(name), Rc::new(variable));
    }

    /// Writes `text` where output is taken.
    pub fn write(&mut self, text: Text) {
        if let Some(output) = &mut self.output {
            output.push(text);
        }
    }

    /// Makes `name` a variable of the function that runs.
    pub fn hide(&mut self, name: &str) {
        let before = self.variables.get(name).cloned();
        let Some(hidden) = self.hidden.last_mut() else { return };
        if hidden.iter().all(|(known, _)| known != name) {
            hidden.push((name.to_owned(), before));
        }
    }

    /// Ends a function: what it hid is there again.
    pub fn reveal(&mut self) {
        for (name, before) in self.hidden.pop().unwrap_or_default() {
            match before {
                Some(variable) => self.variables.insert(Rc::from(name), variable),
                None => self.variables.remove(name.as_str()),
            };
        }
    }
}

impl Variable {
    /// The value that `$name` has.
    pub fn first(&self) -> Option<Text> {
        match self {
            Self::Scalar(text) => Some(text.clone()),
            Self::List(list) => list.iter().find(|(index, _)| *index == 0).map(|(_, item)| item.text()),
            Self::Map(list) => list.iter().find(|(key, _)| key == "0").map(|(_, text)| text.clone()),
            Self::Unset => None,
        }
    }

    /// The elements that `${name[@]}` has.
    pub fn items(&self) -> Vec<Item> {
        match self {
            Self::Scalar(text) => vec![Item::One(text.clone())],
            Self::List(list) => list.iter().map(|(_, item)| item.clone()).collect(),
            Self::Map(list) => list.iter().map(|(_, text)| Item::One(text.clone())).collect(),
            Self::Unset => Vec::new(),
        }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(one), Self::Scalar(other)) => one.is_same(other),
            (Self::List(one), Self::List(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .zip(other)
                        .all(|((index, one), (place, other))| index == place && one.is_same(other))
            }
            (Self::Map(one), Self::Map(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .zip(other)
                        .all(|((key, one), (name, other))| key == name && one.is_same(other))
            }
            (Self::Unset, Self::Unset) => true,
            _ => false,
        }
    }
}

impl Item {
    /// The element as one text.
    pub fn text(&self) -> Text {
        match self {
            Self::One(text) => text.clone(),
            Self::Either { causes, .. } => Text::unknown(causes.clone(), 0..0),
        }
    }

    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(one), Self::One(other)) => one.is_same(other),
            (Self::Either { one, other, .. }, Self::Either { one: left, other: right, .. }) => {
                let all = |one: &[Self], other: &[Self]| {
                    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_same(other))
                };
                all(one, left) && all(other, right)
            }
            _ => false,
        }
    }
}

impl Field {
    /// The word as one text.
    pub fn text(&self) -> Text {
        match self {
            Self::One { text, .. } => text.clone(),
            Self::Either { causes, .. } => Text::unknown(causes.clone(), 0..0),
        }
    }

    /// The word as a value, whose quotes are done with.
    pub fn value(&self) -> Text {
        self.text().with_quotes(false)
    }

    /// The word, if all of it is known.
    pub fn known(&self) -> Option<String> {
        match self {
            Self::One { text, .. } => text.text(),
            Self::Either { .. } => None,
        }
    }
}
