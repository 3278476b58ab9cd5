//! What the settings of an engine mean: a strategy, and what of workload and model they say.

use serde_json::Value;

use super::decoder::Decoder;
use super::error::ImportError;
use crate::model::Model;
use crate::profile::recomputed::RecomputedModule;
use crate::strategy::{Draft, Key, MeshOrder};
use crate::units::ElementType;

/// What is known before settings are read.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub model: &'a Model,
    pub devices: u64,
    pub devices_per_node: u64,
    /// Of the command line, where they are given.
    pub global_batch: Option<u64>,
    pub seq_len: Option<u64>,
    /// Keys of the strategy that were typed, for what the settings leave open.
    pub typed: Option<&'a Draft>,
}

/// What settings say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meaning {
    pub draft: Draft,
    /// Keys that the settings leave open, whatever `draft` takes for them.
    pub open: Vec<Key>,
    pub global_batch: Option<u64>,
    pub seq_len: Option<u64>,
    pub precision: Option<ElementType>,
    pub clip: Option<f64>,
    pub dropout: Option<f64>,
    /// The model is compiled.
    pub is_compiled: bool,
    /// The loss is, whether or not the model is.
    pub compiles_loss: bool,
    /// Parameters, gradients and moments are of the kernels' type.
    pub is_in_one_type: bool,
    /// Head and loss are made a chunk of tokens at a time by a kernel that the model is given, whatever the engine has.
    pub brings_chunked_loss: bool,
    /// Inputs of blocks that recompute go to the host by hooks that the model is given, whatever the engine has.
    pub moves_inputs: bool,
    /// What recomputes under `selective`, where the settings name it.
    pub recomputes: Option<Recomputes>,
    /// Collectives of tensor parallelism are cut in pieces that products use as they come.
    pub is_asynchronous: bool,
    /// The order in which the engine numbers its ranks under these settings.
    pub order: MeshOrder,
    /// What a reader should know: one sentence each.
    pub notes: Vec<String>,
}

/// Modules that recompute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recomputes {
    /// The core of attention: scores and their softmax.
    pub core: bool,
    pub modules: Vec<RecomputedModule>,
}

/// Which model settings are for.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelClue {
    /// A name that is known here.
    Preset(&'static str),
    /// The fields of a `config.json`.
    Config(Value),
    /// A decoder that the engine makes of the settings, and the longest sequence.
    Made { decoder: Box<Decoder>, longest: Option<u64> },
    /// A name that is not known here.
    Unknown(String),
}

impl Meaning {
    /// Leaves `key` open where `is_open`.
    pub fn leave(&mut self, key: Key, is_open: bool) {
        if is_open && !self.open.contains(&key) {
            self.open.push(key);
        }
    }

    /// Takes what was typed for keys that are open.
    pub fn close(&mut self, typed: &Draft) {
        for key in typed.keys() {
            if self.open.contains(&key) {
                self.draft.take(key, typed);
            }
        }
    }
}

impl Scene<'_> {
    /// What was typed of a key.
    pub fn typed<T: Clone>(&self, field: impl Fn(&Draft) -> &Option<T>) -> Option<T> {
        self.typed.and_then(|draft| field(draft).clone())
    }

    /// The global batch, of which the settings say only the parts of a data rank.
    ///
    /// # Errors
    /// If the command line does not say it either.
    pub fn needed_global_batch(&self) -> Result<u64, ImportError> {
        self.global_batch.ok_or(ImportError::Unsaid { what: "the global batch", flag: "--global-batch N" })
    }
}
