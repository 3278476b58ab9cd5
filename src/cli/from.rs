//! `--from FILE`: the strategy, and what of model and workload a configuration of an engine says.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use clap::Args;

use super::error::{CliError, Kind, shown};
use super::freeze::freeze;
use super::hints;
use super::workload::{EngineChoice, Subject, Typed, WorkloadArgs, check, check_precision};
use crate::cluster;
use crate::export::error::ImportError;
use crate::export::import::{Left, is_run_by};
use crate::export::{
    Assumptions, Environment, Imported, ModelClue, Reach, Runner, Said, Scene, import, profile_like,
    profile_of,
};
use crate::model::{self, Model, hugging_face};
use crate::strategy::{Draft, Facts, Strategy, Workload};
use crate::units::ElementType;

/// A strategy that was asked for, and what it is for.
pub struct Asked {
    pub subject: Subject,
    pub draft: Draft,
    /// As it was typed, or as it stands in the file.
    pub text: String,
    /// The file, where it came from one.
    pub imported: Option<Imported>,
    /// The program that runs the file.
    pub runner: Option<Runner>,
    /// The global batch that was typed.
    pub batch: Option<u64>,
    /// The strategy that was typed, beside a file or by itself.
    pub typed: Draft,
}

/// The arguments that say the strategy.
#[derive(Args, Clone, Debug)]
pub struct AskedArgs {
    /// The strategy, such as tp=8,pp=2,zero=1 (help strategy lists its keys and defaults); beside --from, keys that the
    /// file leaves open
    #[arg(long, value_name = "STRATEGY", value_parser = hints::STRATEGY, hide_possible_values = true)]
    #[arg(required_unless_present = "from")]
    pub strategy: Option<String>,
    /// Read the strategy from a training engine's configuration, and what that says of model and workload
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Read the file as if it said this, such as zero_optimization.stage=3, or null for nothing; may be given again
    #[arg(long, value_name = "KEY=VALUE", requires = "from")]
    pub assume: Vec<String>,
    /// A variable of the environment that a script asks for, or an argument of it by number, such as 1=7B; may be given again
    #[arg(long, value_name = "NAME=VALUE", requires = "from")]
    pub env: Vec<String>,
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
    /// A file, what was typed for keys that it leaves open, and what is said of its settings and its environment.
    File(PathBuf, Box<Draft>, Said),
}

impl Question {
    /// The strategy that was typed: a text, or a file with what it leaves open.
    pub fn new(workload: WorkloadArgs, asked: AskedArgs) -> Result<Self, CliError> {
        let AskedArgs { strategy, from, assume, env } = asked;
        let typed = workload.typed()?;
        let draft = strategy.as_deref().map(Draft::parse).transpose()?.map(Box::new);
        let source = match (strategy, from) {
            (_, Some(path)) => {
                let said =
                    Said { assumed: Assumptions::parse(&assume)?, environment: Environment::parse(&env)? };
                Source::File(path, draft.unwrap_or_default(), said)
            }
            (Some(text), None) => Source::Text(text, draft.unwrap_or_default()),
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
                let (typed, draft) = (*draft.clone(), *draft);
                Ok(Asked { subject, draft, text, imported: None, runner: None, batch, typed })
            }
            Source::File(path, draft, said) => load(typed, &path, *draft, said),
        }
    }
}

fn load(typed: Typed, path: &Path, keys: Draft, said: Said) -> Result<Asked, CliError> {
    let asked = match typed.engine {
        EngineChoice::Named(engine) => Some(engine),
        EngineChoice::Automatic | EngineChoice::All => None,
    };
    let imported = import(path, asked.map(|engine| engine.name.as_str()), said)?;
    let mut model = model_of(&typed, &imported)?;
    let cluster = cluster::load(&typed.cluster)?;
    model.warnings.extend(cluster::read_as(&typed.cluster, &cluster));
    let understood = imported.understood(&Scene {
        model: &model,
        devices: cluster.devices(),
        devices_per_node: u64::from(cluster.devices_per_node),
        global_batch: typed.global_batch,
        seq_len: typed.seq_len,
        typed: Some(&keys),
    })?;
    if let Some(name) = &typed.model {
        is_same_model(name, &model, &typed, &imported)?;
    }
    let (runner, meaning) = (understood.runner, understood.meaning);
    if let Some(engine) = asked {
        is_run_by(&imported.path, runner, &engine.name)?;
    }
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
    if typed.global_batch.is_some() && keys.accumulation.is_none() {
        draft.accumulation = None;
    }
    note(&mut model, &imported, runner, &understood.left, &meaning.notes);
    // What plans may choose, or all that files may say, where this one says more.
    let profile = |reach| match asked {
        Some(engine) => profile_like(engine, runner, &meaning, reach),
        None => profile_of(runner, &meaning, reach),
    };
    let narrow = profile(Reach::Plans);
    let facts = Facts::new(&model, cluster.devices(), &workload, &narrow);
    let engine = match draft.resolve(&facts) {
        Ok(_) => narrow,
        Err(_) => profile(Reach::Files),
    };
    let facts = Facts::new(&model, cluster.devices(), &workload, &engine);
    agrees(&imported.path, &draft, &keys, &facts)?;
    let subject = Subject { model, cluster, workload, engine: Cow::Owned(engine) };
    let said = draft.keys().into_iter().filter_map(|key| Some(format!("{key}={}", draft.value(key)?)));
    let text = said.collect::<Vec<_>>().join(",");
    let (imported, runner) = (Some(imported), Some(runner));
    Ok(Asked { subject, draft, text, imported, runner, batch: typed.global_batch, typed: keys })
}

