//! Accelerate 1.15: YAML.

use super::{checks, handed, read, script, write};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::error::ImportError;
use crate::export::format::Read;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::export::syntax::{Code, Syntax};
use crate::profile::capabilities::{Cited, OffloadGrain, OffloadOffer, Supports, SyncOffer};
use crate::strategy::{CheckpointMode, GradientSync, OffloadCategory};

/// Accelerate 1.15.
pub struct Config;

impl Dialect for Config {
    fn name(&self) -> &'static str {
        "accelerate"
    }

    fn version(&self) -> &'static str {
        "1.15"
    }

    fn source(&self) -> &'static str {
        "huggingface/accelerate 1.15.0"
    }

    fn profile(&self) -> &'static str {
        "accelerate"
    }

    fn narrow(&self, supports: &mut Supports) {
        supports.sync = Cited {
            value: vec![SyncOffer { kind: GradientSync::Deferred, zero: vec![0, 3], pipeline: None }],
            source:
                "huggingface/accelerate 1.15.0 accelerator.py:1284: sync_each_batch is said in Python only"
                    .to_owned(),
        };
    }

    fn widen(&self, supports: &mut Supports) {
        let source = || {
            "huggingface/accelerate 1.15.0 utils/fsdp_utils.py:723: fsdp_activation_checkpointing_offload"
                .to_owned()
        };
        supports.offload.value.push(OffloadOffer {
            category: OffloadCategory::Activations,
            grain: OffloadGrain::Whole,
            from_zero: 3,
            split_from_zero: 0,
            serial: false,
            with_checkpoint: Some(CheckpointMode::Full),
        });
        supports.offload.source = source();
        supports.offload_together = Cited { value: false, source: source() };
    }

    fn file(&self) -> &'static str {
        "accelerate.yaml"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Yaml
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        write::settings(case)
    }

    fn companions(&self, _case: &Case<'_>) -> Vec<(String, String)> {
        vec![(script::STARTER.to_owned(), script::starter())]
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        unsaid(case)
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        checks::checks(case)
    }

    fn program(&self, case: &Case<'_>) -> Program {
        Program::torchrun(script::STARTER, script::arguments(case)).with(
            "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
            Code::word(case.strategy.accumulation),
            "Accelerator() takes its accumulation from here (accelerator.py:547)",
        )
    }

    fn marks(&self) -> &'static [&'static str] {
        &[
            "compute_environment",
            "distributed_type",
            "mixed_precision",
            "num_machines",
            "num_processes",
            "machine_rank",
            "fsdp_config.*",
            "parallelism_config.*",
            "deepspeed_config.*",
            "main_training_function",
        ]
    }

    fn harmless(&self) -> &'static [&'static str] {
        &[
            "debug",
            "machine_rank",
            "num_machines",
            "gpu_ids",
            "main_process_ip",
            "main_process_port",
            "main_training_function",
            "rdzv_backend",
            "same_network",
            "enable_cpu_affinity",
            "downcast_bf16",
            "tpu_*",
            "command_file",
            "commands",
            "mpirun_config.*",
            "fp8_config.*",
            "dynamo_config.*",
            // Of other kinds of run than the file is for.
            "deepspeed_config.*",
            "megatron_lm_config.*",
            "parallelism_config.parallelism_config_sp_*",
            "parallelism_config.parallelism_config_cp_backend",
            "fsdp_config.fsdp_backward_prefetch",
            "fsdp_config.fsdp_backward_prefetch_policy",
            "fsdp_config.fsdp_forward_prefetch",
            "fsdp_config.fsdp_state_dict_type",
            "fsdp_config.fsdp_cpu_ram_efficient_loading",
            "fsdp_config.fsdp_sync_module_states",
            "fsdp_config.fsdp_use_orig_params",
            "fsdp_config.fsdp_transformer_layer_cls_to_wrap",
            "fsdp_config.fsdp_min_num_params",
            "fsdp_config.limit_all_gathers",
            "fsdp_config.fsdp_limit_all_gathers",
        ]
    }

    fn hands_to(&self) -> &'static [&'static str] {
        &["deepspeed", "megatron"]
    }

    fn handed(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Option<Read>, ImportError> {
        handed::handed(reader, scene)
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        read::read(reader, scene)
    }
}

/// What the training script has to do by itself.
fn unsaid(case: &Case<'_>) -> Vec<String> {
    let s = case.strategy;
    let workload = &case.problem.workload;
    let mut sentences = vec![
        format!(
            "The model ({}) and sequences of {} tokens are the training script's, which run.sh takes from TRAIN_SCRIPT; it \
             is given the micro-batch and the accumulation as arguments, with the names of transformers.",
            case.problem.model.name, workload.seq_len
        ),
        "Where ranks need not be placed, `accelerate launch --config_file accelerate.yaml` starts it too."
            .to_owned(),
    ];
    sentences.push(match workload.clip {
        0.0 => "The plan does not clip: call no clip_grad_norm_.".to_owned(),
        clip => format!("Clipping is said in Python: accelerator.clip_grad_norm_(parameters, {clip})."),
    });
    if s.tensor > 1 {
        sentences.push(format!(
            "The model comes split: from_pretrained(…, tp_size={}, tp_plan=\"auto\", device_mesh=…).",
            s.tensor
        ));
    }
    if s.zero == 0 && s.data > 1 && workload.precision != crate::units::ElementType::Fp32 {
        sentences.push(
            "DDP reduces gradients in 32 bits; they are predicted in the compute type, as FSDP reduces them."
                .to_owned(),
        );
    }
    sentences
}
