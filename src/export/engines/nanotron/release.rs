//! nanotron as its main branch is at 2411b022, which calls itself 0.4, and as the package index has 0.4, which is older.

use super::{checks, model, read, write};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::differences::Build;
use crate::export::error::ImportError;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::export::syntax::Syntax;
use crate::profile::capabilities::{Cited, Supports};
use crate::strategy::CheckpointMode;

/// A state of nanotron.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The main branch at 2411b022.
    Main,
    /// What `pip install nanotron==0.4` installs: no recomputation, no context parallelism, the optimizer's own keys.
    Published,
}

/// The main branch.
pub const MAIN: Release = Release::Main;

/// The release.
pub const PUBLISHED: Release = Release::Published;

impl Dialect for Release {
    fn name(&self) -> &'static str {
        "nanotron"
    }

    fn version(&self) -> &'static str {
        match self {
            Self::Main => "0.4",
            Self::Published => "0.4-pypi",
        }
    }

    fn source(&self) -> &'static str {
        match self {
            Self::Main => "huggingface/nanotron 2411b022, 0.4 in its pyproject.toml",
            Self::Published => {
                "nanotron 0.4 of the Python Package Index; lines of rules are of huggingface/nanotron 2411b022"
            }
        }
    }

    fn profile(&self) -> &'static str {
        "nanotron"
    }

    fn narrow(&self, supports: &mut Supports) {
        if *self == Self::Published {
            let source = || {
                "nanotron 0.4 of the Python Package Index, config/parallelism_config.py: no such setting"
                    .to_owned()
            };
            supports.context = Cited { value: Vec::new(), source: source() };
            supports.checkpoint = Cited { value: vec![CheckpointMode::None], source: source() };
        }
    }

    fn file(&self) -> &'static str {
        "config.yaml"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Yaml
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        write::settings(case, *self)
    }

    fn builds(&self, _case: &Case<'_>, settings: &Settings) -> Option<Build> {
        model::build(settings, *self).map(Build::from)
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        let mut sentences = Vec::new();
        if case.problem.workload.dropout > 0.0 {
            sentences.push("Its Llama and Qwen have no dropout; the plan has.".to_owned());
        }
        sentences.push(
            "general, checkpoints, tokenizer, train_steps, init_method and the learning rate stand in config.yaml because \
             its classes demand them: their values are placeholders. what it trains on is left out, which is random tokens."
                .to_owned(),
        );
        if *self == Self::Published
            && case.decoder().is_some_and(|decoder| decoder.experts.is_some() || decoder.attention.input_bias)
        {
            sentences.push("This release has no model with experts or biases.".to_owned());
        }
        sentences
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        checks::checks(case, *self)
    }

    fn program(&self, _case: &Case<'_>) -> Program {
        Program::torchrun("\"${NANOTRON_PATH:-.}/run_train.py\"", "--config-file config.yaml").with(
            "CUDA_DEVICE_MAX_CONNECTIONS",
            "1",
            "kernels start in the order in which they are queued; nanotron asks for it under tensor parallelism",
        )
    }

    fn marks(&self) -> &'static [&'static str] {
        &[
            "general.project",
            "parallelism.dp",
            "parallelism.tp",
            "tokens.micro_batch_size",
            "model.model_config.hidden_size",
        ]
    }

    fn harmless(&self) -> &'static [&'static str] {
        &[
            "general.*",
            "checkpoints.*",
            "checkpoints",
            "logging.*",
            "logging",
            "profiler.*",
            "profiler",
            "lighteval.*",
            "lighteval",
            "s3_upload.*",
            "s3_upload",
            "tokenizer.*",
            "data.*",
            "data_stages",
            "data_stages.*",
            "tokens.train_steps",
            "tokens.val_check_interval",
            "tokens.limit_val_batches",
            "tokens.limit_test_batches",
            "optimizer.learning_rate_scheduler.*",
            "optimizer.optimizer_factory.*",
            "optimizer.weight_decay",
            "optimizer.weight_decay_exclude_named_params",
            // As the release of that name has them.
            "optimizer.adam_beta1",
            "optimizer.adam_beta2",
            "optimizer.adam_eps",
            "optimizer.torch_adam_is_fused",
            "model.init_method.*",
            "model.ddp_bucket_cap_mb",
            "model.make_vocab_size_divisible_by",
            "model.model_config.bos_token_id",
            "model.model_config.eos_token_id",
            "model.model_config.pad_token_id",
            "model.model_config.initializer_range",
            "model.model_config.pretraining_tp",
            "model.model_config.rope_scaling",
            "model.model_config.rope_interleaved",
            "model.model_config.use_cache",
            "model.model_config.z_loss_enabled",
            "model.model_config.z_loss_coefficient",
            "model.model_config._attn_implementation",
            "model.model_config.moe_config.token_dispatcher_type",
        ]
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        model::read(reader)
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        read::read(reader, scene, *self)
    }
}
