//! NeMo 2: overrides of a recipe, which hold what Megatron-LM's arguments hold under other names.

use serde_json::Value;

use super::command_line::arranged;
use super::nemo_model::{self, recipe};
use super::{checks, read, write};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::differences::Build;
use crate::export::error::ImportError;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::settings::Settings;
use crate::export::syntax::{Code, Document, Found, Syntax};
use crate::profile::capabilities::{Cited, OffloadGrain, Supports};
use crate::strategy::{AttentionKernel, CheckpointMode, OffloadCategory};

/// NeMo 2.6, whose recipes are overridden on the command line of `nemo llm pretrain`.
pub struct Recipe;

/// Names of Megatron-LM's arguments and of NeMo's fields, which mean the same
/// (NVIDIA/NeMo 8cfedd72: `lightning/pytorch/strategies/megatron_strategy.py`, `collections/llm/recipes`).
pub const NAMES: &[(&str, &str)] = &[
    ("tensor-model-parallel-size", "trainer.strategy.tensor_model_parallel_size"),
    ("sequence-parallel", "trainer.strategy.sequence_parallel"),
    ("pipeline-model-parallel-size", "trainer.strategy.pipeline_model_parallel_size"),
    ("num-virtual-stages-per-pipeline-rank", "trainer.strategy.virtual_pipeline_model_parallel_size"),
    ("pipeline-model-parallel-layout", "trainer.strategy.pipeline_model_parallel_layout"),
    ("decoder-first-pipeline-num-layers", "trainer.strategy.num_layers_in_first_pipeline_stage"),
    ("decoder-last-pipeline-num-layers", "trainer.strategy.num_layers_in_last_pipeline_stage"),
    ("account-for-embedding-in-pipeline-split", "trainer.strategy.account_for_embedding_in_pipeline_split"),
    ("account-for-loss-in-pipeline-split", "trainer.strategy.account_for_loss_in_pipeline_split"),
    ("context-parallel-size", "trainer.strategy.context_parallel_size"),
    ("expert-model-parallel-size", "trainer.strategy.expert_model_parallel_size"),
    ("expert-tensor-parallel-size", "trainer.strategy.expert_tensor_parallel_size"),
    ("use-tp-pp-dp-mapping", "trainer.strategy.use_tp_pp_dp_mapping"),
    ("overlap-grad-reduce", "trainer.strategy.ddp.overlap_grad_reduce"),
    ("overlap-param-gather", "trainer.strategy.ddp.overlap_param_gather"),
    ("num-distributed-optimizer-instances", "trainer.strategy.ddp.num_distributed_optimizer_instances"),
    ("use-megatron-fsdp", "trainer.strategy.ddp.use_megatron_fsdp"),
    ("data-parallel-sharding-strategy", "trainer.strategy.ddp.data_parallel_sharding_strategy"),
    ("use-distributed-optimizer", "optim.config.use_distributed_optimizer"),
    ("optimizer-cpu-offload", "optim.config.optimizer_cpu_offload"),
    ("optimizer-offload-fraction", "optim.config.optimizer_offload_fraction"),
    ("use-precision-aware-optimizer", "optim.config.use_precision_aware_optimizer"),
    ("overlap-cpu-optimizer-d2h-h2d", "optim.config.overlap_cpu_optimizer_d2h_h2d"),
    ("clip-grad", "optim.config.clip_grad"),
    ("micro-batch-size", "data.micro_batch_size"),
    ("global-batch-size", "data.global_batch_size"),
    ("seq-length", "data.seq_length"),
    ("cp-comm-type", "model.config.cp_comm_type"),
    ("attention-dropout", "model.config.attention_dropout"),
    ("hidden-dropout", "model.config.hidden_dropout"),
    ("moe-expert-capacity-factor", "model.config.moe_expert_capacity_factor"),
    ("recompute-granularity", "model.config.recompute_granularity"),
    ("recompute-method", "model.config.recompute_method"),
    ("recompute-num-layers", "model.config.recompute_num_layers"),
    ("recompute-modules", "model.config.recompute_modules"),
    ("fine-grained-activation-offloading", "model.config.fine_grained_activation_offloading"),
    ("offload-modules", "model.config.offload_modules"),
    ("num-layers", "model.config.num_layers"),
    ("mtp-num-layers", "model.config.mtp_num_layers"),
    ("hidden-size", "model.config.hidden_size"),
    ("ffn-hidden-size", "model.config.ffn_hidden_size"),
    ("num-attention-heads", "model.config.num_attention_heads"),
    ("kv-channels", "model.config.kv_channels"),
    ("normalization", "model.config.normalization"),
    ("norm-epsilon", "model.config.layernorm_epsilon"),
    ("apply-layernorm-1p", "model.config.layernorm_zero_centered_gamma"),
    ("qk-layernorm", "model.config.qk_layernorm"),
    ("add-qkv-bias", "model.config.add_qkv_bias"),
    ("init-method-std", "model.config.init_method_std"),
    ("rotary-base", "model.config.rotary_base"),
    ("rotary-percent", "model.config.rotary_percent"),
    ("rotary-interleaved", "model.config.rotary_interleaved"),
    ("rotary-seq-len-interpolation-factor", "model.config.seq_len_interpolation_factor"),
    ("make-vocab-size-divisible-by", "model.config.make_vocab_size_divisible_by"),
    ("num-experts", "model.config.num_moe_experts"),
    ("moe-router-topk", "model.config.moe_router_topk"),
    ("moe-ffn-hidden-size", "model.config.moe_ffn_hidden_size"),
    ("moe-shared-expert-intermediate-size", "model.config.moe_shared_expert_intermediate_size"),
    ("moe-router-score-function", "model.config.moe_router_score_function"),
    ("moe-router-pre-softmax", "model.config.moe_router_pre_softmax"),
    ("moe-router-topk-scaling-factor", "model.config.moe_router_topk_scaling_factor"),
    ("moe-router-num-groups", "model.config.moe_router_num_groups"),
    ("moe-router-group-topk", "model.config.moe_router_group_topk"),
    ("moe-router-enable-expert-bias", "model.config.moe_router_enable_expert_bias"),
    ("moe-router-load-balancing-type", "model.config.moe_router_load_balancing_type"),
];

