//! The values of variables and arguments, and what is done with them in `${…}`.

use std::ops::Range;

use super::super::SyntaxError;
use super::expand::{Value, is_list};
use super::machine::Machine;
use super::pattern::Pattern;
use super::state::{Item, State, Variable};
use super::tree::{DefaultKind, Operator, Parameter, Replace, Subscript, Word};
use super::value::{Cause, Causes, Text, Truth, What};

/// What is there of a variable.
enum Looked {
    Set(Text),
    Unset,
    /// The environment may set it.
    Open(Text),
}

impl Machine<'_> {
    /// What `${…}` stands for.
    pub fn parameter(&mut self, state: &mut State, parameter: &Parameter) -> Result<Value, SyntaxError> {
        let span = &parameter.span;
        let mut parameter = parameter.clone();
        if parameter.is_indirect {
            if parameter.subscript.is_some() {
                return Ok(Value::Items { items: self.keys(state, &parameter.name), is_joined: false });
            }
            let name = match self.look(state, &parameter.name, None, span)? {
                Looked::Set(text) => text.settled(),
                Looked::Unset => Ok(String::new()),
                Looked::Open(text) => Err(text.causes()),
            };
            match name {
                Ok(name) => parameter.name = name,
                Err(causes) => return Ok(Value::Text(Text::unknown(causes, span.clone()))),
            }
        }
        match is_list(&parameter) {
            true => self.list_parameter(state, &parameter),
            false => self.scalar_parameter(state, &parameter),
        }
    }

    fn keys(&self, state: &State, name: &str) -> Vec<Item> {
        let key = |key: String| Item::One(Text::known(key, 0..0));
        match state.variables.get(name).map(|variable| &**variable) {
            Some(Variable::List(list)) => list.iter().map(|(index, _)| key(index.to_string())).collect(),
            Some(Variable::Map(list)) => list.iter().map(|(name, _)| key(name.clone())).collect(),
            _ => Vec::new(),
        }
    }

    /// All elements of a variable, or all arguments.
    fn items(&mut self, state: &State, name: &str, span: &Range<usize>) -> Vec<Item> {
        if matches!(name, "@" | "*") {
            let list = state.arguments.list.iter().cloned().map(Item::One);
            return list.collect();
        }
        match state.variables.get(name) {
            Some(variable) => variable.items(),
            None => match self.given(name) {
                Some(text) => vec![Item::One(text)],
                None if self.is_own(name) => Vec::new(),
                None => vec![Item::One(Text::environment(name, span.clone()))],
            },
        }
    }

    fn list_parameter(&mut self, state: &mut State, parameter: &Parameter) -> Result<Value, SyntaxError> {
        let span = &parameter.span;
        let mut items = self.items(state, &parameter.name, span);
        let is_joined =
            parameter.name == "*" || matches!(parameter.subscript, Some(Subscript::All { is_joined: true }));
        if matches!(parameter.name.as_str(), "@" | "*") && !state.arguments.are_given {
            self.notes.insert(
                "The script is read as run without arguments of its own (--env 1=VALUE gives one)."
                    .to_owned(),
            );
        }
        match &parameter.operator {
            Operator::Default { kind, has_colon, word } => {
                let is_empty = items.is_empty()
                    || (*has_colon
                        && items.len() == 1
                        && matches!(items[0].text().is_empty(), Truth::Known { holds: true, .. }));
                let takes_word = is_empty != (*kind == DefaultKind::Alternative);
                if takes_word {
                    return Ok(Value::Word(word.clone(), Causes::default()));
                }
                if is_empty {
                    return Ok(Value::Text(Text::default()));
                }
            }
            Operator::Slice { offset, length } => {
                // Arguments are counted from 1.
                let first = i64::from(matches!(parameter.name.as_str(), "@" | "*"));
                let offset = self.number(state, offset)?;
                let length = length.as_ref().map(|length| self.number(state, length)).transpose()?;
                let length = length.transpose();
                match (offset, length) {
                    (Ok((offset, _)), Ok(length)) => {
                        // Lists with gaps are counted by their numbers.
                        let places =
                            match state.variables.get(parameter.name.as_str()).map(|variable| &**variable) {
                                Some(Variable::List(list)) => list.iter().map(|(place, _)| *place).collect(),
                                _ => Vec::new(),
                            };
                        let next = places.last().map_or(0, |last| last + 1);
                        let gaps = places.len() as i64 != next;
                        let offset = match gaps {
                            true => places.partition_point(|place| {
                                *place < if offset < 0 { next + offset } else { offset }
                            }) as i64,
                            false => offset,
                        };
                        let offset =
                            if offset < 0 { offset + items.len() as i64 } else { (offset - first).max(0) };
                        let offset = usize::try_from(offset).unwrap_or(0).min(items.len());
                        let most = items.len() - offset;
                        let count =
                            length.map_or(most, |(length, _)| usize::try_from(length).unwrap_or(0).min(most));
                        items = items[offset..offset + count].to_vec();
                    }
                    (Err(causes), _) | (_, Err(causes)) => {
                        items = vec![Item::One(Text::unknown(causes, span.clone()))];
                    }
                }
            }
            Operator::None => {}
            operator => {
                let mut changed = Vec::with_capacity(items.len());
                for item in items {
                    changed.push(Item::One(self.changed(state, item.text(), operator, span)?));
                }
                items = changed;
            }
        }
        Ok(Value::Items { items, is_joined })
    }

    fn scalar_parameter(&mut self, state: &mut State, parameter: &Parameter) -> Result<Value, SyntaxError> {
        let span = &parameter.span;
        if matches!(parameter.operator, Operator::Length) {
            return self.length(state, parameter).map(Value::Text);
        }
        let looked = self.look(state, &parameter.name, parameter.subscript.as_ref(), span)?;
        if let Operator::Default { kind, has_colon, word } = &parameter.operator {
            return self.default(state, parameter, looked, (*kind, *has_colon, word));
        }
        let text = match looked {
            Looked::Open(text) if self.is_own(&parameter.name) => Text::default().presuming(&text.causes()),
            Looked::Set(text) | Looked::Open(text) => text,
            // Of nothing, nothing is replaced.
            Looked::Unset => return Ok(Value::Text(Text::default())),
        };
        self.changed(state, text, &parameter.operator, span).map(Value::Text)
    }

    /// `${name:-word}` and its kin.
    fn default(
        &mut self,
        state: &mut State,
        parameter: &Parameter,
        looked: Looked,
        (kind, has_colon, word): (DefaultKind, bool, &Word),
    ) -> Result<Value, SyntaxError> {
        let span = &parameter.span;
        let (text, is_missing) = match looked {
            Looked::Unset => (Text::default(), Truth::known(true)),
            Looked::Open(text) => {
                let causes = text.causes();
                (text, Truth::known(true).presuming(&causes))
            }
            Looked::Set(text) => {
                let is_missing = if has_colon { text.is_empty() } else { Truth::known(false) };
                (text, is_missing)
            }
        };
        let (is_missing, presumed) = match is_missing {
            Truth::Known { holds, presumed } => (holds, presumed),
            // It hangs on the same as the text does.
            Truth::Unknown(_) => (false, Causes::default()),
        };
        Ok(Value::Text(match (kind, is_missing) {
            (DefaultKind::Alternative, false) | (DefaultKind::Value, true) => {
                return Ok(Value::Word(word.clone(), presumed));
            }
            (DefaultKind::Alternative, true) => Text::default().presuming(&presumed),
            (_, false) => text,
            (DefaultKind::Assign, true) => {
                let value = self.text(state, word)?.presuming(&presumed);
                self.assign(state, &parameter.name, Variable::Scalar(value.clone()));
                value
            }
            // The script ends where it is not given, so it is.
            (DefaultKind::Error, true) => {
                let cause =
                    Cause { name: Some(parameter.name.clone()), what: What::Environment, at: span.start };
                Text::unknown(Causes::of(cause), span.clone())
            }
        }))
    }

    fn length(&mut self, state: &mut State, parameter: &Parameter) -> Result<Text, SyntaxError> {
        let span = &parameter.span;
        let of_list = matches!(parameter.subscript, Some(Subscript::All { .. }));
        if of_list || matches!(parameter.name.as_str(), "@" | "*") {
            let items = self.items(state, &parameter.name, span);
            let open = items.iter().find_map(|item| match item {
                Item::Either { causes, .. } => Some(causes.clone()),
                Item::One(_) => None,
            });
            return Ok(match open {
                Some(causes) => Text::unknown(causes, span.clone()),
                None => Text::known(items.len().to_string(), span.clone()),
            });
        }
        let text = match self.look(state, &parameter.name, parameter.subscript.as_ref(), span)? {
            Looked::Set(text) | Looked::Open(text) => text,
            Looked::Unset => Text::default(),
        };
        Ok(match text.settled() {
            Ok(known) => {
                Text::known(known.chars().count().to_string(), span.clone()).presuming(&text.presumed)
            }
            Err(causes) => Text::unknown(causes, span.clone()),
        })
    }

    /// The variable `name`, or an element of it.
    fn look(
        &mut self,
        state: &mut State,
        name: &str,
        subscript: Option<&Subscript>,
        span: &Range<usize>,
    ) -> Result<Looked, SyntaxError> {
        let variable = match (state.variables.get(name).cloned(), subscript) {
            (Some(variable), _) => variable,
            (None, None | Some(Subscript::All { .. })) => return Ok(self.special(state, name, span)),
            (None, Some(Subscript::At(_))) => match name {
                "BASH_SOURCE" => return Ok(self.special(state, name, span)),
                _ => return Ok(Looked::Open(Text::environment(name, span.clone()))),
            },
        };
        let Some(Subscript::At(index)) = subscript else {
            return Ok(variable.first().map_or(Looked::Unset, Looked::Set));
        };
        if let Variable::Map(list) = &*variable {
            let key = self.text(state, index)?;
            return Ok(match key.settled() {
                Ok(key) => {
                    let value = list.iter().find(|(known, _)| *known == key).map(|(_, text)| text.clone());
                    value.map_or(Looked::Unset, Looked::Set)
                }
                Err(causes) => Looked::Set(Text::unknown(causes, span.clone())),
            });
        }
        let (index, presumed) = match self.number(state, index)? {
            Ok(number) => number,
            Err(causes) => return Ok(Looked::Set(Text::unknown(causes, span.clone()))),
        };
        let items = match &*variable {
            Variable::List(list) => list.clone(),
            other => other.first().map(|text| (0, Item::One(text))).into_iter().collect(),
        };
        // Behind what is not known, nobody knows the places.
        let open = items.iter().find_map(|(_, item)| match item {
            Item::Either { causes, .. } => Some(causes.clone()),
            Item::One(_) => None,
        });
        let last = items.last().map_or(0, |(index, _)| index + 1);
        let wanted = if index < 0 { last + index } else { index };
        let found = items.iter().find(|(place, item)| *place == wanted && matches!(item, Item::One(_)));
        Ok(match (found, open) {
            (Some((_, item)), _) => Looked::Set(item.text().presuming(&presumed)),
            (None, Some(causes)) => Looked::Set(Text::unknown(causes, span.clone())),
            (None, None) => Looked::Unset,
        })
    }

    /// What the script has not set: arguments, what a shell itself sets, and the environment.
    fn special(&mut self, state: &mut State, name: &str, span: &Range<usize>) -> Looked {
        let known = |text: &str| Looked::Set(Text::known(text, span.clone()));
        if let Ok(number) = name.parse::<usize>() {
            let argument = number.checked_sub(1).and_then(|index| state.arguments.list.get(index));
            return match argument {
                Some(text) => Looked::Set(text.clone()),
                None if number == 0 => {
                    known(&format!("./{}", self.parts.first().map_or("", |part| part.file_name())))
                }
                None if state.arguments.are_given => Looked::Unset,
                None => Looked::Open(Text::environment(name, span.clone())),
            };
        }
        match name {
            "#" => {
                let text = Text::known(state.arguments.list.len().to_string(), span.clone());
                let cause = Cause { name: Some("1".to_owned()), what: What::Environment, at: span.start };
                Looked::Set(match state.arguments.are_given {
                    true => text,
                    false => text.presuming(&Causes::of(cause)),
                })
            }
            "?" => match &state.status {
                Truth::Known { holds, presumed } => {
                    Looked::Set(Text::known(if *holds { "0" } else { "1" }, span.clone()).presuming(presumed))
                }
                Truth::Unknown(causes) => Looked::Set(Text::unknown(causes.clone(), span.clone())),
            },
            "BASH_SOURCE" => {
                let name = format!("./{}", self.parts.last().map_or("", |part| part.file_name()));
                known(&name)
            }
            "PWD" => known("."),
            "BASH" => known("/bin/bash"),
            "-" => known("hB"),
            "$" | "!" | "RANDOM" | "SECONDS" | "LINENO" | "BASHPID" | "EPOCHSECONDS" => {
                let what = What::Output(format!("${name}"));
                let causes = Causes::of(Cause { name: None, what, at: span.start });
                Looked::Set(Text::unknown(causes, span.clone()))
            }
            _ => match self.given(name) {
                Some(text) => Looked::Set(text.placed(span)),
                None => Looked::Open(Text::environment(name, span.clone())),
            },
        }
    }

    /// `text` after `operator`.
    fn changed(
        &mut self,
        state: &mut State,
        text: Text,
        operator: &Operator,
        span: &Range<usize>,
    ) -> Result<Text, SyntaxError> {
        if matches!(operator, Operator::None) {
            return Ok(text);
        }
        let presumed = text.presumed.clone();
        let known = match text.settled() {
            Ok(known) => known,
            Err(causes) => return Ok(Text::unknown(causes, span.clone()).presuming(&presumed)),
        };
        let letters: Vec<char> = known.chars().collect();
        self.step(span.start, 1 + letters.len() / 64)?;
        let changed: Result<String, Causes> = match operator {
            Operator::Remove { is_prefix, is_longest, pattern } => {
                let pattern = self.text(state, pattern)?;
                let work = letters.len().saturating_mul(pattern.size()) / 16;
                self.step(span.start, work)?;
                match Pattern::of(&pattern) {
                    Some(pattern) => Ok(removed(&letters, &pattern, *is_prefix, *is_longest)),
                    None => Err(pattern.causes()),
                }
            }
            Operator::Replace { place, pattern, with } => {
                let (pattern, with) = (self.text(state, pattern)?, self.text(state, with)?);
                let work = letters.len().saturating_mul(letters.len()).saturating_mul(pattern.size()) / 64;
                self.step(span.start, work)?;
                match (Pattern::of(&pattern), with.settled()) {
                    (Some(pattern), Ok(with)) => Ok(replaced(&letters, &pattern, *place, &with)),
                    (None, _) => Err(pattern.causes()),
                    (_, Err(causes)) => Err(causes),
                }
            }
            Operator::Slice { offset, length } => {
                let offset = self.number(state, offset)?;
                let length =
                    length.as_ref().map(|length| self.number(state, length)).transpose()?.transpose();
                offset.and_then(|(offset, _)| {
                    length.map(|length| slice(&letters, offset, length.map(|(length, _)| length)))
                })
            }
            Operator::Case { is_upper, is_all } => Ok(cased(&letters, *is_upper, *is_all)),
            Operator::Transform => {
                Err(Causes::of(Cause {
                    name: None, what: What::Output("${…@…}".to_owned()), at: span.start
                }))
            }
            Operator::None | Operator::Length | Operator::Default { .. } => Ok(known),
        };
        Ok(match changed {
            Ok(changed) => Text::known(changed, span.clone()),
            Err(causes) => Text::unknown(causes, span.clone()),
        }
        .presuming(&presumed))
    }
}

