//! v0.2.2: TOML.

use super::flavors::{self, Flavor, MODULE};
use super::old;
use super::{read, schedule_file, write};
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
use crate::profile::capabilities::{CheckpointGrain, Cited, ShardGroups, Supports};
use crate::strategy::{LossMode, rules};

/// torchtitan v0.2.2.
pub struct Release;

impl Dialect for Release {
    fn name(&self) -> &'static str {
        "torchtitan"
    }

    fn version(&self) -> &'static str {
        "v0.2.2"
    }

    fn source(&self) -> &'static str {
        "pytorch/torchtitan v0.2.2, 73a0e6979"
    }

    fn profile(&self) -> &'static str {
        "torchtitan"
    }

    fn narrow(&self, supports: &mut Supports) {
        let source = || "pytorch/torchtitan 73a0e697 (v0.2.2)".to_owned();
        // Its sequence parallelism is part of its tensor parallelism.
        supports.sequence_parallel = Cited { value: vec![true], source: source() };
        // FSDP, and with it offload, is left out where nothing is sharded (models/llama3/infra/parallelize.py).
        supports.shard_groups = Cited { value: ShardGroups::OfSeveralAlways, source: source() };
        supports.loss = Cited { value: vec![LossMode::Full], source: source() };
    }

    fn widen(&self, supports: &mut Supports) {
        let source =
            "pytorch/torchtitan 73a0e697 (v0.2.2) distributed/activation_checkpoint.py: every k-th block";
        supports.checkpoint_grain = Cited { value: CheckpointGrain::Block, source: source.to_owned() };
    }

    fn file(&self) -> &'static str {
        "train.toml"
    }

    fn syntax(&self) -> Syntax {
        Syntax::Toml
    }

    fn settings(&self, case: &Case<'_>) -> Settings {
        write::settings(case)
    }

    fn companions(&self, case: &Case<'_>) -> Vec<(String, String)> {
        let mut files = Vec::new();
        if flavors::flavor(case) == Flavor::Registered {
            files.extend(flavors::module(case).map(|text| (format!("{MODULE}.py"), text)));
        }
        files.extend(schedule_file::of(case));
        files
    }

    fn builds(&self, case: &Case<'_>, _settings: &Settings) -> Option<Build> {
        match flavors::flavor(case) {
            own @ Flavor::Own(..) => flavors::own(&own),
            Flavor::Registered => flavors::registered(case),
            Flavor::Unknown => None,
        }
        .map(flavors::build)
    }

    fn unsaid(&self, case: &Case<'_>) -> Vec<String> {
        let mut sentences = Vec::new();
        if flavors::flavor(case) == Flavor::Unknown {
            sentences.push(format!(
                "torchtitan has no model like {}: register one, and name it in [model].",
                case.problem.model.name
            ));
        }
        if case.problem.workload.dropout > 0.0 {
            sentences.push("It has no dropout; the plan has.".to_owned());
        }
        if case.problem.workload.clip == 0.0 {
            sentences.push("It always clips: max_norm is set to a norm that none reaches.".to_owned());
        }
        sentences
    }

    fn checks(&self, case: &Case<'_>) -> Vec<Check> {
        let mut checks = checks(case);
        if let (true, Flavor::Own(family, ..)) = (case.strategy.pipeline > 1, flavors::flavor(case)) {
            let is_piped = matches!(family, "llama3" | "deepseek_v3");
            let rule = format!("a pipeline goes with its llama3 and deepseek_v3, and this is {family}");
            checks.push(Check::new(is_piped, rule, "train.py:219, models/*/__init__.py, pipelining_fn"));
        }
        checks
    }

    fn program(&self, case: &Case<'_>) -> Program {
        let program = Program::torchrun("-m torchtitan.train", "--job.config_file train.toml");
        match flavors::flavor(case) {
            Flavor::Registered => program.with(
                "PYTHONPATH",
                "\"$PWD${PYTHONPATH:+:$PYTHONPATH}\"",
                "planned_model.py lies beside the settings",
            ),
            Flavor::Own(..) | Flavor::Unknown => program,
        }
    }

    fn marks(&self) -> &'static [&'static str] {
        &["model.*", "training.*", "parallelism.*", "activation_checkpoint.*", "model.flavor"]
    }

    fn harmless(&self) -> &'static [&'static str] {
        &[
            "job.*",
            "profiling.*",
            "metrics.*",
            "optimizer.name",
            "optimizer.lr",
            "optimizer.beta1",
            "optimizer.beta2",
            "optimizer.eps",
            "optimizer.weight_decay",
            "optimizer.implementation",
            "lr_scheduler.*",
            "checkpoint.*",
            "comm.*",
            "validation.*",
            "debug.*",
            "memory_estimation.*",
            "fault_tolerance.*",
            "experimental.custom_import",
            "model.hf_assets_path",
            "model.tokenizer_path",
            "model.print_after_conversion",
            "training.steps",
            "training.dataset",
            "training.dataset_path",
            "training.dataloader.*",
            "training.gc_freq",
            "training.gc_debug",
            "activation_checkpoint.preserve_rng_state",
            "activation_checkpoint.determinism_check",
            "activation_checkpoint.debug",
            "activation_checkpoint.visualize_memory_budget_pareto",
            "activation_checkpoint.memory_budget",
            "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
            "compile.backend",
            "parallelism.pipeline_parallel_expert_parallel_overlap",
        ]
    }

    fn model(&self, reader: &Reader<'_>) -> Result<Option<ModelClue>, ImportError> {
        let family = reader.word("model.name")?;
        let flavor = reader.word("model.flavor")?;
        Ok(family
            .or(flavor)
            .map(|_| flavors::clue(family.unwrap_or("llama3"), flavor.unwrap_or("debugmodel"))))
    }

    fn read(&self, reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
        for (path, rule) in old::WITHOUT_A_NAME {
            if reader.value(path)?.is_some_and(|value| *value != false) {
                return Err(reader.refused(path, rule));
            }
        }
        let Some(document) = old::renamed(reader.document()) else { return read::read(reader, scene) };
        let inner = reader.of_part(&document);
        let mut meaning = read::read(&inner, scene)?;
        for found in &document.found {
            if inner.was_asked(&found.path) {
                reader.name(&document.origin(found).path);
            }
        }
        meaning.notes.push(old::NOTE.to_owned());
        Ok(meaning)
    }
}