/// Fields of recipes that the plan may not have: an override that says so takes them back.
const TAKEN_BACK: &[(&str, &str)] = &[
    ("trainer.strategy.sequence_parallel", "false"),
    ("trainer.strategy.virtual_pipeline_model_parallel_size", "null"),
    ("trainer.strategy.account_for_embedding_in_pipeline_split", "false"),
    ("trainer.strategy.account_for_loss_in_pipeline_split", "false"),
    ("trainer.strategy.num_layers_in_first_pipeline_stage", "null"),
    ("trainer.strategy.num_layers_in_last_pipeline_stage", "null"),
    ("model.config.recompute_granularity", "null"),
    ("model.config.layernorm_zero_centered_gamma", "false"),
    ("model.config.qk_layernorm", "false"),
    ("model.config.add_qkv_bias", "false"),
    ("optim.config.use_distributed_optimizer", "false"),
    ("optim.config.use_precision_aware_optimizer", "false"),
];

const GATHERS: &str = "trainer.strategy.ddp.overlap_param_gather";
const RECOMPUTED: &str = "model.config.recompute_modules";

const PRECISION: &str = "trainer.plugins.precision";
const EIGHT_BIT: &str = "trainer.plugins.fp8";
const SINGLE_GRADIENTS: &str = "trainer.plugins.grad_reduce_in_fp32";

