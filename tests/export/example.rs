//! An example of an engine, whose model is named or said by the file itself.

use meshwright::export::ModelClue;
use meshwright::export::syntax::Document;
use meshwright::model::{self, Model};

use crate::reading::{Reading, target};

/// The file, and what is given beside it.
pub struct Example<'a> {
    /// The target that it is for, without a version.
    pub engine: &'a str,
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
        Some(ModelClue::Made { decoder, longest }) => {
            let made = decoder.model("of the file", longest, model::MultiToken::LeftOut);
            made.map_err(|error| error.to_string())
        }
        Some(ModelClue::Unknown(name)) => Err(format!("{name} is not known")),
        None => Err("the file does not say the model".to_owned()),
    }
}

fn read(example: &Example<'_>) -> Result<Read, String> {
    let model = subject(example)?;
    let reading = Reading {
        target: example.engine,
        model: &model,
        cluster: example.cluster,
        global_batch: example.batch,
        seq_len: None,
    };
    let understood = reading.understood(example.text).map_err(|error| error.to_string())?;
    let (strategy, workload) = reading.meant(&understood)?;
    Ok(Read {
        strategy,
        model: model.name.clone(),
        batch: workload.global_batch,
        seq_len: workload.seq_len,
        precision: workload.precision.to_string(),
        notes: understood.meaning.notes,
        left: understood.left.into_iter().map(|left| left.path).collect(),
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
