//! Commands that a shell itself knows, and small programs whose output follows from their words.

use super::super::SyntaxError;
use super::machine::Machine;
use super::run::Flow;
use super::state::{Arguments, Field, State, Variable};
use super::tree::{Assigned, Assignment, Command, Redirect};
use super::value::{Cause, Causes, Text, Truth, What};

impl Machine<'_> {
    /// Does what the builtin `name` does; none if there is no such builtin.
    pub fn builtin(
        &mut self,
        state: &mut State,
        name: &str,
        fields: &[Field],
        declared: &[&Assignment],
        command: &Command,
    ) -> Result<Option<Flow>, SyntaxError> {
        let at = command.at;
        let words = &fields[1..];
        let mut status = Truth::known(true);
        let number = |words: &[Field]| {
            words.first().and_then(Field::known).and_then(|word| word.parse::<usize>().ok())
        };
        match name {
            ":" | "true" | "wait" | "trap" | "ulimit" | "sleep" | "cd" | "pushd" | "popd" | "mkdir"
            | "umask" | "alias" | "unalias" | "shopt" | "hash" | "disown" | "clear" | "date" | "hostname"
            | "module"
                if state.output.is_none() => {}
            ":" | "true" | "cd" | "pushd" | "popd" | "wait" | "trap" | "mkdir" => {}
            "false" => status = Truth::known(false),
            "echo" => self.echo(state, words, at),
            "printf" => self.printf(state, words, at),
            "pwd" => state.write(Text::known(".\n", at..at)),
            "test" => status = self.test_fields(state, words, at)?,
            "[" => match words.split_last() {
                Some((last, words)) if last.known().as_deref() == Some("]") => {
                    status = self.test_fields(state, words, at)?;
                }
                _ => return Err(self.error(at, "`]` is missing behind `[`")),
            },
            "let" => {
                for word in words {
                    let text = word.text();
                    status = match text.settled() {
                        Ok(known) => match self.computed(state, &known, &(at..at))? {
                            Ok((number, presumed)) => Truth::known(number != 0).presuming(&presumed),
                            Err(causes) => Truth::Unknown(causes),
                        },
                        Err(causes) => Truth::Unknown(causes),
                    };
                }
            }
            "export" | "readonly" | "local" | "declare" | "typeset" => {
                self.declare(state, name, words, declared)?;
            }
            "unset" => {
                let names: Vec<String> = words.iter().filter_map(Field::known).collect();
                for name in names.iter().filter(|name| !name.starts_with('-')) {
                    state.set(name, Variable::Unset);
                    state.functions.remove(name.as_str());
                }
            }
            "set" => self.set_arguments(state, words),
            "shift" => {
                let count = number(words).unwrap_or(1);
                status = Truth::known(count <= state.arguments.list.len());
                if count <= state.arguments.list.len() {
                    state.arguments.list.drain(..count);
                }
            }
            "read" | "mapfile" | "readarray" | "getopts" => {
                let what = What::Output(name.to_owned());
                let causes = Causes::of(Cause { name: None, what, at });
                let names = words.iter().filter_map(Field::known).filter(|word| !word.starts_with('-'));
                let names: Vec<String> =
                    names.filter(|word| word.chars().all(super::parameters::is_name)).collect();
                let text = match command.redirects.as_slice() {
                    [Redirect::HereString(word)] if names.len() == 1 => self.text(state, word)?,
                    _ => Text::unknown(causes.clone(), at..at),
                };
                for name in names {
                    self.assign(state, &name, Variable::Scalar(text.clone()));
                }
                let has_line = matches!(command.redirects.as_slice(), [Redirect::HereString(_)]);
                status = if has_line { Truth::known(true) } else { Truth::Unknown(causes) };
            }
            "source" | "." => return self.source(state, words, at).map(Some),
            "eval" => return self.eval(state, words, at).map(Some),
            "exit" => return Ok(Some(Flow::Exit)),
            "return" => {
                if let Some(code) = number(words) {
                    state.status = Truth::known(code == 0);
                }
                return Ok(Some(Flow::Return));
            }
            "break" => return Ok(Some(Flow::Break(number(words).unwrap_or(1).max(1)))),
            "continue" => return Ok(Some(Flow::Continue(number(words).unwrap_or(1).max(1)))),
            "command" | "builtin" | "exec" if words.first().is_some_and(is_plain) => {
                let inner = words[0].known().unwrap_or_default();
                if let Some(flow) = self.builtin(state, &inner, words, declared, command)? {
                    return Ok(Some(flow));
                }
                return Ok(None);
            }
            // Redirections of the script itself.
            "exec" if words.is_empty() => {}
            "expr" | "seq" | "basename" | "dirname" if state.output.is_some() => {
                self.small_program(state, name, words, at)?;
            }
            _ => return Ok(None),
        }
        state.status = status;
        Ok(Some(Flow::On))
    }

    fn test_fields(&mut self, state: &mut State, words: &[Field], at: usize) -> Result<Truth, SyntaxError> {
        // A word that is not known may be no word at all, as `[ $X = 1 ]` has it.
        let texts: Vec<Text> = words.iter().map(Field::text).collect();
        self.test(state, &texts, at)
    }

    fn echo(&mut self, state: &mut State, words: &[Field], at: usize) {
        if state.output.is_none() {
            return;
        }
        let mut words = words;
        let mut ends_line = true;
        let mut is_spelt = false;
        while let [first, rest @ ..] = words {
            match first.known().as_deref() {
                Some("-n") => ends_line = false,
                Some("-e") => is_spelt = true,
                Some("-E") => is_spelt = false,
                Some("-ne" | "-en") => (ends_line, is_spelt) = (false, true),
                _ => break,
            }
            words = rest;
        }
        let mut all = Text::default();
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                all.push(Text::known(" ", at..at));
            }
            all.push(word.text());
        }
        if ends_line {
            all.push(Text::known("\n", at..at));
        }
        if is_spelt && let Some(known) = all.text() {
            let mut bytes = Vec::new();
            let mut rest = known.as_str();
            while let Some(next) = rest.chars().next() {
                rest = &rest[next.len_utf8()..];
                match next {
                    '\\' => rest = &rest[super::string::escape(rest, &mut bytes)..],
                    other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
                }
            }
            let presumed = all.presumed;
            all = Text::known(String::from_utf8_lossy(&bytes), at..at).presuming(&presumed);
        }
        state.write(all);
    }

    /// `printf` of words and whole numbers; what else it can do is not known.
    fn printf(&mut self, state: &mut State, words: &[Field], at: usize) {
        let mut texts = words.iter().map(Field::text);
        if let [first, ..] = words
            && first.known().as_deref() == Some("-v")
        {
            texts.next();
            let name = texts.next().and_then(|text| text.text()).unwrap_or_default();
            let text = formatted(texts.collect(), at);
            self.assign(state, &name, Variable::Scalar(text));
            return;
        }
        if state.output.is_some() {
            let text = formatted(texts.collect(), at);
            state.write(text);
        }
    }

    fn declare(
        &mut self,
        state: &mut State,
        name: &str,
        words: &[Field],
        declared: &[&Assignment],
    ) -> Result<(), SyntaxError> {
        let known: Vec<String> = words.iter().filter_map(Field::known).collect();
        let has = |flag: char| known.iter().any(|word| word.starts_with('-') && word.contains(flag));
        let is_local = matches!(name, "local" | "declare" | "typeset") && !has('g');
        for word in known.iter().filter(|word| !word.starts_with('-')) {
            let (name, value) =
                word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            if is_local {
                state.hide(name);
            }
            match value {
                Some(value) => self.assign(state, name, Variable::Scalar(Text::known(value, 0..0))),
                None if has('A') => state.set(name, Variable::Map(Vec::new())),
                None if has('a') => state.set(name, Variable::List(Vec::new())),
                None if is_local && !state.hidden.is_empty() => state.set(name, Variable::Unset),
                None => {}
            }
        }
        for assignment in declared {
            if is_local {
                // The value is that of the variable outside, if it names it.
                if !matches!(assignment.value, Assigned::Scalar(_)) || assignment.is_more {
                    state.hide(&assignment.name);
                } else {
                    let before = state.variables.get(assignment.name.as_str()).cloned();
                    self.assignment(state, assignment)?;
                    let after = state.variables.get(assignment.name.as_str()).cloned();
                    match before {
                        Some(before) => state.variables.insert(assignment.name.as_str().into(), before),
                        None => state.variables.remove(assignment.name.as_str()),
                    };
                    state.hide(&assignment.name);
                    if let Some(after) = after {
                        state.variables.insert(assignment.name.as_str().into(), after);
                    }
                    continue;
                }
            }
            if has('A') {
                state.set(&assignment.name, Variable::Map(Vec::new()));
            }
            self.assignment(state, assignment)?;
            if has('i')
                && let Some(text) =
                    state.variables.get(assignment.name.as_str()).and_then(|variable| variable.first())
                && let Some(known) = text.text()
                && let Ok((number, presumed)) = self.computed(state, &known, &assignment.span)?
            {
                let text = Text::known(number.to_string(), assignment.span.clone()).presuming(&presumed);
                self.assign(state, &assignment.name, Variable::Scalar(text));
            }
        }
        Ok(())
    }

    /// `set -- one two`; options of the shell change no value.
    fn set_arguments(&mut self, state: &mut State, words: &[Field]) {
        let dashes = words.iter().position(|word| word.known().as_deref() == Some("--"));
        let is_option = |word: &Field| word.known().is_some_and(|word| word.starts_with(['-', '+']));
        let list = match dashes {
            Some(at) => &words[at + 1..],
            None => match words.iter().position(|word| !is_option(word)) {
                // `set -o pipefail`.
                Some(at) if at > 0 && words[at - 1].known().is_some_and(|word| word.ends_with('o')) => return,
                Some(at) => &words[at..],
                None => return,
            },
        };
        state.arguments = Arguments { list: list.iter().map(Field::value).collect(), are_given: true };
    }

    /// Programs that make text of their words.
    fn small_program(
        &mut self,
        state: &mut State,
        name: &str,
        words: &[Field],
        at: usize,
    ) -> Result<(), SyntaxError> {
        let texts: Vec<Text> = words.iter().map(Field::text).collect();
        let mut causes = Causes::default();
        let mut presumed = Causes::default();
        for text in &texts {
            causes.add(&text.causes());
            presumed.add(&text.presumed);
        }
        let known: Option<Vec<String>> = texts.iter().map(Text::text).collect();
        let Some(known) = known else {
            state.write(Text::unknown(causes, at..at));
            return Ok(());
        };
        let output = match (name, known.as_slice()) {
            ("expr", words) => match self.computed(state, &words.join(" "), &(at..at))? {
                Ok((number, own)) => {
                    presumed.add(&own);
                    Some(number.to_string())
                }
                Err(_) => None,
            },
            ("seq", words) => sequence(words),
            ("basename", [path]) => Some(base(path).to_owned()),
            ("basename", [path, end]) => {
                let name = base(path);
                Some(
                    name.strip_suffix(end.as_str())
                        .filter(|rest| !rest.is_empty())
                        .unwrap_or(name)
                        .to_owned(),
                )
            }
            ("dirname", [path]) => Some(match path.trim_end_matches('/').rsplit_once('/') {
                Some(("", _)) => "/".to_owned(),
                Some((folder, _)) => folder.to_owned(),
                None => ".".to_owned(),
            }),
            _ => None,
        };
        state.write(match output {
            Some(text) => Text::known(text + "\n", at..at).presuming(&presumed),
            None => {
                let what = What::Output(name.to_owned());
                Text::unknown(Causes::of(Cause { name: None, what, at }), at..at)
            }
        });
        Ok(())
    }
}