/// The arguments of Megatron-LM under NeMo's names.
fn settings(case: &Case<'_>) -> Settings {
    let arguments = write::settings(case);
    let mut settings = Settings::default();
    settings.set("trainer.num_nodes", case.nodes()).set("trainer.devices", case.devices_per_node());
    for setting in arguments.iter() {
        if let Some((_, field)) = NAMES.iter().find(|(argument, _)| *argument == setting.path) {
            settings.set(field, setting.value.clone());
        }
    }
    for (field, value) in TAKEN_BACK {
        if settings.get(field).is_none() {
            settings.set(field, serde_json::from_str::<Value>(value).unwrap_or_default());
        }
    }
    nemo_model::write(case, &arguments, &mut settings);
    let is = |name: &str| arguments.get(name).is_some();
    // The position embeddings are as long as the model says.
    settings.set("model.config.seq_length", case.problem.workload.seq_len);
    if case.strategy.zero == 0 {
        settings.set(GATHERS, false);
    }
    if case.checkpoint() == Some(CheckpointMode::Selective) {
        settings.set(RECOMPUTED, vec!["core_attn"]);
    }
    let precision = match (is("bf16"), is("fp16")) {
        (true, _) => "bf16-mixed",
        (_, true) => "16-mixed",
        _ => "32",
    };
    settings.set(PRECISION, precision);
    if is("fp8-format") {
        settings.set(EIGHT_BIT, "hybrid");
    }
    let keeps_half = is("grad-reduce-in-bf16") || (is("fp16") && !is("accumulate-allreduce-grads-in-fp32"));
    settings.set(SINGLE_GRADIENTS, !keeps_half);
    settings
}

/// The document under the names of Megatron-LM's arguments; what has none is left out.
fn translated(document: &Document) -> Document {
    let mut found: Vec<Found> = Vec::new();
    let put = |found: &mut Vec<Found>, entry: &Found, path: &str, value: Value| {
        found.push(Found { path: path.to_owned(), value, ..entry.clone() });
    };
    for entry in &document.found {
        let word = match &entry.value {
            Value::String(word) => word.clone(),
            other => other.to_string(),
        };
        let is_half = document.get(PRECISION).is_some_and(|found| found.value.as_str() == Some("16-mixed"));
        match entry.path.as_str() {
            PRECISION if word.starts_with("bf16") => put(&mut found, entry, "bf16", true.into()),
            PRECISION if word.starts_with("16") => put(&mut found, entry, "fp16", true.into()),
            EIGHT_BIT if !entry.value.is_null() => put(&mut found, entry, "fp8-format", entry.value.clone()),
            SINGLE_GRADIENTS => {
                let is_single = entry.value.as_bool().unwrap_or(true);
                match (is_half, is_single) {
                    (false, false) => put(&mut found, entry, "grad-reduce-in-bf16", true.into()),
                    (true, true) => put(&mut found, entry, "accumulate-allreduce-grads-in-fp32", true.into()),
                    _ => {}
                }
            }
            path => {
                if let Some((argument, _)) = NAMES.iter().find(|(_, field)| *field == path) {
                    put(&mut found, entry, argument, entry.value.clone());
                }
            }
        }
    }
    Document { found, ..document.clone() }
}

/// An error about an argument of Megatron-LM as one about the field.
fn renamed(error: ImportError) -> ImportError {
    let field = |path: &str| {
        let known = NAMES.iter().find(|(argument, _)| *argument == path);
        known.map_or_else(|| path.to_owned(), |(_, field)| (*field).to_owned())
    };
    match error {
        ImportError::Value { path, value, line, rule, nearest } => {
            ImportError::Value { path: field(&path), value, line, rule, nearest }
        }
        ImportError::Missing { path, rule } => ImportError::Missing { path: field(&path), rule },
        other => other,
    }
}

