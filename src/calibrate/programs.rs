//! The small programs that are measured: between them they hold every kind of kernel at several shapes.

use crate::calibrate::error::CalibrateError;
use crate::execute::run::Job;
use crate::model;
use crate::profile::engines::engine;
use crate::strategy::{Draft, Workload, resolve};
use crate::units::ElementType;

/// A small model, what it is trained on, and how.
#[derive(Clone, Debug)]
pub struct Small {
    pub family: Family,
    pub hidden: u64,
    pub heads: u64,
    pub blocks: u64,
    pub vocabulary: u64,
    pub seq_len: u64,
    pub global_batch: u64,
    pub precision: ElementType,
    pub strategy: String,
    pub devices: u64,
}

/// The kind of a [`Small`] model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Gpt2,
    Llama,
}

impl Small {
    /// A GPT-2 of two blocks in fp32 on one rank.
    pub fn gpt2((hidden, heads): (u64, u64), seq_len: u64, strategy: &str) -> Self {
        Self {
            family: Family::Gpt2,
            hidden,
            heads,
            blocks: 2,
            vocabulary: 1024,
            seq_len,
            global_batch: 4,
            precision: ElementType::Fp32,
            strategy: strategy.to_owned(),
            devices: 1,
        }
    }

    /// The Hugging Face configuration of the model.
    fn config(&self) -> String {
        let Self { hidden, heads, blocks, vocabulary, seq_len, .. } = self;
        match self.family {
            Family::Gpt2 => format!(
                r#"{{"model_type":"gpt2","n_embd":{hidden},"n_layer":{blocks},"n_head":{heads},
                "n_positions":{seq_len},"vocab_size":{vocabulary},"activation_function":"gelu_new"}}"#
            ),
            Family::Llama => format!(
                r#"{{"model_type":"llama","hidden_size":{hidden},"num_hidden_layers":{blocks},
                "num_attention_heads":{heads},"num_key_value_heads":{heads},"intermediate_size":{},
                "max_position_embeddings":{seq_len},"vocab_size":{vocabulary},"hidden_act":"silu",
                "rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false}}"#,
                3 * hidden
            ),
        }
    }

    /// The job that trains it.
    ///
    /// # Errors
    /// If the strategy does not go with the model.
    pub fn job(&self) -> Result<Job, CalibrateError> {
        let failed = |reason: String| CalibrateError::Program { program: self.strategy.clone(), reason };
        let model = model::from_text(&self.config(), "config.json", "small")
            .map_err(|error| failed(error.to_string()))?;
        let engine = engine("embedded").ok_or_else(|| failed("no embedded engine".to_owned()))?;
        let workload = Workload {
            global_batch: self.global_batch,
            seq_len: self.seq_len,
            precision: self.precision,
            dropout: 0.0,
            clip: 1.0,
        };
        let draft = Draft::parse(&self.strategy).map_err(|error| failed(error.to_string()))?;
        let strategy = resolve(&draft, &model, self.devices, &workload, engine)
            .map_err(|error| failed(error.to_string()))?;
        Ok(Job { model, strategy, workload, engine })
    }
}

/// What one rank on one core shows of kernels: GPT-2 and Llama, wide and narrow heads, both kinds of attention,
/// activations as integers, optimizer state and activations on the host.
pub fn serial() -> Vec<Small> {
    let llama = |hidden, heads, seq_len, strategy| Small {
        family: Family::Llama,
        ..Small::gpt2((hidden, heads), seq_len, strategy)
    };
    vec![
        Small::gpt2((256, 4), 128, "micro=4"),
        Small::gpt2((128, 4), 128, "micro=2"),
        llama(128, 4, 256, "micro=2"),
        llama(256, 8, 128, "micro=4,zero=2"),
        Small { blocks: 1, ..Small::gpt2((512, 8), 256, "micro=2,attention=materialised,compress=8bit") },
        Small { blocks: 1, ..Small::gpt2((128, 4), 128, "micro=4,attention=materialised,compress=8bit") },
        Small { blocks: 1, ..Small::gpt2((384, 6), 256, "micro=2,offload=optimizer:1+activations:1") },
    ]
}

/// The first of [`serial`] in another precision.
pub fn in_precision(precision: ElementType) -> Small {
    Small { precision, ..Small::gpt2((256, 4), 128, "micro=4") }
}

/// A rank by itself, and as many of the like as there are `cores`: they meet once a step.
pub fn sharing(cores: u64) -> [Small; 2] {
    let one = Small::gpt2((256, 4), 128, "micro=4");
    let strategy = format!("dp={cores},micro=4");
    let many = Small { devices: cores, global_batch: one.global_batch * cores, strategy, ..one.clone() };
    [one, many]
}

/// Two ranks that share layers: their collectives stand between kernels that wait for them.
pub fn collectives() -> Vec<Small> {
    ["tp=2,sp=off,micro=4", "tp=2,micro=4", "tp=2,sp=off,micro=1", "tp=2,micro=1"]
        .map(|strategy| Small { devices: 2, ..Small::gpt2((256, 4), 128, strategy) })
        .into()
}
