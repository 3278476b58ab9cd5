//! The main branch: a Python function that returns the configuration.

use serde_json::Value;

use super::flavors::{self, Flavor};
use super::{read, schedule_file, write};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::error::ImportError;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, ModelClue, Scene};
use crate::export::reader::{Reader, multiples};
use crate::export::settings::Settings;
use crate::export::syntax::{Syntax, python_assignments};
use crate::profile::capabilities::{Cited, ExpertTensorOffer, ExpertWidth, Supports};
use crate::strategy::{CheckpointEntry, CheckpointMode, LossMode, OffloadCategory};
use crate::units::ElementType;

/// torchtitan's main branch, as of 2026-08-21.
pub struct Recipe;

const SOURCE: &str = "pytorch/torchtitan b5bcd76c6 (2026-08-21)";

/// Classes of the main branch that settings name, with the modules that hold them.
const CHUNKED: &str = "ChunkedLossWrapper.Config()";
const WHOLE: &str = "CrossEntropyLoss.Config()";
const FULL: &str = "FullAC.Config()";
const SELECTIVE: &str = "SelectiveAC.Config()";

/// The function of its registry that the recipe begins with, and the family whose registry has it; whether it is the
/// model's own.
fn base(case: &Case<'_>) -> (String, &'static str, bool) {
    match flavors::flavor(case) {
        Flavor::Own("llama3", flavor, _) => (format!("llama3_{}", flavor.to_lowercase()), "llama3", true),
        Flavor::Own(family, ..) => (format!("{family}_debugmodel"), family, false),
        Flavor::Registered | Flavor::Unknown => ("llama3_debugmodel".to_owned(), "llama3", false),
    }
}

fn settings(case: &Case<'_>) -> Settings {
    let (strategy, workload) = (case.strategy, &case.problem.workload);
    let mut settings = Settings::default();
    if let (Flavor::Own(_, flavor, folder), (_, _, false)) = (flavors::flavor(case), base(case)) {
        settings.set("model_spec", "model_registry()").set("model_spec.0", flavor);
        settings.set("hf_assets_path", format!("./assets/hf/{folder}"));
    }
    let tokens = strategy.micro_batch * workload.seq_len;
    settings.set("training.max_context_length", workload.seq_len);
    settings.set("training.num_tokens_per_microbatch_per_dp_rank", tokens);
    settings.set("training.num_tokens_per_train_step", workload.tokens());
    settings.set("training.max_norm", write::clip(workload.clip));
    settings.set("training.enable_cpu_offload", !strategy.offload.lacks(OffloadCategory::Optimizer));
    settings.set("training.dtype", "float32");
    let compute = if workload.precision == ElementType::Fp32 { "float32" } else { "bfloat16" };
    settings.set("training.mixed_precision_param", compute);
    let captures = strategy.pipeline == 1 && strategy.expert == 1;
    settings.set("training.disable_cuda_graphs", !captures);
    write::axes(case, &mut settings);
    settings.set("parallelism.enable_sequence_parallel", strategy.sequence_parallel || strategy.tensor == 1);
    if strategy.pipeline > 1 {
        settings.set("parallelism.num_pp_microbatches", strategy.accumulation);
        write::schedule_file(case, &mut settings);
    }
    if strategy.context > 1 {
        settings.set("parallelism.spmd_backend", "spmd_types");
    }
    if !case.problem.facts.experts.is_empty() {
        settings.set("parallelism.expert_parallel_degree", strategy.expert);
    }
    let policy = match case.checkpoint() {
        Some(CheckpointMode::Full) => Value::from(FULL),
        Some(CheckpointMode::Selective) => Value::from(SELECTIVE),
        Some(CheckpointMode::None) | None => Value::Null,
    };
    settings.set("activation_checkpoint", policy);
    let inner = match strategy.loss {
        LossMode::Chunked => {
            settings.set("loss", CHUNKED).set("loss.loss_fn", WHOLE);
            "loss.loss_fn"
        }
        LossMode::Full => {
            settings.set("loss", WHOLE);
            "loss"
        }
    };
    if let Some(shape) = case.shape() {
        settings.set(&format!("{inner}.global_vocab_size"), shape.embedding.vocabulary);
    }
    settings.set_noted("compile.enable", false, "the plan is of the model as it is, uncompiled");
    settings
}

