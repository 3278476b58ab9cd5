//! Of which engine or program a file is: the one that knows most of its settings.

use std::path::Path;

use super::error::ImportError;
use super::format::Format;
use super::formats::formats;
use super::syntax::{Document, Syntax};
use super::targets::{Target, targets};
use crate::profile::engines::root;

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
pub fn recognised(path: &str, text: &str, engine: Option<&str>) -> Result<(Source, Document), ImportError> {
    let mut best: Option<(usize, Source, Document)> = None;
    let mut first_error = None;
    for syntax in syntaxes(path) {
        let document = match syntax.read(text) {
            Ok(document) => document,
            Err(error) => {
                first_error.get_or_insert(error);
                continue;
            }
        };
        let may_run = |source: &Source| engine.is_none_or(|name| source.may_run_by(name));
        for source in sources().filter(|source| source.has(*syntax)).filter(may_run) {
            let marks = source.recognises(&document);
            if marks > best.as_ref().map_or(0, |(most, ..)| *most) {
                best = Some((marks, source, document.clone()));
            }
        }
    }
    if let Some((_, source, document)) = best {
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
