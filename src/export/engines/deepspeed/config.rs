//! DeepSpeed 0.19: JSON.

use super::write::BUCKET;
use super::{checks, read, write};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::error::ImportError;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::export::syntax::Syntax;
use crate::profile::capabilities::{Cited, ShardGroups, Supports};
use crate::strategy::{AttentionKernel, CheckpointMode, LossMode};

/// DeepSpeed 0.19.
pub struct Config;

impl Dialect for Config {
    fn name(&self) -> &'static str {
        "deepspeed"
    }

    fn version(&self) -> &'static str {
        "0.19"
    }

    fn source(&self) -> &'static str {
        "deepspeedai/DeepSpeed 0.19.8"
    }

    fn profile(&self) -> &'static str {
        "deepspeed"
    }

    fn narrow(&self, supports: &mut Supports) {
        supports.shard_groups = Cited {
            value: ShardGroups::None,
            source: "deepspeedai/DeepSpeed 0.19.8 runtime/config.py:120: MiCS is removed; hpZ shards no optimizer state"
                .to_owned(),
        };
        supports.token_dropping = Cited {
            value: false,
            source: "deepspeedai/DeepSpeed 0.19.8 module_inject/auto_ep_config.py: no capacity; moe/layer.py:44 has one in Python only"
                .to_owned(),
        };
        supports.attention = Cited {
            value: vec![AttentionKernel::Fused],
            source: "transformers: attn_implementation is the model's, and no key of DeepSpeed".to_owned(),
        };
        supports.loss = Cited {
            value: vec![LossMode::Full],
            source: "deepspeedai/DeepSpeed 0.19.8 runtime/sequence_parallel/ulysses_sp.py: the tiled loss is called in Python"
                .to_owned(),
        };
    }

    fn file(&self) -> &'static str {
        "ds_config.json"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Json
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        write::settings(case)
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        unsaid(case)
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        checks::checks(case)
    }

    fn program(&self, _case: &Case<'_>) -> Program {
        Program::torchrun("\"${TRAIN_SCRIPT:-train.py}\"", "--deepspeed --deepspeed_config ds_config.json")
    }

    fn marks(&self) -> &'static [&'static str] {
        &[
            "zero_optimization.*",
            "train_batch_size",
            "train_micro_batch_size_per_gpu",
            "gradient_accumulation_steps",
            "gradient_clipping",
            "bf16.*",
            "fp16.*",
            "steps_per_print",
            "wall_clock_breakdown",
        ]
    }

    fn harmless(&self) -> &'static [&'static str] {
        HARMLESS
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        read::read(reader, scene)
    }
}

/// What the training script has to do by itself.
fn unsaid(case: &Case<'_>) -> Vec<String> {
    let s = case.strategy;
    let mut sentences = vec![
        format!(
            "The model ({}) and sequences of {} tokens are the training script's, which run.sh takes from TRAIN_SCRIPT.",
            case.problem.model.name, case.problem.workload.seq_len
        ),
        "Where ranks need not be placed, `deepspeed --hostfile HOSTS train.py --deepspeed --deepspeed_config \
         ds_config.json` starts it too."
            .to_owned(),
    ];
    if s.pipeline > 1 {
        sentences.push(format!(
            "Only Python takes a pipeline: build PipelineModule with num_stages={} and the partition_method of \
             pipeline.partition, whose type: names the class of a block.",
            s.pipeline
        ));
        if s.tensor > 1 {
            sentences.push(format!(
                "AutoTP knows no pipeline: the layers split themselves over axis model of \
                 PipeModelDataParallelTopology(num_pp={}, num_mp={}, num_dp={}).",
                s.pipeline, s.tensor, s.data
            ));
        }
    } else if case.checkpoint() == Some(CheckpointMode::Full) {
        sentences.push(
            "The model recomputes by itself: call deepspeed.checkpointing.checkpoint around each block."
                .to_owned(),
        );
    }
    if s.zero == 0 && s.bucket != BUCKET && s.data > 1 {
        sentences.push(format!(
            "Without ZeRO its buckets hold {BUCKET} elements, whatever reduce_bucket_size says (runtime/engine.py:151)."
        ));
    }
    if s.context > 1 {
        sentences.push(
            "Ulysses is attached in Python: UlyssesSPAttentionHF.register_with_transformers, and its data loader."
                .to_owned(),
        );
    }
    sentences
}