/// That what was typed, where the file leaves it open, is in `draft`, and elsewhere is what the file means.
fn agrees(path: &str, draft: &Draft, typed: &Draft, facts: &Facts) -> Result<(), CliError> {
    let meant = draft.resolve(facts).ok();
    for key in typed.keys() {
        if draft.value(key) == typed.value(key) {
            continue;
        }
        let mut other = draft.clone();
        other.take(key, typed);
        let is_same = |meant: &Strategy| other.resolve(facts).is_ok_and(|strategy| strategy == *meant);
        if meant.as_ref().is_some_and(is_same) {
            continue;
        }
        let of_strategy = |meant: &Strategy| meant.key_value(key, facts.defaults).value;
        let read = meant.as_ref().map(of_strategy).or_else(|| draft.value(key)).unwrap_or_default();
        let typed = typed.value(key).unwrap_or_default();
        let (path, key) = (path.to_owned(), key.to_string());
        return Err(ImportError::Contradiction { path, key, read, typed }.into());
    }
    Ok(())
}

/// The model that was typed, or that the file names.
fn model_of(typed: &Typed, imported: &Imported) -> Result<Model, CliError> {
    if let Some(name) = &typed.model {
        return Ok(model::load_with(name, typed.multi_token)?);
    }
    let clue = imported.model()?;
    made_of(clue, typed, imported)
}

/// The model that a file names or describes.
fn made_of(clue: Option<ModelClue>, typed: &Typed, imported: &Imported) -> Result<Model, CliError> {
    let needed = |why: String| CliError {
        kind: Kind::Input,
        field: "model".to_owned(),
        value: String::new(),
        message: format!("{why}: give MODEL, a preset's name or a config.json"),
        nearest: Vec::new(),
    };
    match clue {
        Some(ModelClue::Preset(name)) => Ok(model::load_with(name, typed.multi_token)?),
        Some(ModelClue::Config(config)) => {
            let name = format!("model of {}", imported.path);
            Ok(hugging_face::import_with(&config, &name, typed.multi_token)?)
        }
        Some(ModelClue::Made { decoder, longest }) => {
            let name = format!("model of {}", imported.path);
            Ok(decoder.model(&name, longest, typed.multi_token)?)
        }
        Some(ModelClue::Unknown(name)) => {
            Err(needed(format!("`{}` is for {}, which is not known here", imported.path, shown(&name))))
        }
        None => Err(needed(format!("`{}` does not say the model", imported.path))),
    }
}

/// Parameters by which a model may differ from the file's and be it: rows that pad a vocabulary.
const SAME_PARAMETERS: f64 = 0.02;

/// That the model called `name` is the one that the file describes, where it describes one.
fn is_same_model(name: &str, model: &Model, typed: &Typed, imported: &Imported) -> Result<(), CliError> {
    let Ok(Some(clue)) = imported.model() else { return Ok(()) };
    let Ok(own) = made_of(Some(clue), typed, imported) else { return Ok(()) };
    let (said, given) = (own.parameter_count() as f64, model.parameter_count() as f64);
    if own.blocks() == model.blocks() && (said - given).abs() <= SAME_PARAMETERS * said {
        return Ok(());
    }
    let billions = |parameters: f64| format!("{:.2} billion parameters", parameters / 1e9);
    let rule = format!(
        "`{}` is for a model of {} blocks and {}, and this has {} and {}: leave it out, or give the file's",
        imported.path,
        own.blocks(),
        billions(said),
        model.blocks(),
        billions(given)
    );
    Err(CliError { kind: Kind::Input, ..CliError::usage("model", name, rule) })
}

/// Warns of what was not understood, and of what is only near.
fn note(model: &mut Model, imported: &Imported, runner: Runner, left: &[Left], notes: &[String]) {
    let warnings = &mut model.warnings;
    let (path, source) = (&imported.path, imported.source.text());
    warnings.push(if runner.text() == source {
        format!("`{path}` is read as a file of {source}.")
    } else {
        format!("`{path}` is read as a file of {source}, which {} runs.", runner.text())
    });
    warnings.extend(imported.assumed());
    warnings.extend(notes.iter().cloned());
    for Left { path, place } in left {
        let place = place.to_string().replacen('l', "L", usize::from(place.to_string().starts_with("line")));
        warnings.push(format!(
            "{place}: `{}` may matter and is not understood; it is left out of the prediction.",
            shown(path)
        ));
    }
}