impl Dialect for Recipe {
    fn name(&self) -> &'static str {
        "nemo"
    }

    fn version(&self) -> &'static str {
        "2.6"
    }

    fn source(&self) -> &'static str {
        "NeMo 2.6.0, NeMo-Run 0.11.1 and Megatron core 0.16.1 of the Python Package Index"
    }

    fn profile(&self) -> &'static str {
        "nemo"
    }

    fn narrow(&self, supports: &mut Supports) {
        // Its command line reads no words of enumerations, as the kind of attention is one.
        let source = "NeMo-Run 0.11.1 cli/cli_parser.py: an enumeration is no type that it parses".to_owned();
        supports.attention = Cited { value: vec![AttentionKernel::Fused], source };
        // The release of core that NeMo installs (0.16.1) has no share of it.
        for offer in &mut supports.offload.value {
            if offer.category == OffloadCategory::Activations {
                offer.grain = OffloadGrain::Whole;
            }
        }
    }

    fn file(&self) -> &'static str {
        "overrides.sh"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Overrides
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        settings(case)
    }

    fn builds(&self, case: &Case<'_>, settings: &Settings) -> Option<Build> {
        nemo_model::build(case, settings)
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        let mut sentences =
            vec!["The data and its tokenizer are the recipe's: override data.paths and the rest.".to_owned()];
        match recipe(case).map(|known| (known, known.slow(case.strategy))) {
            None => sentences.push(format!(
                "No recipe of NeMo is known here for {}: name yours in RECIPE, for run.sh, in its performance mode \
                 (RECIPE='name(performance_mode=True)'), for which the step is predicted.",
                case.problem.model.name
            )),
            Some((known, Some(why))) => sentences.push(format!(
                "{} is started without a performance mode, as {why}; messages of tensor and pipeline ranks are predicted \
                 beside computing all the same.",
                known.name
            )),
            Some((_, None)) => {}
        }
        sentences
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        checks::checks(case)
    }

    fn program(&self, case: &Case<'_>) -> Program {
        let known = recipe(case).map(|known| known.start(case.strategy));
        let recipe =
            known.map_or_else(|| Code::from(":?name the recipe"), |known| Code::from(":-").then(known));
        let arguments = Code::from("llm pretrain --yes --factory \"${RECIPE").then(recipe);
        let mut program = Program::torchrun("--no-python nemo", arguments.then("}\" \"${ARGUMENTS[@]}\""));
        program.prepare.push("source ./overrides.sh".into());
        arranged(program, case.strategy)
    }

    fn marks(&self) -> &'static [&'static str] {
        &[
            "trainer.strategy.tensor_model_parallel_size",
            "trainer.strategy.pipeline_model_parallel_size",
            "trainer.strategy.context_parallel_size",
            "trainer.num_nodes",
            "data.micro_batch_size",
            "data.global_batch_size",
        ]
    }

    fn harmless(&self) -> &'static [&'static str] {
        &[
            "trainer.num_nodes",
            "trainer.devices",
            "trainer.max_steps",
            "trainer.max_epochs",
            "trainer.log_every_n_steps",
            "trainer.val_check_interval",
            "trainer.limit_val_batches",
            "trainer.limit_test_batches",
            "trainer.callbacks",
            "trainer.strategy.pipeline_dtype",
            "trainer.strategy.ckpt_async_save",
            "trainer.strategy.ckpt_parallel_load",
            "trainer.strategy.gradient_as_bucket_view",
            "trainer.strategy.ddp.check_for_nan_in_grad",
            "trainer.strategy.ddp.grad_reduce_in_fp32",
            "optim.config.lr",
            "optim.config.weight_decay",
            "optim.config.adam_beta1",
            "optim.config.adam_beta2",
            "optim.lr_scheduler.*",
            "data.paths",
            "data.num_workers",
            "data.tokenizer",
            "log.*",
            "resume.*",
            "model.config.seq_length",
            "model.config.num_query_groups",
            "model.config.share_embeddings_and_output_weights",
            "model.config.add_bias_linear",
            "model.config.gated_linear_unit",
            "model.config.position_embedding_type",
            "model.config.vocab_size",
            "model.config.moe_layer_freq",
            "model.config.scale_factor",
            "model.config.low_freq_factor",
            "model.config.high_freq_factor",
            "model.config.old_context_len",
            "model.config.window_size",
        ]
    }

    fn model(&self, _: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        Ok(None)
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        let document = translated(reader.document());
        let inner = Reader::new(&document);
        let mut meaning = read::read(&inner, scene).map_err(renamed)?;
        for (_, field) in NAMES {
            reader.name(field);
        }
        for field in [PRECISION, EIGHT_BIT, SINGLE_GRADIENTS] {
            reader.name(field);
        }
        // What overrides leave out is the recipe's, which is Python.
        if !reader.has("data.global_batch_size") && scene.global_batch.is_none() {
            return Err(ImportError::Unsaid { what: "the global batch", flag: "--global-batch N" });
        }
        if !reader.has("model.config.attention_dropout") && !reader.has("model.config.hidden_dropout") {
            meaning.dropout = None;
        }
        if !reader.has(PRECISION) {
            meaning.precision = None;
        }
        Ok(meaning)
    }
}