/// Optimizer, schedule, logging, checkpoints, loss scaling, sizes of buffers that are not modelled.
pub const HARMLESS: &[&str] = &[
    "steps_per_print",
    "wall_clock_breakdown",
    "memory_breakdown",
    "dump_state",
    "disable_python_gc",
    "optimizer.params.*",
    "optimizer.legacy_fusion",
    "scheduler.*",
    "flops_profiler.*",
    "comms_logger.*",
    "tensorboard.*",
    "wandb.*",
    "csv_monitor.*",
    "comet.*",
    "autotuning.*",
    "checkpoint.*",
    "aio.*",
    "timers.*",
    "dataloader_drop_last",
    "log_level",
    "vocabulary_size",
    "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer",
    "disable_allgather",
    "prescale_gradients",
    "gradient_predivide_factor",
    "managed_gradient_accumulation",
    "fp16.auto_cast",
    "fp16.loss_scale",
    "fp16.initial_scale_power",
    "fp16.loss_scale_window",
    "fp16.hysteresis",
    "fp16.consecutive_hysteresis",
    "fp16.min_loss_scale",
    "bf16.check_grad_overflow",
    "bf16.immediate_grad_update",
    "data_types.buffer_dtype",
    "data_types.keep_in_fp32_modules",
    "zero_optimization.allgather_partitions",
    "zero_optimization.allgather_bucket_size",
    "zero_optimization.use_multi_rank_bucket_allreduce",
    "zero_optimization.compute_grad_norm",
    "zero_optimization.load_from_fp32_weights",
    "zero_optimization.elastic_checkpoint",
    "zero_optimization.sub_group_size",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_param_persistence_threshold",
    "zero_optimization.stage3_model_persistence_threshold",
    "zero_optimization.stage3_max_live_parameters",
    "zero_optimization.stage3_max_reuse_distance",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save",
    "zero_optimization.stage3_module_granularity_threshold",
    "zero_optimization.stage3_use_all_reduce_for_fetch_params",
    "zero_optimization.stage3_allgather_sequential",
    "zero_optimization.prefetch_bucket_size",
    "zero_optimization.param_persistence_threshold",
    "zero_optimization.max_live_parameters",
    "zero_optimization.max_reuse_distance",
    "zero_optimization.gather_16bit_weights_on_model_save",
    "zero_optimization.ignore_unused_parameters",
    "zero_optimization.round_robin_gradients",
    "zero_optimization.parameter_alignment",
    "zero_optimization.memory_efficient_linear",
    "zero_optimization.pipeline_loading_checkpoint",
    "zero_optimization.override_module_apply",
    "zero_optimization.log_trace_cache_warnings",
    "zero_optimization.enable_sanity_checks",
    "zero_optimization.leaf_module.*",
    "zero_optimization.model_persistence_threshold",
    "zero_optimization.module_granularity_threshold",
    "zero_optimization.use_all_reduce_for_fetch_params",
    "zero_optimization.allgather_sequential",
    "zero_optimization.save_muon_momentum_buffer_in_memory",
    "zero_optimization.cpu_offload_use_pin_memory",
    "zero_optimization.offload_optimizer.pin_memory",
    "zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_optimizer.buffer_count",
    "zero_optimization.offload_optimizer.pipeline_read",
    "zero_optimization.offload_optimizer.pipeline_write",
    "zero_optimization.offload_optimizer.fast_init",
    "zero_optimization.offload_optimizer.cpuadam_cores_perc",
    "zero_optimization.offload_optimizer.buffer_size",
    "zero_optimization.offload_param.pin_memory",
    "zero_optimization.offload_param.nvme_path",
    "zero_optimization.offload_param.buffer_count",
    "zero_optimization.offload_param.buffer_size",
    "zero_optimization.offload_param.max_in_cpu",
    "activation_checkpointing.contiguous_memory_optimization",
    "activation_checkpointing.synchronize_checkpoint_boundary",
    "activation_checkpointing.profile",
    "pipeline.seed_layers",
    "pipeline.pipe_partitioned",
    "pipeline.grad_partitioned",
    "pipeline.use_reentrant",
    "tensor_parallel.preset_model",
    "tensor_parallel.partition_config.*",
    "tensor_parallel.tp_overlap_comm",
    "tensor_parallel.dtype",
    "tensor_parallel.keep_module_on_host",
    "tensor_parallel.vocab_parallel_ce_backend",
    "tensor_parallel.tp.tp_grain_size",
    "expert_parallel.preset_model",
    "expert_parallel.moe_layer_pattern",
    "expert_parallel.expert_pattern",
    "expert_parallel.router_pattern",
    "expert_parallel.use_grouped_mm",
    "expert_parallel.validate_folding_routing",
    "expert_parallel.score_func",
    "expert_parallel.score_apply",
    "expert_parallel.route_norm",
    "expert_parallel.route_scale",
    "expert_parallel.top_k",
    "use_data_before_expert_parallelism",
];
