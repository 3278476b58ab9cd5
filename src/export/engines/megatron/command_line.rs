//! Megatron-LM, core 0.20: the arguments of `pretrain_gpt.py`.

use super::write::{PIPELINE_BEFORE_DATA, is_piped_first};
use super::{build, checks, model, read, write};
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
use crate::strategy::Strategy;

/// Megatron-LM with Megatron core 0.20.
pub struct CommandLine;

impl Dialect for CommandLine {
    fn name(&self) -> &'static str {
        "megatron"
    }

    fn version(&self) -> &'static str {
        "0.20"
    }

    fn source(&self) -> &'static str {
        "NVIDIA/Megatron-LM d98e8a64d, core 0.20"
    }

    fn profile(&self) -> &'static str {
        "megatron"
    }

    fn file(&self) -> &'static str {
        "arguments.sh"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Arguments
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        write::settings(case)
    }

    fn builds(&self, case: &Case<'_>, settings: &Settings) -> Option<Build> {
        build::build(settings, case.strategy.tensor).map(Build::from)
    }

    fn unsaid(&self, _: &Case<'_>) -> Vec<String> {
        vec!["--data-path, --tokenizer-type, --train-iters, --lr and --save are yours: add them to arguments.sh.".to_owned()]
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        checks::checks(case)
    }

    fn program(&self, case: &Case<'_>) -> Program {
        let mut program = Program::torchrun("\"${MEGATRON_PATH:-.}/pretrain_gpt.py\"", "\"${ARGUMENTS[@]}\"");
        program.prepare.push("source ./arguments.sh".into());
        arranged(program, case.strategy)
    }

    fn marks(&self) -> &'static [&'static str] {
        &[
            "num-layers",
            "hidden-size",
            "num-attention-heads",
            "micro-batch-size",
            "global-batch-size",
            "tensor-model-parallel-size",
            "pipeline-model-parallel-size",
            "use-distributed-optimizer",
            "seq-length",
        ]
    }

    fn harmless(&self) -> &'static [&'static str] {
        HARMLESS
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        model::read(reader)
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        read::read(reader, scene)
    }
}

/// The program with the order of ranks and the environment that a strategy takes.
pub fn arranged(mut program: Program, strategy: &Strategy) -> Program {
    if is_piped_first(strategy) {
        program.order = PIPELINE_BEFORE_DATA;
    }
    let (connections, why) = match strategy.zero {
        0 | 1 => (
            "1",
            "kernels start in the order in which they are queued, so collectives run beside products (before Blackwell)",
        ),
        _ => ("8", "Megatron-FSDP refuses 1, which serialises its streams"),
    };
    program.with("CUDA_DEVICE_MAX_CONNECTIONS", connections, why)
}

/// Data, tokenizer, learning rate, logging, checkpoints, initialisation, and how processes find each other.
pub const HARMLESS: &[&str] = &[
    "data-path",
    "data-args-path",
    "data-cache-path",
    "train-data-path",
    "valid-data-path",
    "test-data-path",
    "split",
    "mock-data",
    "num-workers",
    "dataloader-type",
    "no-create-attention-mask-in-dataloader",
    "num-dataset-builder-threads",
    "no-mmap-bin-files",
    "reset-position-ids",
    "reset-attention-mask",
    "eod-mask-loss",
    "tokenizer-type",
    "tokenizer-model",
    "tokenizer-name-or-path",
    "vocab-file",
    "merge-file",
    "make-vocab-size-divisible-by",
    "hf-tokenizer",
    "tiktoken-pattern",
    "train-iters",
    "train-samples",
    "lr",
    "min-lr",
    "lr-decay-style",
    "lr-decay-iters",
    "lr-decay-samples",
    "lr-warmup-iters",
    "lr-warmup-samples",
    "lr-warmup-fraction",
    "lr-warmup-init",
    "weight-decay",
    "optimizer",
    "adam-beta1",
    "adam-beta2",
    "adam-eps",
    "seed",
    "rotary-percent",
    "use-rotary-position-embeddings",
    "attention-softmax-in-fp32",
    "rotary-interleaved",
    "glu-linear-offset",
    "activation-func-clamp-value",
    "moe-shared-expert-gate",
    "apply-layernorm-1p",
    "original-max-position-embeddings",
    "no-position-embedding",
    "no-masked-softmax-fusion",
    "log-interval",
    "log-throughput",
    "log-timers-to-tensorboard",
    "log-memory-to-tensorboard",
    "log-params-norm",
    "log-num-zeros-in-grad",
    "log-progress",
    "log-validation-ppl-to-tensorboard",
    "log-device-memory-used",
    "tensorboard-dir",
    "tensorboard-log-interval",
    "wandb-project",
    "wandb-exp-name",
    "wandb-save-dir",
    "timing-log-level",
    "timing-log-option",
    "eval-iters",
    "eval-interval",
    "save",
    "save-interval",
    "save-retain-interval",
    "load",
    "pretrained-checkpoint",
    "no-load-optim",
    "no-load-rng",
    "no-save-optim",
    "no-save-rng",
    "ckpt-format",
    "ckpt-fully-parallel-save",
    "ckpt-fully-parallel-load",
    "ckpt-assume-constant-structure",
    "dist-ckpt-strictness",
    "dist-ckpt-format",
    "auto-detect-ckpt-format",
    "async-save",
    "exit-duration-in-mins",
    "exit-interval",
    "exit-signal-handler",
    "distributed-backend",
    "distributed-timeout-minutes",
    "local-rank",
    "manual-gc",
    "manual-gc-interval",
    "use-mcore-models",
    "transformer-impl",
    "no-bias-swiglu-fusion",
    "bias-swiglu-fusion",
    "no-rope-fusion",
    "use-flash-attn",
    "no-gradient-accumulation-fusion",
    "check-weight-hash-across-dp-replicas-interval",
    "no-check-for-nan-in-loss-and-grad",
    "check-for-nan-in-loss-and-grad",
    "calculate-per-token-loss",
    "profile",
    "profile-step-start",
    "profile-step-end",
    "profile-ranks",
    "use-pytorch-profiler",
    "record-memory-history",
    "memory-snapshot-path",
    "no-ckpt-fully-parallel-save",
    "enable-experimental",
    "init-model-with-meta-device",
    "moe-router-load-balancing-type",
    "moe-aux-loss-coeff",
    "moe-z-loss-coeff",
    "moe-token-dispatcher-type",
    "moe-grouped-gemm",
    "moe-permute-fusion",
    "moe-router-dtype",
    "moe-router-bias-update-rate",
    "moe-router-force-load-balancing",
    "moe-per-layer-logging",
    "moe-pad-expert-input-to-capacity",
    "overlap-param-gather-with-optimizer-step",
    "align-grad-reduce",
    "align-param-gather",
    "main-grads-dtype",
    "main-params-dtype",
    // Of the programs that start it.
    "nproc-per-node",
    "nnodes",
    "node-rank",
    "master-addr",
    "master-port",
    "rdzv-backend",
    "rdzv-endpoint",
    "rdzv-id",
    "rdzv-conf",
    "max-restarts",
    "log-dir",
    "redirects",
    "tee",
    "role",
    "standalone",
    "local-ranks-filter",
    "local-addr",
    "no-python",
    "account",
    "partition",
    "nodes",
    "ntasks-per-node",
    "gpus-per-node",
    "time",
    "exclusive",
    "job-name",
    "kill-on-bad-exit",
    "hostfile",
];