/// The rules that both versions have.
pub fn checks(case: &Case<'_>) -> Vec<Check> {
    let (s, seq_len) = (case.strategy, case.problem.workload.seq_len);
    let (replicas, shards) = if s.zero == 0 { (s.data, 1) } else { (s.replicas(), s.shard) };
    let mut checks = vec![
        Check::product(
            ("devices", s.devices()),
            &[
                ("replicate", replicas),
                ("shard", shards),
                ("cp", s.context),
                ("tp", s.tensor),
                ("pp", s.pipeline),
            ],
            "distributed/parallel_dims.py:44",
        ),
        Check::divides(
            ("seq_len", seq_len),
            ("what tp and cp ask for", rules::sequence_divisor(s, &case.problem.facts)),
            "models/llama3/infra/parallelize.py:69",
        ),
        Check::divides(
            ("global_batch_size", case.problem.workload.global_batch),
            (
                "local_batch_size · dp",
                s.data * s.micro_batch * if s.pipeline > 1 { s.accumulation } else { 1 },
            ),
            "train.py:203",
        ),
    ];
    for heads in &case.problem.facts.heads {
        checks.push(Check::divides(("heads", heads.query), ("tp", s.tensor), "DTensor shards whole heads"));
    }
    if s.pipeline > 1 {
        let chunks = s.chunks();
        checks.push(Check::divides(
            ("chunks", chunks),
            ("pp", s.pipeline),
            "distributed/pipeline_parallel.py:85",
        ));
        let tied = case.problem.facts.tied;
        checks.push(Check::new(
            !tied,
            "tied weights do not go with a pipeline",
            "models/qwen3/model/args.py",
        ));
        if s.accumulation < chunks {
            checks.push(Check::new(
                true,
                format!(
                    "{} micro-batches are fewer than {chunks} chunks: it warns of a bubble",
                    s.accumulation
                ),
                "distributed/pipeline_parallel.py:197",
            ));
        }
    }
    for experts in &case.problem.facts.experts {
        checks.push(Check::divides(("experts", experts.count), ("ep", s.expert), "models/moe/moe.py"));
        let ranks = shards * s.context * if s.expert_tensor == 1 { s.tensor } else { 1 };
        checks.push(Check::divides(
            ("ranks that spread experts", ranks),
            ("ep", s.expert),
            "distributed/parallel_dims.py:59",
        ));
    }
    checks
}
