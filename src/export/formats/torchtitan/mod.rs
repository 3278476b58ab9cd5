//! torchtitan as it is started: a command that names a configuration, with `--section.key` over what that says.

use serde_json::Value;

use crate::export::engines::torchtitan::registered;
use crate::export::error::ImportError;
use crate::export::format::{Format, Key, Read};
use crate::export::meaning::{ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Origin, Place, Syntax};
use crate::export::targets::{Target, targets};

/// The command of torchtitan.
pub struct Command;

/// The file that releases with TOML files are told.
const FILE: &str = "job.config_file";

/// The function that later versions are told, and where it is.
const FUNCTION: &str = "config";
const MODULE: &str = "module";

/// Settings of batches in sequences, and in tokens.
const SEQUENCES: &[&str] = &["training.local_batch_size", "training.global_batch_size", "training.seq_len"];
const TOKENS: &[&str] = &[
    "training.num_tokens_per_microbatch_per_dp_rank",
    "training.num_tokens_per_train_step",
    "training.max_context_length",
];

const KEYS: &[Key] = &[
    Key::read(FILE, "", "the configuration in TOML"),
    Key::read(MODULE, "", "where the configuration's function is"),
    Key::read(FUNCTION, "", "the function that makes the configuration"),
    Key::idle("nproc-per-node"),
    Key::idle("nnodes"),
    Key::idle("node-rank"),
    Key::idle("rdzv-*"),
    Key::idle("master-*"),
    Key::idle("local-ranks-filter"),
    Key::idle("role"),
    Key::idle("tee"),
    Key::idle("log-dir"),
    Key::idle("redirects"),
    Key::idle("max-restarts"),
    Key::idle("standalone"),
    Key::idle("local-addr"),
];

impl Format for Command {
    fn name(&self) -> &'static str {
        "torchtitan-command"
    }

    fn version(&self) -> &'static str {
        "0.2"
    }

    fn source(&self) -> &'static str {
        "pytorch/torchtitan v0.2.2 and 02e5389e9 torchtitan/config/manager.py: arguments go before the configuration"
    }

    fn syntaxes(&self) -> &'static [Syntax] {
        &[Syntax::Arguments]
    }

    fn engines(&self) -> &'static [&'static str] {
        &["torchtitan"]
    }

    fn keys(&self) -> &'static [Key] {
        KEYS
    }

    fn recognises(&self, document: &Document) -> usize {
        let is_named = document.get(FILE).is_some()
            || (document.get(MODULE).is_some() && document.get(FUNCTION).is_some());
        if is_named { 10 + document.found.iter().filter(|found| found.path.contains('.')).count() } else { 0 }
    }

    fn is_strict(&self) -> bool {
        // Arguments of what starts the processes stand beside its own.
        false
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        let (target, document) = whole(reader)?;
        target.dialect.model(&reader.of_part(&document))
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
        let (target, document) = whole(reader)?;
        for found in &reader.document().found {
            if found.path.contains('.') {
                reader.name(&found.path);
            }
        }
        Read::handed(target, &document, reader, scene)
    }
}

/// The configuration that a command names, with the command's arguments over it.
fn whole(reader: &Reader<'_>) -> Result<(Target, Document), ImportError> {
    let (version, mut document) = match reader.word(FILE)? {
        Some(name) => ("0.2.2", file(reader, name)?),
        None => {
            let function = reader.word(FUNCTION)?.unwrap_or_default();
            reader.word(MODULE)?;
            let mut document = Document::translated(Syntax::Python);
            let place = Place::Default;
            // Releases count sequences, the main branch tokens.
            let counts_tokens =
                reader.document().found.iter().any(|found| TOKENS.contains(&found.path.as_str()));
            let other = if counts_tokens { SEQUENCES } else { TOKENS };
            for (path, value) in registered(function).into_iter().filter(|(path, _)| !other.contains(path)) {
                document.set(path, value, Origin { path: path.to_owned(), place: place.clone() });
            }
            let origin = Origin { path: FUNCTION.to_owned(), place };
            document.set("c", Value::from(format!("{function}()")), origin);
            (if counts_tokens { "main" } else { "0.3" }, document)
        }
    };
    let arguments = reader.document();
    for found in &arguments.found {
        if found.path.contains('.') && found.path != FILE {
            document.take(&found.path, found, arguments);
        }
    }
    let target = targets()
        .filter(|target| target.dialect.name() == "torchtitan")
        .find(|target| target.dialect.version().trim_start_matches('v').starts_with(version))
        .or_else(|| targets().find(|target| target.dialect.name() == "torchtitan"));
    match target {
        Some(target) => Ok((target, document)),
        None => Err(reader.refused(FILE, "no version of torchtitan is known")),
    }
}

/// The settings of the TOML file called `name`.
fn file(reader: &Reader<'_>, name: &str) -> Result<Document, ImportError> {
    let text = reader.companion(FILE)?.unwrap_or_default();
    let read =
        Syntax::Toml.read(&text).map_err(|error| reader.refused(FILE, format!("`{name}`, {error}")))?;
    let mut document = Document::translated(Syntax::Toml);
    for found in &read.found {
        let place = Place::File(name.to_owned(), read.line(found));
        document.set(&found.path, found.value.clone(), Origin { path: found.path.clone(), place });
    }
    Ok(document)
}
