//! `--from FILE`: the strategy, and what of model and workload a configuration of an engine says.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::error::{CliError, Kind, shown};
use super::freeze::freeze;
use super::workload::{EngineChoice, Subject, Typed, WorkloadArgs, check, check_precision};
use crate::cluster;
use crate::export::error::ImportError;
use crate::export::{Imported, ModelClue, Reach, Scene, import, profile_like, profile_of};
use crate::model::{self, Model, hugging_face};
use crate::strategy::{Draft, Facts, Workload};
use crate::units::ElementType;

/// A strategy that was asked for, and what it is for.
pub struct Asked {
    pub subject: Subject,
    pub draft: Draft,
    /// As it was typed, or as it stands in the file.
    pub text: String,
    /// The file, where it came from one.
    pub imported: Option<Imported>,
    /// The global batch that was typed.
    pub batch: Option<u64>,
}

/// What asks for a strategy, checked as far as it can be without reading anything.
pub struct Question {
    typed: Typed,
    source: Source,
}

/// Where a strategy stands.
enum Source {
    /// As it was typed, and as it was read.
    Text(String, Box<Draft>),
    File(PathBuf),
}

impl Question {
    /// What was typed: a strategy text or a file.
    pub fn new(
        workload: WorkloadArgs,
        strategy: Option<String>,
        from: Option<PathBuf>,
    ) -> Result<Self, CliError> {
        let typed = workload.typed()?;
        let source = match (strategy, from) {
            (_, Some(path)) => Source::File(path),
            (Some(text), None) => {
                let draft = Box::new(Draft::parse(&text)?);
                Source::Text(text, draft)
            }
            (None, None) => {
                let rule = "--strategy STRATEGY or --from FILE is needed";
                return Err(CliError { message: rule.to_owned(), ..CliError::usage("strategy", "", rule) });
            }
        };
        Ok(Self { typed, source })
    }

    /// That one engine is asked for, and if `in_use`, one that plans are made for.
    pub fn of_one_engine(self, in_use: bool) -> Result<Self, CliError> {
        match self.typed.engine {
            EngineChoice::All => {
                Err(CliError::usage("engine", "all", "only plan compares all engines").or(["auto"]))
            }
            EngineChoice::Named(engine) if in_use && engine.historical => {
                let rule = "it is kept to judge published runs; simulate and validate take it";
                Err(CliError::usage("engine", &engine.name, rule).or(engine.inherits.clone()))
            }
            _ => Ok(self),
        }
    }

    /// Reads what it names.
    pub fn load(self) -> Result<Asked, CliError> {
        let typed = self.typed;
        match self.source {
            Source::Text(text, draft) => {
                let batch = typed.global_batch;
                let subject = typed.request()?.load()?;
                Ok(Asked { subject, draft: *draft, text, imported: None, batch })
            }
            Source::File(path) => load(typed, &path),
        }
    }
}

fn load(typed: Typed, path: &Path) -> Result<Asked, CliError> {
    let asked = match typed.engine {
        EngineChoice::Named(engine) => Some(engine),
        EngineChoice::Automatic | EngineChoice::All => None,
    };
    let imported = import(path, asked.map(|engine| engine.name.as_str()))?;
    let mut model = model_of(&typed, &imported)?;
    let cluster = cluster::load(&typed.cluster)?;
    model.warnings.extend(cluster::read_as(&typed.cluster, &cluster));
    let understood = imported.understood(&Scene {
        model: &model,
        devices: cluster.devices(),
        devices_per_node: u64::from(cluster.devices_per_node),
        global_batch: typed.global_batch,
        seq_len: typed.seq_len,
    })?;
    let meaning = understood.meaning;
    let unsaid = |what, flag| CliError::from(ImportError::Unsaid { what, flag });
    let global_batch = typed.global_batch.or(meaning.global_batch);
    let seq_len = typed.seq_len.or(meaning.seq_len);
    let workload = Workload {
        global_batch: global_batch.ok_or_else(|| unsaid("the global batch", "--global-batch N"))?,
        seq_len: seq_len.ok_or_else(|| unsaid("the sequence length", "--seq-len N"))?,
        precision: typed.precision.or(meaning.precision).unwrap_or(ElementType::Bf16),
        dropout: typed.dropout.or(meaning.dropout).unwrap_or(0.0),
        clip: typed.clip.or(meaning.clip).unwrap_or(1.0),
    };
    check_precision(&cluster, workload.precision)?;
    freeze(&mut model, &typed.freeze, typed.model.as_deref())?;
    check(&mut model, &workload)?;
    let mut draft = meaning.draft.clone();
    // What the command line says of the batch is made up of more micro-batches.
    if typed.global_batch.is_some() {
        draft.accumulation = None;
    }
    note(&mut model, &imported, &understood.left, &meaning.notes);
    // What plans may choose, or all that files may say, where this one says more.
    let profile = |reach| match asked {
        Some(engine) => profile_like(engine, imported.target, &meaning, reach),
        None => profile_of(imported.target, &meaning, reach),
    };
    let narrow = profile(Reach::Plans);
    let facts = Facts::new(&model, cluster.devices(), &workload, &narrow);
    let engine = match draft.resolve(&facts) {
        Ok(_) => narrow,
        Err(_) => profile(Reach::Files),
    };
    let subject = Subject { model, cluster, workload, engine: Cow::Owned(engine) };
    let said = draft.keys().into_iter().filter_map(|key| Some(format!("{key}={}", draft.value(key)?)));
    let text = said.collect::<Vec<_>>().join(",");
    Ok(Asked { subject, draft, text, imported: Some(imported), batch: typed.global_batch })
}

/// The model that was typed, or that the file names.
fn model_of(typed: &Typed, imported: &Imported) -> Result<Model, CliError> {
    if let Some(name) = &typed.model {
        return Ok(model::load_with(name, typed.multi_token)?);
    }
    let needed = |why: String| CliError {
        kind: Kind::Input,
        field: "model".to_owned(),
        value: String::new(),
        message: format!("{why}: give MODEL, a preset's name or a config.json"),
        nearest: Vec::new(),
    };
    match imported.model()? {
        Some(ModelClue::Preset(name)) => Ok(model::load_with(name, typed.multi_token)?),
        Some(ModelClue::Config(config)) => {
            let name = format!("model of {}", imported.path);
            Ok(hugging_face::import_with(&config, &name, typed.multi_token)?)
        }
        Some(ModelClue::Unknown(name)) => {
            Err(needed(format!("`{}` is for {}, which is not known here", imported.path, shown(&name))))
        }
        None => Err(needed(format!("`{}` does not say the model", imported.path))),
    }
}

/// Warns of what was not understood, and of what is only near.
fn note(model: &mut Model, imported: &Imported, left: &[(String, usize)], notes: &[String]) {
    let warnings = &mut model.warnings;
    warnings.push(format!("`{}` is read as a file of {}.", imported.path, imported.target.text()));
    warnings.extend(notes.iter().cloned());
    for (name, line) in left {
        warnings.push(format!(
            "Line {line}: `{}` may matter and is not understood; it is left out of the prediction.",
            shown(name)
        ));
    }
}
