//! A file of an engine, read as `simulate --from` reads it.

use meshwright::cluster;
use meshwright::export::import::{Given, meaning_of};
use meshwright::export::syntax::Document;
use meshwright::export::{ModelClue, Reach, Scene, Target, profile_of, targets};
use meshwright::model::{self, Model};
use meshwright::search::Problem;
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

/// The file, and what is given beside it.
pub struct Example<'a> {
    /// The target that it is for, without a version.
    pub engine: &'a str,
    pub path: &'a str,
    pub text: &'a str,
    pub model: Option<&'a str>,
    pub cluster: &'a str,
    pub batch: Option<u64>,
}

/// What it means.
#[derive(Debug)]
pub struct Read {
    pub strategy: String,
    pub model: String,
    pub batch: u64,
    pub seq_len: u64,
    pub precision: String,
    pub notes: Vec<String>,
    /// Settings that are not understood.
    pub left: Vec<String>,
}

fn target(name: &str) -> Target {
    targets().find(|target| target.text() == name || target.dialect.name() == name).expect("a target")
}

fn document(example: &Example<'_>) -> Result<Document, String> {
    target(example.engine).dialect.syntax().read(example.text).map_err(|error| error.to_string())
}

fn subject(example: &Example<'_>) -> Result<Model, String> {
    if let Some(name) = example.model {
        return model::load(name).map_err(|error| error.to_string());
    }
    let document = document(example)?;
    let clue =
        meshwright::export::clue(target(example.engine), &document).map_err(|error| error.to_string())?;
    match clue {
        Some(ModelClue::Preset(name)) => model::load(name).map_err(|error| error.to_string()),
        Some(ModelClue::Config(config)) => {
            model::hugging_face::import(&config, "of the file").map_err(|error| error.to_string())
        }
        Some(ModelClue::Unknown(name)) => Err(format!("{name} is not known")),
        None => Err("the file does not say the model".to_owned()),
    }
}

fn read(example: &Example<'_>) -> Result<Read, String> {
    let model = subject(example)?;
    let cluster = cluster::load(example.cluster).map_err(|error| error.to_string())?;
    let scene = Scene {
        model: &model,
        devices: cluster.devices(),
        devices_per_node: u64::from(cluster.devices_per_node),
        global_batch: example.batch,
        seq_len: None,
    };
    let target = target(example.engine);
    let given = Given { path: example.path, text: example.text, ranks: None };
    let understood = meaning_of(target, &given, &scene).map_err(|error| error.to_string())?;
    let meaning = understood.meaning;
    let workload = Workload {
        global_batch: example.batch.or(meaning.global_batch).ok_or("no batch")?,
        seq_len: meaning.seq_len.unwrap_or(4096),
        precision: meaning.precision.unwrap_or(ElementType::Bf16),
        dropout: meaning.dropout.unwrap_or(0.0),
        clip: meaning.clip.unwrap_or(1.0),
    };
    let profile = profile_of(target, &meaning, Reach::Files);
    let problem = Problem::new(&model, &cluster, workload, &profile, None);
    let strategy = meaning.draft.resolve(&problem.facts).map_err(|error| error.to_string())?;
    Ok(Read {
        strategy: strategy.text(problem.facts.defaults),
        model: model.name.clone(),
        batch: workload.global_batch,
        seq_len: workload.seq_len,
        precision: workload.precision.to_string(),
        notes: meaning.notes,
        left: understood.left.into_iter().map(|(path, _)| path).collect(),
    })
}

/// What `example` means.
pub fn meaning(example: &Example<'_>) -> Read {
    read(example).unwrap_or_else(|error| panic!("{}: {error}", example.text))
}

/// Why `example` is refused.
pub fn refused(example: &Example<'_>) -> String {
    match read(example) {
        Ok(read) => panic!("{}: it is read: {read:?}", example.text),
        Err(error) => error,
    }
}