fn removed(letters: &[char], pattern: &Pattern, is_prefix: bool, is_longest: bool) -> String {
    if is_prefix {
        let ends = pattern.ends(letters);
        let end = if is_longest { ends.last() } else { ends.first() };
        return letters[end.copied().unwrap_or(0)..].iter().collect();
    }
    let mut starts = 0..=letters.len();
    let is_match = |start: &usize| pattern.matches(&letters[*start..]);
    let start = if is_longest { starts.find(is_match) } else { starts.rfind(is_match) };
    letters[..start.unwrap_or(letters.len())].iter().collect()
}

fn replaced(letters: &[char], pattern: &Pattern, place: Replace, with: &str) -> String {
    let whole = || letters.iter().collect::<String>();
    match place {
        Replace::Prefix => match pattern.ends(letters).last() {
            Some(end) => with.chars().chain(letters[*end..].iter().copied()).collect(),
            None => whole(),
        },
        Replace::Suffix => match (0..=letters.len()).find(|start| pattern.matches(&letters[*start..])) {
            Some(start) => letters[..start].iter().copied().chain(with.chars()).collect(),
            None => whole(),
        },
        Replace::First | Replace::All => {
            let mut text = String::new();
            if letters.is_empty() && pattern.matches(letters) {
                return with.to_owned();
            }
            let mut at = 0;
            while at < letters.len() {
                match pattern.ends(&letters[at..]).last().filter(|end| **end > 0) {
                    Some(end) => {
                        text.push_str(with);
                        at += end;
                        if place == Replace::First {
                            break;
                        }
                    }
                    None => {
                        text.push(letters[at]);
                        at += 1;
                    }
                }
            }
            text.extend(&letters[at.min(letters.len())..]);
            text
        }
    }
}

fn slice(letters: &[char], offset: i64, length: Option<i64>) -> String {
    let count = i64::try_from(letters.len()).unwrap_or(i64::MAX);
    let start = if offset < 0 { count + offset } else { offset };
    if start < 0 || start > count {
        return String::new();
    }
    let end = match length {
        None => count,
        Some(length) if length < 0 => count + length,
        Some(length) => start.saturating_add(length).min(count),
    };
    let bounds = usize::try_from(start).ok().zip(usize::try_from(end.max(start)).ok());
    bounds.map_or_else(String::new, |(start, end)| letters[start..end].iter().collect())
}

fn cased(letters: &[char], is_upper: bool, is_all: bool) -> String {
    let change = |(index, letter): (usize, &char)| -> String {
        match (index == 0 || is_all, is_upper) {
            (false, _) => letter.to_string(),
            (true, true) => letter.to_uppercase().collect(),
            (true, false) => letter.to_lowercase().collect(),
        }
    };
    letters.iter().enumerate().map(change).collect()
}
