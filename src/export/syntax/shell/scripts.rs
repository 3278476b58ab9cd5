//! Scripts inside a script: files that it sources, and texts that it gives to a shell.

use super::super::SyntaxError;
use super::machine::Machine;
use super::run::Flow;
use super::state::{Arguments, Field, State, Variable};
use super::tree::{Command, Redirect};
use super::value::{Piece, Text, Truth};

/// Files at the most that a script reads.
const MOST_FILES: usize = 32;

/// Parts of names of files that set up a machine and no run.
const SETUPS: &[&str] =
    &["activate", "conda", "bashrc", "profile", "modules", "setvars", "/etc/", ".env", "spack", "cuda"];

/// Shells that take a script.
const SHELLS: &[&str] = &["bash", "sh", "zsh", "dash"];

/// A script, and variables in it that stand for what is not known.
type Opened = (String, Vec<(String, Text)>);

/// Programs that run a file as a script elsewhere.
const SUBMITTERS: &[&str] = &["sbatch", "ssh"];

impl Machine<'_> {
    /// `source FILE`.
    pub fn source(&mut self, state: &mut State, words: &[Field], at: usize) -> Result<Flow, SyntaxError> {
        let Some((file, arguments)) = words.split_first() else { return Ok(Flow::On) };
        state.status = Truth::known(true);
        let text = file.text();
        if let Some(name) = elsewhere(&text) {
            self.not_read(&name, at);
            return Ok(Flow::On);
        }
        let name = match text.settled() {
            Ok(name) => name,
            Err(causes) => {
                let names = super::machine::asked_names(&causes);
                let rule = format!("the file that is sourced here is not known: {}", super::advice(&names));
                return Err(self.error(at, rule));
            }
        };
        let is_setup = |name: &str| SETUPS.iter().any(|part| name.contains(part));
        let own = name.trim_start_matches("./");
        let is_near = !name.starts_with('/') && !name.starts_with('~');
        match if is_near { self.beside(own) } else { Err(String::new()) } {
            Ok(script) => {
                if self.parts.len() > MOST_FILES {
                    return Err(self.error(at, format!("more than {MOST_FILES} files are sourced")));
                }
                let list = self.file(own, &script)?;
                let outer = (!arguments.is_empty()).then(|| {
                    let list = arguments.iter().map(Field::value).collect();
                    std::mem::replace(&mut state.arguments, Arguments { list, are_given: true })
                });
                let flow = self.deeper(at, |machine| machine.list(state, &list))?;
                if let Some(outer) = outer {
                    state.arguments = outer;
                }
                Ok(if flow == Flow::Exit { Flow::Exit } else { Flow::On })
            }
            Err(_) if !is_near || is_setup(&name) => {
                self.not_read(&name, at);
                Ok(Flow::On)
            }
            Err(reason) => Err(self.error(
                at,
                format!(
                    "`{name}`, which is sourced here, cannot be read ({reason}): put it beside the script"
                ),
            )),
        }
    }

    fn not_read(&mut self, name: &str, at: usize) {
        let line = self.line(at);
        self.notes
            .insert(format!("`{name}`, which {line} sources, is not read: it lies not beside the script."));
    }

    /// `eval WORDS`.
    pub fn eval(&mut self, state: &mut State, words: &[Field], at: usize) -> Result<Flow, SyntaxError> {
        let mut all = Text::default();
        for (index, word) in words.iter().enumerate() {
            if index > 0 {
                all.push(Text::known(" ", at..at + 1));
            }
            all.push(word.text());
        }
        if let Some((script, open)) = self.with_variables(&all) {
            let list = self.made(&script, at..at + 1)?;
            for (name, text) in open {
                state.set(&name, Variable::Scalar(text));
            }
            return self.deeper(at, |machine| machine.list(state, &list));
        }
        // As good as its words.
        let fields = words.to_vec();
        state.status = Truth::known(true);
        let when = super::value::Causes::default();
        state.recorded.push(super::state::Recorded { fields, at, when }.into());
        Ok(Flow::On)
    }

    /// A script that a shell among the words of a command is given: behind `-c`, in a here-document, or as a file beside.
    pub fn inner_script(
        &mut self,
        state: &mut State,
        fields: &[Field],
        command: &Command,
    ) -> Result<Option<Flow>, SyntaxError> {
        let at = command.at;
        let known: Vec<String> = fields.iter().map(|field| field.known().unwrap_or_default()).collect();
        let name = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
        let is_program = |word: &String| word.ends_with(".py") || name(word) == "torchrun";
        let before_program = known.iter().position(is_program).unwrap_or(known.len());
        let Some(shell) =
            known[..before_program].iter().position(|word| SHELLS.contains(&name(word).as_str()))
        else {
            if SUBMITTERS.contains(&name(&known[0]).as_str()) {
                return self.here_script(state, command);
            }
            return Ok(None);
        };
        let rest = shell + 1;
        let flag = known[rest..]
            .iter()
            .position(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'));
        if let Some(flag) = flag {
            let Some(field) = fields.get(rest + flag + 1) else { return Ok(None) };
            let Some((script, open)) = self.with_variables(&field.text()) else { return Ok(None) };
            let span = match field {
                Field::One { span, .. } => span.clone(),
                Field::Either { .. } => at..at + 1,
            };
            let list = self.made(&script, span)?;
            let own: Vec<Text> = fields[rest + flag + 2..].iter().skip(1).map(Field::value).collect();
            return self.as_script(state, (own, open), at, &list).map(Some);
        }
        let file = known[rest..].iter().position(|word| !word.starts_with('-') && !word.is_empty());
        let Some(file) = file.map(|file| rest + file) else { return self.here_script(state, command) };
        let own = known[file].trim_start_matches("./").to_owned();
        if own.starts_with('/') {
            return Ok(None);
        }
        let Ok(script) = self.beside(&own) else { return Ok(None) };
        if self.parts.len() > MOST_FILES {
            return Err(self.error(at, format!("more than {MOST_FILES} files are read")));
        }
        let list = self.file(&own, &script)?;
        let arguments: Vec<Text> = fields[file + 1..].iter().map(Field::value).collect();
        self.as_script(state, (arguments, Vec::new()), at, &list).map(Some)
    }

    /// Runs a script in a shell of its own, with its arguments and the variables that stand for what is not known.
    fn as_script(
        &mut self,
        state: &mut State,
        (arguments, open): (Vec<Text>, Vec<(String, Text)>),
        at: usize,
        list: &super::tree::List,
    ) -> Result<Flow, SyntaxError> {
        self.deeper(at, |machine| {
            machine.apart(state, at, |machine, state| {
                state.arguments = Arguments { list: arguments, are_given: true };
                for (name, text) in open {
                    state.set(&name, Variable::Scalar(text));
                }
                machine.list(state, list)
            })
        })
    }

    fn here_script(&mut self, state: &mut State, command: &Command) -> Result<Option<Flow>, SyntaxError> {
        let body = command.redirects.iter().find_map(|redirect| match redirect {
            Redirect::Here(body) => body.get(),
            Redirect::HereString(word) => Some(word),
            Redirect::File { .. } => None,
        });
        let Some(body) = body else { return Ok(None) };
        let text = self.text(state, body)?;
        let Some((script, open)) = self.with_variables(&text) else { return Ok(None) };
        let list = self.made(&script, body.span.clone())?;
        self.as_script(state, (Vec::new(), open), command.at, &list).map(Some)
    }

    /// The script that `text` is, with a variable in place of each piece that is not known, and those variables. None if
    /// nothing of it is known.
    fn with_variables(&mut self, text: &Text) -> Option<Opened> {
        let (mut script, mut open) = (String::new(), Vec::new());
        let (mut quote, mut is_escaped) = (None, false);
        for piece in &text.pieces {
            match piece {
                Piece::Known { text, .. } => {
                    for letter in text.chars() {
                        match letter {
                            _ if is_escaped => is_escaped = false,
                            '\\' => is_escaped = quote != Some('\''),
                            '\'' | '"' if quote.is_none() => quote = Some(letter),
                            _ if quote == Some(letter) => quote = None,
                            _ => {}
                        }
                    }
                    script.push_str(text);
                }
                _ => {
                    let name = self.open_name();
                    // Single quotes would hold back what the outer shell has put in already.
                    let is_held = quote == Some('\'');
                    script += &if is_held { format!("'\"${{{name}}}\"'") } else { format!("${{{name}}}") };
                    open.push((name, Text::of(piece.clone()).presuming(&text.presumed)));
                }
            }
        }
        let is_known = text.pieces.iter().any(|piece| match piece {
            Piece::Known { text, .. } => !text.trim().is_empty(),
            _ => false,
        });
        is_known.then_some((script, open))
    }
}

/// The name of a file in a folder that a variable of the environment names, as in `$HOME/setup`: it is no file of the
/// script's own.
fn elsewhere(text: &Text) -> Option<String> {
    let (first, rest) = text.pieces.split_first()?;
    let Piece::Unknown { causes, is_unset: true, .. } = first else { return None };
    let variable = causes.iter().find_map(|cause| cause.name.as_deref())?;
    let rest = Text { pieces: rest.to_vec(), ..Text::default() }.text()?;
    rest.starts_with('/').then(|| format!("${variable}{rest}"))
}
