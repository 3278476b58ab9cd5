//! v0.3.0 and the main branch: a Python function that returns the configuration.

use serde_json::Value;

use super::batch::BatchUnit;
use super::cuts::LM_HEAD;
use super::flavors::{self, Flavor};
use super::read::Layout;
use super::{read, registry, schedule_file, write};
use crate::export::case::Case;
use crate::export::check::Check;
use crate::export::dialect::Dialect;
use crate::export::differences::Build;
use crate::export::error::ImportError;
use crate::export::launch::Program;
use crate::export::meaning::{Meaning, ModelClue, Scene};
use crate::export::reader::Reader;
use crate::export::settings::{Settings, Term};
use crate::export::syntax::{Comment, Document, Syntax, python_assignments};
use crate::profile::capabilities::{Cited, ExpertTensorOffer, ExpertWidth, SequenceDivisor, Supports};
use crate::strategy::{CheckpointEntry, CheckpointMode, LossMode, OffloadCategory};
use crate::units::ElementType;

/// A version of torchtitan whose configurations are Python.
pub struct Recipe {
    version: &'static str,
    source: &'static str,
    unit: BatchUnit,
}

/// The first release without TOML files.
pub static V0_3: Recipe = Recipe {
    version: "v0.3.0",
    source: "torchtitan 0.3.0 of the Python Package Index",
    unit: BatchUnit::Sequences,
};

/// The main branch.
pub static MAIN: Recipe =
    Recipe { version: "main", source: "pytorch/torchtitan b5bcd76c6 (2026-08-21)", unit: BatchUnit::Tokens };

/// Classes that settings name.
const CHUNKED: &str = "ChunkedLossWrapper.Config()";
const WHOLE: &str = "CrossEntropyLoss.Config()";
pub const FULL: &str = "FullAC.Config()";
pub const SELECTIVE: &str = "SelectiveAC.Config()";

/// Parts in which a chunked loss cuts the sequence of a rank (v0.3.0 `components/loss.py`, `num_chunks`).
const LOSS_CHUNKS: u64 = 8;

/// The function of the registry that the recipe begins with, and the family whose registry has it.
fn base(case: &Case<'_>) -> (&'static str, &'static str) {
    let function = match flavors::flavor(case) {
        Flavor::Own(family, flavor, _) => registry::of_model(family, flavor),
        Flavor::Registered | Flavor::Unknown => None,
    };
    function.map_or(("llama3_debugmodel", "llama3"), |function| (function.name, function.family))
}

fn settings(unit: BatchUnit, case: &Case<'_>) -> Settings {
    let (strategy, workload) = (case.strategy, &case.problem.workload);
    let mut settings = Settings::default();
    if let Flavor::Own(_, flavor, folder) = flavors::flavor(case) {
        // Functions of the registry may convert products of their model to 8 bits: the model is made anew.
        settings.put("model_spec", Term::Call("model_registry()")).set("model_spec.0", flavor);
        settings.set("hf_assets_path", format!("./assets/hf/{folder}"));
    }
    unit.write(case, &mut settings);
    settings.set("training.max_norm", write::clip(workload.clip));
    settings.set("training.enable_cpu_offload", !strategy.offload.lacks(OffloadCategory::Optimizer));
    settings.set("training.dtype", "float32");
    let compute = if workload.precision == ElementType::Fp32 { "float32" } else { "bfloat16" };
    settings.set("training.mixed_precision_param", compute);
    let captures = strategy.pipeline == 1 && strategy.expert == 1;
    settings.set("training.disable_cuda_graphs", !captures);
    write::axes(case, &mut settings, LM_HEAD);
    settings.set("parallelism.enable_sequence_parallel", strategy.sequence_parallel || strategy.tensor == 1);
    if strategy.pipeline > 1 {
        unit.write_pipeline(case, &mut settings);
        write::schedule_file(case, &mut settings);
    }
    if strategy.context > 1 {
        settings.set("parallelism.spmd_backend", "spmd_types");
    }
    if !case.problem.facts.experts.is_empty() {
        settings.set("parallelism.expert_parallel_degree", strategy.expert);
    }
    let policy = match case.checkpoint() {
        Some(CheckpointMode::Full) => Term::Call(FULL),
        Some(CheckpointMode::Selective) => Term::Call(SELECTIVE),
        Some(CheckpointMode::None) | None => Term::Value(Value::Null),
    };
    settings.put("activation_checkpoint", policy);
    let inner = match strategy.loss {
        LossMode::Chunked => {
            settings.put("loss", Term::Call(CHUNKED)).put("loss.loss_fn", Term::Call(WHOLE));
            "loss.loss_fn"
        }
        LossMode::Full => {
            settings.put("loss", Term::Call(WHOLE));
            "loss"
        }
    };
    if let Some(decoder) = case.decoder() {
        settings.set(&format!("{inner}.global_vocab_size"), decoder.embedding.vocabulary);
    }
    settings.set_noted("compile.enable", false, "the plan is of the model as it is, uncompiled");
    settings.set("compile.enable_async_tensor_parallel", false);
    settings
}

