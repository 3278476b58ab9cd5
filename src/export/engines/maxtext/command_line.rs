//! MaxText at e591f30cb: the arguments of its training program, or the YAML file that says the same.

use super::{checks, model, read, write};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::differences::Build;
use crate::export::error::ImportError;
use crate::export::launch::{Launcher, Program};
use crate::export::meaning::{Meaning, ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::export::syntax::{Code, Syntax};

/// MaxText at e591f30cb.
pub struct CommandLine;

impl Dialect for CommandLine {
    fn name(&self) -> &'static str {
        "maxtext"
    }

    fn version(&self) -> &'static str {
        "e591f30cb"
    }

    fn source(&self) -> &'static str {
        "AI-Hypercomputer/maxtext e591f30cb"
    }

    fn profile(&self) -> &'static str {
        "maxtext"
    }

    fn file(&self) -> &'static str {
        "arguments.sh"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Overrides
    }

    fn other_syntaxes(&self) -> &'static [Syntax] {
        // A file of `configs/`, on which base.yml or another lies beneath.
        &[Syntax::Yaml]
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        write::settings(case)
    }

    fn builds(&self, case: &Case<'_>, settings: &Settings) -> Option<Build> {
        model::build(case, settings)
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        let mut sentences = Vec::new();
        if !case.problem.facts.experts.is_empty() {
            sentences.push(
                "How experts share the load (load_balance_loss_weight, routed_bias) is yours to set."
                    .to_owned(),
            );
        }
        sentences.push(
            "base_output_directory, dataset_type, tokenizer_path, steps and learning_rate are yours: add them to arguments.sh."
                .to_owned(),
        );
        sentences
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        checks::checks(case)
    }

    fn program(&self, case: &Case<'_>) -> Program {
        let nodes = case.nodes();
        let mut program = Program {
            entry: "-m maxtext.trainers.pre_train.train",
            prepare: vec!["source ./arguments.sh".into()],
            arguments: "\"${MAXTEXT_REPO_ROOT:-.}/src/maxtext/configs/base.yml\" \"${ARGUMENTS[@]}\"".into(),
            environment: Vec::new(),
            // Devices are numbered as the nodes have them: ICI and DCN parts say the rest.
            order: case.strategy.order,
            launcher: Launcher::OneProcessANode,
        }
        .with(
            "XLA_FLAGS",
            "\"--xla_gpu_enable_latency_hiding_scheduler=true ${XLA_FLAGS:-}\"",
            "messages run beside products only under this scheduler",
        )
        .with(
            "XLA_PYTHON_CLIENT_MEM_FRACTION",
            "0.92",
            "of the device's memory; without it JAX takes three quarters",
        );
        if nodes > 1 {
            program = program
                .with("JAX_COORDINATOR_IP", "\"${MASTER_ADDR:?the first node}\"", "where the processes meet")
                .with("JAX_COORDINATOR_PORT", "\"${MASTER_PORT:-29500}\"", "and its port")
                .with("NNODES", Code::word(nodes), "processes, one a node; NODE_RANK says which one this is");
        }
        program
    }

    fn marks(&self) -> &'static [&'static str] {
        &[
            "per_device_batch_size",
            "max_target_length",
            "remat_policy",
            "ici_fsdp_parallelism",
            "dcn_fsdp_parallelism",
            "dcn_data_parallelism",
            "ici_tensor_parallelism",
            "base_emb_dim",
            "model_name",
        ]
    }

    fn harmless(&self) -> &'static [&'static str] {
        &[
            "run_name",
            "base_config",
            "base_output_directory",
            "steps",
            "learning_rate",
            "warmup_steps_fraction",
            "learning_rate_schedule_steps",
            "cosine_learning_rate_final_fraction",
            "learning_rate_final_fraction",
            "lr_schedule_type",
            "adam_b1",
            "adam_b2",
            "adam_eps",
            "adam_eps_root",
            "adam_weight_decay",
            "dataset_type",
            "dataset_path",
            "dataset_name",
            "hf_path",
            "train_split",
            "eval_interval",
            "eval_steps",
            "tokenizer_path",
            "tokenizer_type",
            "enable_checkpointing",
            "async_checkpointing",
            "checkpoint_period",
            "load_parameters_path",
            "load_full_state_path",
            "profiler",
            "profiler_steps",
            "skip_first_n_steps_for_profiler",
            "upload_all_profiler_results",
            "profile_cleanly",
            "enable_goodput_recording",
            "monitor_goodput",
            "gcs_metrics",
            "save_config_to_gcs",
            "metrics_file",
            "log_period",
            "use_vertex_tensorboard",
            "vertex_tensorboard_project",
            "vertex_tensorboard_region",
            "logits_dot_in_fp32",
            "use_iota_embed",
            "scan_layers",
            "max_segments_per_seq",
            "packing",
            "megablox",
            "reuse_example_batch",
            "override_model_config",
            "load_balance_loss_weight",
            "enable_dropout",
            "mlp_activations",
            "init_weights_seed",
            "data_shuffle_seed",
            "jax_cache_dir",
            "sa_block_q",
            "sa_block_kv",
            "allow_split_physical_axes",
            "dump_hlo",
            "dump_hlo_local_dir",
            "fused_qkv",
            "fused_mlp",
            "attention_type",
            "num_epoch",
            "sharding_tolerance",
        ]
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        model::read(reader)
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        read::read(reader, scene)
    }
}
