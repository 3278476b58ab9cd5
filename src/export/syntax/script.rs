//! Shell scripts as settings: a document for each command that they would start with arguments.

use std::rc::Rc;

use super::arguments::Form;
use super::handed::Handed;
use super::shell::{self, Causes, Field, Outcome, Part, Surroundings, What, advice};
use super::{Document, Found, Syntax, SyntaxError, line_of};

/// What a document of a script keeps of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The script and what it sources.
    pub parts: Vec<Part>,
    /// What a reader should know: one sentence each.
    pub notes: Vec<String>,
    /// What the environment was said to be.
    pub environment: Vec<(String, String)>,
    /// Variables of the environment that it asks for.
    pub asked: Vec<String>,
    /// Which of the documents of its script it is.
    index: usize,
    /// The command's line; none of arguments that no command gets.
    pub line: Option<usize>,
    /// The name of the file that the command runs.
    pub program: Option<String>,
    /// What is to be given to know whether the command runs.
    pub when: Vec<String>,
}

/// Programs that start others, behind which their own arguments begin to matter.
const LAUNCHERS: &[&str] = &["torchrun", "python", "python3", "deepspeed", "accelerate", "nemo"];

/// The documents of `text`: of each command with arguments, then of what variables hold.
///
/// # Errors
/// If it is no script of a shell, or does not come to an end.
pub fn documents(
    syntax: Syntax,
    form: Form,
    text: &str,
    surroundings: &Surroundings<'_>,
) -> Result<Vec<Document>, SyntaxError> {
    let outcome = shell::run(text, surroundings)?;
    let mut candidates: Vec<(Vec<Field>, Option<usize>, Vec<String>)> = Vec::new();
    // Overrides that no command gets are assignments to a shell.
    let mut bare = if form == Form::Equals { outcome.assigned.clone() } else { Vec::new() };
    for command in &outcome.commands {
        // A line that begins with an argument is one of a list.
        if command.fields.first().and_then(Field::known).is_some_and(|word| begins(&word, form)) {
            bare.extend(command.fields.iter().cloned());
            continue;
        }
        let line = line(&outcome, command.at).map_or(1, |(_, line)| line);
        let when = names(&command.when);
        candidates.push((launched(&command.fields), Some(line), when));
    }
    let mut held = outcome.variables.clone();
    held.sort_by_key(|fields| fields.first().map_or(0, place));
    candidates.push((bare, None, Vec::new()));
    candidates.push((held.concat(), None, Vec::new()));
    let say = |causes: &Causes| said(&outcome, causes);
    let mut documents: Vec<Document> = Vec::new();
    for (fields, line, when) in candidates {
        let handed = Handed::of(&fields, form, &say);
        if handed.found.is_empty() {
            continue;
        }
        let script = Script {
            parts: outcome.parts.clone(),
            notes: outcome.notes.clone(),
            environment: surroundings.environment.to_vec(),
            asked: outcome.asked.clone(),
            index: documents.len(),
            line,
            program: fields.iter().find_map(program),
            when,
        };
        documents.push(Document::of_script(syntax, text, handed, Rc::new(script)));
    }
    if documents.is_empty() {
        documents.push(Document::translated(syntax).with_text(text));
    }
    Ok(documents)
}

/// The document among `documents` that says most of all that a command gets; without one, what variables hold.
pub fn main(documents: Vec<Document>) -> Option<Document> {
    let is_command =
        |document: &Document| document.script.as_ref().is_some_and(|script| script.line.is_some());
    // The first of several that say as much.
    documents.into_iter().rev().max_by_key(|document| (is_command(document), document.found.len()))
}

impl Document {
    /// The document at the same place in `text`, which this one's text was changed to.
    pub fn again(&self, text: &str) -> Result<Self, SyntaxError> {
        let Some(script) = &self.script else { return self.syntax.read(text) };
        let files: Vec<(String, String)> =
            script.parts.iter().skip(1).map(|part| (part.name.clone(), part.text.clone())).collect();
        let beside = crate::export::beside::Beside::Files(&files);
        let surroundings = Surroundings { environment: &script.environment, beside };
        let documents = self.syntax.read_all(text, &surroundings)?;
        let mut documents: Vec<Option<Self>> = documents.into_iter().map(Some).collect();
        let found = documents.get_mut(script.index).and_then(Option::take);
        found.ok_or_else(|| SyntaxError::Malformed { line: 1, reason: "the command is gone".to_owned() })
    }

    /// Where `found` stands: a file of the script and a line in it.
    pub(super) fn place_in_script(&self, found: &Found) -> Option<(String, usize)> {
        let script = self.script.as_ref()?;
        let part = script.parts.iter().rfind(|part| part.base <= found.entry.start)?;
        (part.base > 0).then(|| (part.name.clone(), line_of(&part.text, found.entry.start - part.base)))
    }
}

fn begins(word: &str, form: Form) -> bool {
    match form {
        Form::Dashes => word.starts_with("--"),
        Form::Equals => {
            word.split_once('=').is_some_and(|(name, _)| name.contains('.') || name.contains('_'))
        }
    }
}

/// The words from the program on that hands its arguments to the training script: what stands before it is for those that
/// find machines.
fn launched(fields: &[Field]) -> Vec<Field> {
    let is_launcher = |field: &Field| {
        field.known().is_some_and(|word| {
            let name = word.rsplit('/').next().unwrap_or_default();
            LAUNCHERS.contains(&name) || name.starts_with("python3.")
        })
    };
    let start = fields.iter().position(is_launcher).unwrap_or(0);
    fields[start..].to_vec()
}

/// The name of the file of Python that a word is, in whatever folder.
fn program(field: &Field) -> Option<String> {
    let shown = field.text().shown();
    let (word, unknown) = shown.last()?;
    let name = word.rsplit('/').next().unwrap_or_default();
    (unknown.is_none() && name.ends_with(".py")).then(|| name.to_owned())
}

fn place(field: &Field) -> usize {
    match field {
        Field::One { span, .. } => span.start,
        Field::Either { one, other, .. } => one.first().or(other.first()).map_or(0, place),
    }
}

fn line(outcome: &Outcome, at: usize) -> Option<(&Part, usize)> {
    let part = outcome.parts.iter().rfind(|part| part.base <= at)?;
    Some((part, line_of(&part.text, at - part.base)))
}

fn names(causes: &Causes) -> Vec<String> {
    let mut names: Vec<String> = causes.iter().filter_map(|cause| cause.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// What `causes` are, and what to do.
fn said(outcome: &Outcome, causes: &Causes) -> String {
    let about: Vec<String> = (causes.iter())
        .map(|cause| {
            let place = match line(outcome, cause.at) {
                Some((part, line)) if part.base > 0 => format!(" (line {line} of `{}`)", part.name),
                Some((_, line)) => format!(" (line {line})"),
                None => String::new(),
            };
            let name = cause.name.clone().unwrap_or_default();
            match &cause.what {
                What::Environment if name.chars().all(|c| c.is_ascii_digit()) => {
                    format!("argument ${name}{place}")
                }
                What::Environment => format!("`{name}`, which the script does not set{place}"),
                What::Output(text) => format!("what `{text}` writes{place}, and nothing is run"),
                What::Outcome(text) => format!("{text}{place}, which is not known in this branch (if)"),
                What::Loop => format!("a loop of unknown length{place}"),
            }
        })
        .collect();
    let names = names(causes);
    let or = if names.is_empty() { ", or --assume KEY=VALUE" } else { "" };
    format!("it hangs on {}: {}{or}", about.join(" and "), advice(&names))
}