/// What turns products into ones of fewer bits: converters of the configuration, or of the call that makes the model.
fn converters(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    for found in reader.all() {
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
        self.version
    }

    fn source(&self) -> &'static str {
        self.source
    }

    fn profile(&self) -> &'static str {
        "torchtitan"
    }

    fn narrow(&self, supports: &mut Supports) {
        let source = || self.source.to_owned();
        supports.precisions = Cited { value: vec![ElementType::Bf16, ElementType::Fp32], source: source() };
        // There is no key for it: spread experts are whole.
        let widths = ExpertTensorOffer { alone: vec![ExpertWidth::Tensor], spread: vec![ExpertWidth::One] };
        supports.expert_tensor = Cited { value: widths, source: source() };
        let divisor = Cited { value: SequenceDivisor::TensorTwiceContext, source: source() };
        supports.sequence_divisor = Some(divisor);
    }

    fn file(&self) -> &'static str {
        "planned.py"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Python
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        settings(self.unit, case)
    }

    fn text(&self, case: &Case<'_>, settings: &Settings, head: &[Comment]) -> String {
        let (base, family) = base(case);
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
            "{}{}\n\n\ndef planned():\n    c = {base}()\n{}    return c\n",
            Comment::head(head),
            imports.join("\n"),
            python_assignments(settings, "c.", "    ")
        )
    }

    fn companions(&self, case: &Case<'_>) -> Vec<(String, String)> {
        schedule_file::of(case).into_iter().collect()
    }

    fn builds(&self, case: &Case<'_>, _settings: &Settings) -> Option<Build> {
        match flavors::flavor(case) {
            own @ Flavor::Own(..) => flavors::own(&own).map(flavors::build),
            Flavor::Registered | Flavor::Unknown => None,
        }
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        let mut sentences = Vec::new();
        let (base, _) = base(case);
        let is_own = matches!(flavors::flavor(case), Flavor::Own(family, flavor, _)
            if registry::function(base).is_some_and(|function| function.is_for(family, flavor)));
        if !is_own {
            sentences.push(format!(
                "The recipe begins with {base}: learning rate, steps and data are of another model, so set yours."
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
        if s.loss == LossMode::Chunked {
            checks.push(Check::divides(
                ("seq_len", case.problem.workload.seq_len),
                ("chunks of the loss · cp", LOSS_CHUNKS * s.context),
                "components/loss.py:669",
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
        match self.unit {
            BatchUnit::Sequences => &[
                "training.*",
                "parallelism.*",
                "activation_checkpoint",
                "loss",
                "compile.*",
                "training.local_batch_size",
                "training.global_batch_size",
                "training.seq_len",
            ],
            BatchUnit::Tokens => &[
                "training.*",
                "parallelism.*",
                "activation_checkpoint",
                "loss",
                "compile.*",
                "training.num_tokens_per_microbatch_per_dp_rank",
                "training.num_tokens_per_train_step",
                "training.max_context_length",
            ],
        }
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
            "training.gc_freq",
            "training.gc_debug",
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
        Ok(registry::base(reader.document()).map(|name| match registry::function(name) {
            Some(function) => flavors::clue(function.family, function.flavor),
            None => flavors::of_function(name),
        }))
    }

    fn beneath(&self, document: &Document) -> Option<Document> {
        Some(registry::function(registry::base(document)?)?.beneath(document))
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
        let layout = Layout { micro: self.unit.micro_batches(reader)?, head: LM_HEAD };
        read::pipeline(reader, scene, &mut meaning.draft, &layout)?;
        let graphs = "training.disable_cuda_graphs";
        if !reader.is_on(graphs)? && meaning.draft.pipeline != Some(1) {
            return Err(reader.refused(graphs, "a pipeline does not go with CUDA graphs: it must be True"));
        }
        let expert = reader.size("parallelism.expert_parallel_degree")?.unwrap_or(1);
        if read::has_experts(scene) {
            meaning.draft.expert = Some(expert);
            meaning.draft.expert_tensor = if expert == 1 { meaning.draft.tensor } else { Some(1) };
        }
        let path = "activation_checkpoint";
        let usual = if reader.has(path) { None } else { Some(SELECTIVE) };
        let named = reader.name(path).or(usual);
        let mode = match named.map(|name| name.trim_end_matches("()").trim_end_matches(".Config")) {
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
        let base = registry::base(reader.document());
        let unknown = base.filter(|name| registry::function(name).is_none());
        if let Some(base) = unknown {
            if !reader.has(self.unit.needed()) {
                return Err(reader.refused(self.unit.needed(), format!("what {base} sets is not known here")));
            }
            meaning.notes.push(format!(
                "What {base} sets is not known here; torchtitan's defaults are taken for what this file leaves out."
            ));
        }
        self.unit.read(reader, scene, &mut meaning, unknown.is_none())?;
        read::types(reader, &mut meaning)?;
        meaning.clip = read::clip(reader)?;
        read::speed(reader, &mut meaning)?;
        converters(reader, &mut meaning)?;
        read::unmodelled(reader)?;
        Ok(meaning)
    }
}