fn batch(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let seq_len = reader.size("training.max_context_length")?.or(scene.seq_len);
    let seq_len = seq_len.ok_or(ImportError::Unsaid { what: "the sequence length", flag: "--seq-len N" })?;
    let path = "training.num_tokens_per_microbatch_per_dp_rank";
    let tokens = reader.size(path)?.unwrap_or(seq_len);
    if !tokens.is_multiple_of(seq_len) {
        let rule = format!("it must be a multiple of the {seq_len} tokens of a sequence");
        return Err(reader.refused(path, rule).or(multiples(tokens, seq_len)));
    }
    let draft = &mut meaning.draft;
    let passes = reader.size("parallelism.num_pp_microbatches")?.unwrap_or(1);
    let passes = if draft.pipeline == Some(1) { 1 } else { passes };
    let once = tokens.saturating_mul(draft.data.unwrap_or(1)).saturating_mul(passes);
    let step_path = "training.num_tokens_per_train_step";
    let step = match reader.whole(step_path)?.unwrap_or(-1) {
        number if number < 0 => once,
        _ => reader.size(step_path)?.unwrap_or(once),
    };
    if !step.is_multiple_of(once) {
        let rule = format!(
            "it must be a multiple of the {once} tokens that data ranks and micro-batches take at once"
        );
        return Err(reader.refused(step_path, rule).or(multiples(step, once)));
    }
    draft.micro_batch = Some(tokens / seq_len);
    draft.accumulation = Some(step / once * passes);
    if draft.pipeline != Some(1) && step > once {
        meaning.notes.push(read::several_steps(step / once));
    }
    (meaning.seq_len, meaning.global_batch) = (Some(seq_len), Some(step / seq_len));
    Ok(())
}

/// What turns products into ones of fewer bits: converters of the configuration, or of the call that makes the model.
fn converters(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    for found in &reader.document().found {
        let of_configuration = found.path == "model_converters";
        // A list of calls, each in the place of an element.
        let value = found.value.to_string();
        let names = |word: &str| found.path.starts_with("model_spec.") && value.contains(word);
        if names("MXFP8") || names("NVFP4") {
            return Err(reader.refused(&found.path, "only float8 products are modelled"));
        }
        if of_configuration || names("Float8") {
            reader.name(&found.path);
            meaning.precision = Some(ElementType::Fp8);
            meaning.notes.push("Converters of the model are taken for float8 products.".to_owned());
        }
    }
    Ok(())
}