fn base(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

fn is_plain(word: &Field) -> bool {
    word.known().is_some_and(|word| !word.starts_with('-'))
}

/// The numbers that `seq` counts, if they are not too many.
fn sequence(words: &[String]) -> Option<String> {
    let numbers: Option<Vec<i64>> = words.iter().map(|word| word.parse().ok()).collect();
    let (first, step, last) = match numbers?.as_slice() {
        [last] => (1, 1, *last),
        [first, last] => (*first, 1, *last),
        [first, step, last] if *step != 0 => (*first, *step, *last),
        _ => return None,
    };
    let count = last.checked_sub(first)?.checked_div(step)?;
    if count >= 4096 {
        return None;
    }
    let numbers: Vec<String> = (0..=count.max(-1)).map(|index| (first + step * index).to_string()).collect();
    Some(if count < 0 { String::new() } else { numbers.join("\n") })
}

/// What `printf` makes of a format and texts.
fn formatted(texts: Vec<Text>, at: usize) -> Text {
    let mut all = Causes::default();
    let mut presumed = Causes::default();
    for text in &texts {
        all.add(&text.causes());
        presumed.add(&text.presumed);
    }
    let known: Option<Vec<String>> = texts.iter().map(Text::text).collect();
    let Some(known) = known else { return Text::unknown(all, at..at) };
    let Some((format, words)) = known.split_first() else { return Text::default() };
    let mut words = words.iter();
    let mut output = Vec::new();
    loop {
        let before = words.len();
        let mut rest = format.as_str();
        while let Some(next) = rest.chars().next() {
            rest = &rest[next.len_utf8()..];
            match next {
                '\\' => rest = &rest[super::string::escape(rest, &mut output)..],
                '%' if rest.starts_with('%') => {
                    rest = &rest[1..];
                    output.push(b'%');
                }
                '%' if rest.starts_with(['s', 'd']) => {
                    let is_number = rest.starts_with('d');
                    rest = &rest[1..];
                    let word = words.next().map_or(if is_number { "0" } else { "" }, String::as_str);
                    output.extend(word.bytes());
                }
                '%' => {
                    let what = What::Output("printf".to_owned());
                    return Text::unknown(Causes::of(Cause { name: None, what, at }), at..at);
                }
                other => output.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        if words.len() == 0 || words.len() == before {
            break;
        }
    }
    Text::known(String::from_utf8_lossy(&output), at..at).presuming(&presumed)
}
