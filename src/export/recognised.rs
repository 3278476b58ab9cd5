//! Of which engine or program a file is: the one that knows most of its settings.

use std::path::Path;

use super::beside::Beside;
use super::error::ImportError;
use super::format::{Format, Role};
use super::formats::formats;
use super::import::Given;
use super::syntax::{Document, Surroundings, Syntax};
use super::targets::{Target, targets};
use crate::profile::engines::root;

/// How much more marks of a command's words count than those of variables.
const HANDED: usize = 4;

/// What reads a file.
#[derive(Clone, Copy)]
pub enum Source {
    /// A version of an engine.
    Engine(Target),
    /// A program that drives one.
    Program(&'static dyn Format),
}

impl Source {
    /// Its name and version.
    pub fn text(self) -> String {
        match self {
            Self::Engine(target) => target.text(),
            Self::Program(format) => format!("{}@{}", format.name(), format.version()),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine(target) => target.dialect.name(),
            Self::Program(format) => format.name(),
        }
    }

    fn has(self, syntax: Syntax) -> bool {
        match self {
            Self::Engine(target) => {
                target.dialect.syntax() == syntax || target.dialect.other_syntaxes().contains(&syntax)
            }
            Self::Program(format) => format.syntaxes().contains(&syntax),
        }
    }

    fn recognises(self, document: &Document) -> usize {
        match self {
            Self::Engine(target) => target.dialect.recognises(document),
            Self::Program(format) => format.recognises(document),
        }
    }

    /// Whether a setting of this name changes nothing that is predicted.
    pub fn is_idle(self, name: &str) -> bool {
        let matches = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        };
        match self {
            Self::Engine(target) => target.dialect.harmless().iter().any(|pattern| matches(pattern)),
            Self::Program(format) => {
                let name = name.replace('-', "_");
                format.keys().iter().any(|key| !matches!(key.role, Role::Read(_)) && key.name == name)
            }
        }
    }

    /// Whether the engine whose profile is called `name` may run its files.
    fn may_run_by(self, name: &str) -> bool {
        match self {
            Self::Engine(target) => {
                let others = target.dialect.hands_to();
                is_kin(name, target.dialect.profile()) || others.iter().any(|other| is_kin(name, other))
            }
            Self::Program(format) => format.engines().iter().any(|other| is_kin(name, other)),
        }
    }
}

/// All that read files: engines, then programs that drive them.
fn sources() -> impl Iterator<Item = Source> {
    targets().map(Source::Engine).chain(formats().map(Source::Program))
}

/// Whether the profile called `name` is for files of the engine whose profile is `own`: that one, or one that inherits
/// from it, as NeMo's from Megatron's.
pub fn is_kin(name: &str, own: &str) -> bool {
    name == own || root(name) == own
}

/// The source that knows most of the settings of `text`, among those of the syntaxes that a file called `path` may have.
///
/// # Errors
/// If it is of none of these syntaxes, or none knows a setting of it.
pub fn recognised(
    path: &str,
    text: &str,
    engine: Option<&str>,
    beside: Beside<'_>,
) -> Result<(Source, Document), ImportError> {
    let surroundings = Surroundings { environment: beside.environment(), beside };
    let mut best: Option<(usize, Source, Document)> = None;
    // Other commands of a script that are as good.
    let mut rivals: Vec<Document> = Vec::new();
    let mut first_error = None;
    for syntax in syntaxes(path) {
        let documents = match syntax.read_all(text, &surroundings) {
            Ok(documents) => documents,
            Err(error) => {
                first_error.get_or_insert(error);
                continue;
            }
        };
        let may_run = |source: &Source| engine.is_none_or(|name| source.may_run_by(name));
        for source in sources().filter(|source| source.has(*syntax)).filter(may_run) {
            for document in &documents {
                // What no command gets counts less.
                let is_handed = document.script.as_ref().is_none_or(|script| script.line.is_some());
                let marks = source.recognises(document) * if is_handed { HANDED } else { 1 };
                let (most, is_same) = match &best {
                    Some((most, known, _)) => (*most, known.text() == source.text()),
                    None => (0, false),
                };
                if marks > most {
                    rivals.clear();
                    best = Some((marks, source, document.clone()));
                } else if marks == most && marks > 0 && is_same {
                    rivals.push(document.clone());
                }
            }
        }
    }
    if let Some((_, source, document)) = best {
        for rival in &rivals {
            agree(path, source, &document, rival)?;
        }
        return Ok((source, document));
    }
    if let Some(error) = first_error {
        return Err(ImportError::Syntax { path: path.to_owned(), error });
    }
    let known = names(|source| syntaxes(path).iter().any(|syntax| source.has(*syntax)));
    let reason = match engine {
        Some(engine) => format!("it has no settings of {engine}"),
        None => {
            let others = names(|source| !known.contains(&source.name().to_owned())).join(", ");
            format!(
                "it has no settings of {}; files of {others} are read too, in other syntaxes",
                known.join(", ")
            )
        }
    };
    Err(ImportError::UnknownFile { path: path.to_owned(), reason, nearest: known })
}

/// That two commands of a script do not both train, each in its own way.
fn agree(path: &str, source: Source, one: &Document, other: &Document) -> Result<(), ImportError> {
    let line = |document: &Document| document.script.as_ref().and_then(|script| script.line);
    let (Some(line), Some(second)) = (line(one), line(other)) else { return Ok(()) };
    let is_idle = |name: &str| source.is_idle(name);
    let differs = |one: &Document, other: &Document| {
        let mut settings = one.found.iter().filter(|found| !is_idle(&found.path));
        settings.any(|found| other.get(&found.path).is_none_or(|known| known.value != found.value))
    };
    if !differs(one, other) && !differs(other, one) {
        return Ok(());
    }
    let names = [one, other].into_iter().filter_map(|document| document.script.as_ref());
    let mut names: Vec<&String> = names.flat_map(|script| &script.when).collect();
    names.sort();
    names.dedup();
    let given: Vec<String> = names.iter().map(|name| format!("--env {name}=VALUE")).collect();
    let advice = match given.as_slice() {
        [] => "keep the one that is meant in a file of its own".to_owned(),
        given => format!("give {}, which the branches (if) hang on", given.join(" or ")),
    };
    Err(ImportError::SeveralRuns { path: path.to_owned(), line, other: second, advice })
}

/// The document of a text of `source` that is its own.
///
/// # Errors
/// If it is not of its syntax.
pub fn document_of(source: Source, syntax: Syntax, given: &Given<'_>) -> Result<Document, ImportError> {
    let surroundings = Surroundings { environment: given.beside.environment(), beside: given.beside };
    let documents = syntax
        .read_all(given.text, &surroundings)
        .map_err(|error| ImportError::Syntax { path: given.path.to_owned(), error })?;
    // The first of several that say as much.
    let best = documents.into_iter().rev().max_by_key(|document| source.recognises(document));
    Ok(best.unwrap_or_else(|| Document::translated(syntax)))
}

fn names(wanted: impl Fn(&Source) -> bool) -> Vec<String> {
    let mut names: Vec<String> = sources().filter(wanted).map(|source| source.name().to_owned()).collect();
    names.dedup();
    names
}

/// The syntaxes that a file of this name may have.
fn syntaxes(path: &str) -> &'static [Syntax] {
    let extension = Path::new(path).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "toml" => &[Syntax::Toml],
        "json" => &[Syntax::Json],
        "yaml" | "yml" => &[Syntax::Yaml],
        "py" => &[Syntax::Python],
        _ => &[Syntax::Arguments, Syntax::Overrides],
    }
}