impl Dialect for Recipe {
    fn name(&self) -> &'static str {
        "torchtitan"
    }

    fn version(&self) -> &'static str {
        "main"
    }

    fn source(&self) -> &'static str {
        SOURCE
    }

    fn profile(&self) -> &'static str {
        "torchtitan"
    }

    fn narrow(&self, supports: &mut Supports) {
        let source = || SOURCE.to_owned();
        supports.precisions = Cited { value: vec![ElementType::Bf16, ElementType::Fp32], source: source() };
        // There is no key for it: spread experts are whole.
        let widths = ExpertTensorOffer { alone: vec![ExpertWidth::Tensor], spread: vec![ExpertWidth::One] };
        supports.expert_tensor = Cited { value: widths, source: source() };
    }

    fn file(&self) -> &'static str {
        "planned.py"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Python
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        settings(case)
    }

    fn text(&self, case: &Case<'_>, settings: &Settings, head: &[String]) -> String {
        let (base, family, _) = base(case);
        let comments: String = head.iter().map(|line| format!("# {line}\n")).collect();
        let mut imports = vec![
            "from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss".to_owned(),
            "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC".to_owned(),
            format!("from torchtitan.models.{family}.config_registry import {base}"),
        ];
        if settings.get("model_spec").is_some() {
            imports.push(format!("from torchtitan.models.{family} import model_registry"));
        }
        imports.sort();
        format!(
            "{comments}{}\n\n\ndef planned():\n    c = {base}()\n{}    return c\n",
            imports.join("\n"),
            python_assignments(settings, "c.", "    ")
        )
    }

    fn companions(&self, case: &Case<'_>) -> Vec<(String, String)> {
        schedule_file::of(case).into_iter().collect()
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        let mut sentences = Vec::new();
        let (base, _, is_own) = base(case);
        if !is_own {
            sentences.push(format!(
                "The recipe begins with {base}, whose other settings are those of a small model; not verified that every \
                 commit has it."
            ));
        }
        if matches!(flavors::flavor(case), Flavor::Registered | Flavor::Unknown) {
            sentences
                .push(format!("torchtitan has no {}: set c.model_spec to yours.", case.problem.model.name));
        }
        if case.problem.workload.dropout > 0.0 {
            sentences.push("It has no dropout; the plan has.".to_owned());
        }
        sentences
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        let s = case.strategy;
        let mut checks = super::release::checks(case);
        for heads in &case.problem.facts.heads {
            checks.push(Check::divides(
                ("key-value heads", heads.key_value),
                ("tp", s.tensor),
                "models/common/decoder.py:195",
            ));
        }
        if s.context > 1 {
            checks.push(Check::new(
                true,
                "context parallelism needs FlexAttention: set it in the model",
                "models/common/decoder.py:173",
            ));
        }
        checks
    }

    fn program(&self, _: &Case<'_>) -> Program {
        Program::torchrun("-m torchtitan.train", "--module planned --config planned").with(
            "PYTHONPATH",
            "\"$PWD${PYTHONPATH:+:$PYTHONPATH}\"",
            "planned.py lies beside the scripts",
        )
    }

    fn marks(&self) -> &'static [&'static str] {
        &["training.*", "parallelism.*", "activation_checkpoint", "loss", "compile.*"]
    }

    fn harmless(&self) -> &'static [&'static str] {
        &[
            "hf_assets_path",
            "optimizer*",
            "lr_scheduler*",
            "metrics*",
            "profil*",
            "checkpoint*",
            "dataloader*",
            "validator*",
            "tokenizer*",
            "comm*",
            "debug*",
            "training",
            "training.steps",
            "training.disable_cuda_graphs",
            "training.gc_freq",
            "parallelism",
            "parallelism.spmd_backend",
            "compile",
            "loss.*",
            "activation_checkpoint.*",
            "model_spec",
            "model_spec.attn_backend",
            "c",
            "config",
            "model_converters.*",
        ]
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        if let Some(flavor) = reader.name("model_spec.0") {
            return Ok(Some(flavors::of_flavor(flavor)));
        }
        let call = |name: &str| reader.name(name).and_then(|value| value.strip_suffix("()"));
        let base = ["c", "config", "cfg"].into_iter().find_map(call);
        Ok(base
            .and_then(|base| base.split_once('_'))
            .map(|(family, flavor)| flavors::clue_of_any_case(family, flavor)))
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        let mut meaning = Meaning::default();
        read::axes(reader, scene, &mut meaning.draft)?;
        // FSDP is applied to one rank too (distributed/parallel_dims.py:195): it offloads there, and may shard experts.
        if reader.size("parallelism.data_parallel_replicate_degree")?.unwrap_or(1) == 1 {
            meaning.draft.zero = Some(3);
            read::reshard(reader, &mut meaning.draft)?;
        }
        let splits = reader.switch("parallelism.enable_sequence_parallel")?.unwrap_or(true);
        meaning.draft.sequence_parallel = (meaning.draft.tensor > Some(1)).then_some(splits);
        let passes = reader.size("parallelism.num_pp_microbatches")?.unwrap_or(1);
        read::pipeline(reader, scene, &mut meaning.draft, passes)?;
        let expert = reader.size("parallelism.expert_parallel_degree")?.unwrap_or(1);
        if read::has_experts(scene) {
            meaning.draft.expert = Some(expert);
            meaning.draft.expert_tensor = if expert == 1 { meaning.draft.tensor } else { Some(1) };
        }
        let path = "activation_checkpoint";
        let mode = match reader.name(path).map(|name| name.trim_end_matches("()").trim_end_matches(".Config"))
        {
            None => CheckpointMode::None,
            Some("FullAC") => CheckpointMode::Full,
            Some("SelectiveAC") => CheckpointMode::Selective,
            Some(_) => {
                return Err(reader.refused(path, "None, FullAC.Config() or SelectiveAC.Config() is needed"));
            }
        };
        meaning.draft.checkpoint = Some(vec![CheckpointEntry::Whole(mode)]);
        meaning.draft.loss = match reader.name("loss") {
            Some(loss) if loss.contains("CrossEntropyLoss") => Some(LossMode::Full),
            // The recipes of its registry wrap their loss so.
            _ => Some(LossMode::Chunked),
        };
        read::offload(reader, &mut meaning.draft)?;
        batch(reader, scene, &mut meaning)?;
        read::types(reader, &mut meaning)?;
        meaning.clip = read::clip(reader)?;
        read::speed(reader, &mut meaning)?;
        converters(reader, &mut meaning)?;
        read::unmodelled(reader)?;
        Ok(meaning)
    }
}
