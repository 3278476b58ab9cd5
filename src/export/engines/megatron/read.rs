//! What arguments of Megatron-LM mean.

use super::write::PIPELINE_BEFORE_DATA;
use super::{agreement, layout, other_programs, recompute};
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::{Reader, multiples};
use crate::model::layer::LayerKind;
use crate::strategy::{
    AttentionKernel, Capacity, CheckpointEntry, CheckpointMode, ContextKind, Draft, OffloadCategory, Schedule,
};
use crate::units::ElementType;

/// What the arguments mean.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
    other_programs::refused(reader)?;
    let mut meaning = Meaning::default();
    sizes(reader, scene, &mut meaning.draft)?;
    pipeline(reader, scene, &mut meaning.draft)?;
    experts(reader, scene, &mut meaning.draft)?;
    workload(reader, scene, &mut meaning)?;
    state(reader, &mut meaning)?;
    recomputation(reader, scene, &mut meaning)?;
    offload(reader, &mut meaning.draft)?;
    if reader.is_on("use-tp-pp-dp-mapping")? {
        meaning.order = PIPELINE_BEFORE_DATA;
    }
    meaning.is_asynchronous = reader.is_on("tp-comm-overlap")?;
    refused(reader, &meaning.draft)?;
    agreement::agrees(reader, scene)?;
    let modules = reader.count("mtp-num-layers")?.unwrap_or(0);
    if modules > 0 && multi_token(scene) == 0 {
        meaning
            .notes
            .push("Multi-token prediction layers are left out; --mtp counts those of MODEL.".to_owned());
    }
    Ok(meaning)
}

/// Checks that Megatron-LM makes at its start, beside the strategy's own rules.
fn refused(reader: &Reader<'_>, draft: &Draft) -> Result<(), ImportError> {
    let has_split = draft.sequence_parallel == Some(true);
    if reader.is_on("tp-comm-overlap")? && !has_split {
        let rule = "it goes with --sequence-parallel, on several tensor ranks (training/arguments.py:1441)";
        return Err(reader.refused("tp-comm-overlap", rule));
    }
    if let (Some(longest), Some(length)) =
        (reader.known_number("max-position-embeddings"), reader.known_number("seq-length"))
        && longest < length
    {
        let rule = format!("--seq-length {length} is longer (training/arguments.py:1354)");
        return Err(reader.refused("max-position-embeddings", rule).or(vec![length.to_string()]));
    }
    let score = reader.known("moe-router-score-function").and_then(|word| word.as_str()).unwrap_or("softmax");
    let experts = reader.known("num-experts").is_some();
    if experts && reader.is_on("moe-router-enable-expert-bias")? && score == "softmax" {
        let rule =
            "it goes with --moe-router-score-function sigmoid (core/transformer/transformer_config.py:2617)";
        return Err(reader.refused("moe-router-enable-expert-bias", rule));
    }
    if experts
        && score == "softmax"
        && reader.known_number("moe-router-topk") == Some(1.0)
        && !reader.is_on("moe-router-pre-softmax")?
    {
        let rule = "with one expert a token --moe-router-pre-softmax is needed \
                    (core/transformer/transformer_config.py:2662)";
        return Err(reader.refused("moe-router-topk", rule).or(vec!["2".to_owned()]));
    }
    other_programs::other_models(reader)?;
    let groups = reader.known_number("moe-router-num-groups");
    if reader.known("moe-router-group-topk").is_some() && groups.is_none() {
        let rule =
            "--moe-router-num-groups is needed beside it (core/transformer/transformer_config.py:2677)";
        return Err(reader.refused("moe-router-group-topk", rule));
    }
    Ok(())
}

/// Multi-token prediction layers that the model counts.
fn multi_token(scene: &Scene<'_>) -> u64 {
    let passes = scene.model.layers().filter_map(|layer| match &layer.kind {
        LayerKind::Head(head) => Some(head.passes - 1),
        _ => None,
    });
    passes.max().unwrap_or(0)
}

/// That nothing of a pipeline is said where there is none: Megatron-LM builds what an end stage is given, and counts the
/// work of all layers.
fn alone(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<(), ImportError> {
    let blocks = u64::from(scene.model.blocks());
    for path in ["decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers"] {
        if reader.count(path)?.is_some_and(|layers| layers != blocks) {
            let rule = format!("with one pipeline rank so many layers are built, and not {blocks}");
            return Err(reader.refused(path, rule).or(vec![blocks.to_string()]));
        }
    }
    for path in ["num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank"] {
        if reader.size(path)?.is_some_and(|size| size != 1 && size != blocks) {
            let rule = "it goes with several pipeline ranks only (training/arguments.py:1001)";
            return Err(reader.refused(path, rule));
        }
    }
    Ok(())
}

fn sizes(reader: &Reader<'_>, scene: &Scene<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let size = |name: &str| Ok::<u64, ImportError>(reader.size(name)?.unwrap_or(1));
    let tensor = size("tensor-model-parallel-size")?;
    let pipeline = size("pipeline-model-parallel-size")?;
    let context = size("context-parallel-size")?;
    let inside = tensor.saturating_mul(pipeline).saturating_mul(context);
    if !scene.devices.is_multiple_of(inside) {
        let rule = format!(
            "tp · pp · cp = {tensor} · {pipeline} · {context} does not divide the {} devices",
            scene.devices
        );
        let field = if tensor > 1 { "tensor-model-parallel-size" } else { "pipeline-model-parallel-size" };
        return Err(reader.refused(field, rule));
    }
    draft.tensor = Some(tensor);
    draft.pipeline = Some(pipeline);
    draft.context = Some(context);
    draft.data = Some(scene.devices / inside);
    // It is switched off by force where nothing is split.
    let sequence = reader.is_on("sequence-parallel")?;
    draft.sequence_parallel = (tensor > 1).then_some(sequence);
    let kinds =
        [("p2p", ContextKind::Ring), ("all_gather", ContextKind::Ring), ("a2a", ContextKind::Ulysses)];
    let kind = reader.choice("cp-comm-type", &kinds)?;
    draft.context_kind = kind.filter(|_| context > 1);
    let backends = [
        ("auto", AttentionKernel::Fused),
        ("flash", AttentionKernel::Fused),
        ("fused", AttentionKernel::Fused),
        ("unfused", AttentionKernel::Materialised),
        ("local", AttentionKernel::Materialised),
    ];
    draft.attention = reader.choice("attention-backend", &backends)?;
    Ok(())
}

fn pipeline(reader: &Reader<'_>, scene: &Scene<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let each_path = "num-layers-per-virtual-pipeline-stage";
    let chunks_path = "num-virtual-stages-per-pipeline-rank";
    let layout_path = "pipeline-model-parallel-layout";
    let each = reader.size(each_path)?;
    let chunks = reader.size(chunks_path)?;
    let text = reader.word(layout_path)?;
    let first = reader.count("decoder-first-pipeline-num-layers")?;
    let last = reader.count("decoder-last-pipeline-num-layers")?;
    let counts_embedding = reader.is_on("account-for-embedding-in-pipeline-split")?;
    let counts_loss = reader.is_on("account-for-loss-in-pipeline-split")?;
    let stages = draft.pipeline.unwrap_or(1);
    let said = [(each.is_some(), each_path), (chunks.is_some(), chunks_path), (text.is_some(), layout_path)];
    let mut said = said.iter().filter(|(is_said, _)| *is_said).map(|(_, path)| *path);
    if let (Some(one), Some(other)) = (said.next(), said.next()) {
        return Err(reader.refused(other, format!("it contradicts --{one}: at most one of them is given")));
    }
    if stages == 1 {
        return alone(reader, scene);
    }
    let blocks = u64::from(scene.model.blocks());
    let (cuts, virtual_stages) = if let Some(text) = text {
        let counts_modules = multi_token(scene) > 0;
        let cuts = layout::cuts(text, counts_modules).map_err(|rule| reader.refused(layout_path, rule))?;
        let count = cuts.len() as u64;
        if !count.is_multiple_of(stages) {
            let rule = format!("its {count} chunks are no multiple of {stages} pipeline ranks");
            return Err(reader.refused(layout_path, rule));
        }
        (cuts, count / stages)
    } else {
        let embedding = u64::from(counts_embedding);
        let loss = u64::from(counts_loss);
        let ends = [first, last].iter().flatten().sum::<u64>();
        let own = [first, last].iter().flatten().count() as u64;
        let middle = stages.saturating_sub(own);
        let whole = (blocks + embedding + loss)
            .checked_sub(ends)
            .filter(|whole| if middle == 0 { *whole == 0 } else { whole.is_multiple_of(middle) });
        let Some(whole) = whole else {
            let path =
                if own > 0 { "decoder-first-pipeline-num-layers" } else { "pipeline-model-parallel-size" };
            let all = blocks + embedding + loss;
            let rule = match all.checked_sub(ends) {
                Some(left) => format!("{left} layers do not divide by {middle} pipeline ranks"),
                None => format!("the end stages have {ends} of {all} layers"),
            };
            return Err(reader.refused(path, rule));
        };
        let per_rank = whole.checked_div(middle).unwrap_or(0);
        let virtual_stages = match (chunks, each) {
            (Some(chunks), _) => chunks,
            (None, Some(each)) if per_rank.is_multiple_of(each) => per_rank / each,
            (None, Some(_)) => {
                return Err(
                    reader.refused(each_path, format!("it does not divide the {per_rank} layers of a rank"))
                );
            }
            (None, None) => 1,
        };
        let of_stage = |stage: u64| match stage {
            0 => first.unwrap_or(per_rank),
            stage if stage + 1 == stages => last.unwrap_or(per_rank),
            _ => per_rank,
        };
        let count = stages.saturating_mul(virtual_stages);
        if count > blocks + 2 {
            return Err(
                reader.refused(chunks_path, format!("{count} chunks are more than the {blocks} blocks"))
            );
        }
        let mut cuts = Vec::new();
        for chunk in 0..count {
            let own = of_stage(chunk % stages);
            if !own.is_multiple_of(virtual_stages) {
                let path = if chunks.is_some() { chunks_path } else { each_path };
                return Err(reader.refused(
                    path,
                    format!("{virtual_stages} chunks a rank do not divide its {own} layers"),
                ));
            }
            let taken = if chunk == 0 { embedding } else { 0 } + if chunk + 1 == count { loss } else { 0 };
            cuts.push(u32::try_from((own / virtual_stages).saturating_sub(taken)).unwrap_or(u32::MAX));
        }
        (cuts, virtual_stages)
    };
    if virtual_stages > 1 {
        draft.schedule = Some(Schedule::Interleaved);
        draft.virtual_stages = Some(virtual_stages);
    }
    draft.cuts = Some(cuts);
    Ok(())
}

fn experts(reader: &Reader<'_>, scene: &Scene<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let expert = reader.size("expert-model-parallel-size")?;
    let tensor = reader.size("expert-tensor-parallel-size")?;
    let capacity = reader.real("moe-expert-capacity-factor")?;
    if scene.model.layers().all(|layer| !matches!(layer.kind, crate::model::layer::LayerKind::Moe(_))) {
        return Ok(());
    }
    draft.expert = expert;
    draft.expert_tensor = tensor.or(draft.tensor);
    draft.capacity = capacity.filter(|factor| *factor > 0.0).map(Capacity::Factor);
    Ok(())
}

fn workload(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let micro = reader.size("micro-batch-size")?.unwrap_or(1);
    let data = meaning.draft.data.unwrap_or(1);
    let once = micro.saturating_mul(data);
    let path = "global-batch-size";
    // Without one, a step is one micro-batch a data rank.
    let global = reader.size(path)?.or(scene.global_batch).unwrap_or(once);
    if reader.has("step-batch-size-schedule") {
        let rule = if reader.has(path) {
            "it does not go with --global-batch-size (training/arguments.py:698)"
        } else {
            "batches that grow are not modelled: give --global-batch-size of the steps that are meant"
        };
        return Err(reader.refused("step-batch-size-schedule", rule));
    }
    if reader.value("rampup-batch-size")?.is_some_and(|value| *value != false) {
        if !reader.has(path) {
            return Err(
                reader.refused("rampup-batch-size", "it goes with --global-batch-size, up to which it grows")
            );
        }
        meaning.notes.push(format!("Batches grow to {global} sequences; steps of that many are predicted."));
    }
    if !global.is_multiple_of(once) {
        let rule = format!("it must be a multiple of micro-batch-size {micro} times {data} data ranks");
        return Err(reader.refused(path, rule).or(multiples(global, once)));
    }
    meaning.draft.micro_batch = Some(micro);
    meaning.draft.accumulation = Some(global / once);
    meaning.global_batch = Some(global);
    meaning.seq_len = match reader.size("seq-length")? {
        Some(length) => Some(length),
        None => reader.size("encoder-seq-length")?,
    };
    let (bf16, fp16) = (reader.is_on("bf16")?, reader.is_on("fp16")?);
    if bf16 && fp16 {
        return Err(reader.refused("fp16", "it contradicts --bf16"));
    }
    let is_fp8 = reader.value("fp8-format")?.is_some() || reader.value("fp8")?.is_some();
    for name in [
        "fp8-recipe",
        "fp8-amax-history-len",
        "fp8-amax-compute-algo",
        "fp8-margin",
        "fp8-interval",
        "fp8-param-gather",
    ] {
        reader.value(name)?;
    }
    meaning.precision = Some(match (is_fp8, bf16, fp16) {
        (true, ..) => ElementType::Fp8,
        (false, true, _) => ElementType::Bf16,
        (false, false, true) => ElementType::Fp16,
        (false, false, false) => ElementType::Fp32,
    });
    meaning.clip = Some(reader.real("clip-grad")?.unwrap_or(1.0));
    // Both are 0.1 where they are left out.
    let attention = reader.real("attention-dropout")?.unwrap_or(0.1);
    let hidden = reader.real("hidden-dropout")?.unwrap_or(0.1);
    if attention != hidden {
        meaning.notes.push(format!(
            "Dropout is {attention} in attention and {hidden} elsewhere; {hidden} is taken for both."
        ));
    }
    meaning.dropout = Some(hidden);
    Ok(())
}

fn state(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let draft = &mut meaning.draft;
    let is_distributed = reader.is_on("use-distributed-optimizer")?;
    let is_fsdp = reader.is_on("use-megatron-fsdp")?;
    let is_torch = reader.is_on("use-torch-fsdp2")?;
    let shardings = [("no_shard", 0), ("optim", 1), ("optim_grads", 2), ("optim_grads_params", 3)];
    let sharding = reader.choice("data-parallel-sharding-strategy", &shardings)?.unwrap_or(3);
    let zero = match (is_fsdp, is_torch, is_distributed) {
        (true, ..) => sharding,
        (_, true, _) => 3,
        (_, _, true) => 1,
        _ => 0,
    };
    if is_torch && is_distributed {
        return Err(reader.refused("use-torch-fsdp2", "it contradicts --use-distributed-optimizer"));
    }
    draft.zero = Some(zero);
    let instances = reader.size("num-distributed-optimizer-instances")?.unwrap_or(1);
    let data = draft.data.unwrap_or(1);
    if zero > 0 && instances > 1 {
        if !data.is_multiple_of(instances) {
            let rule = format!("it must divide the {data} data ranks");
            return Err(reader.refused("num-distributed-optimizer-instances", rule));
        }
        draft.shard = Some(data / instances);
    }
    if reader.word("outer-dp-sharding-strategy")?.is_some_and(|word| word == "optim") {
        meaning
            .notes
            .push("The optimizer state is sharded over replicas too; that is not modelled.".to_owned());
    }
    if reader.is_on("overlap-param-gather")? && !(is_distributed || is_fsdp) {
        let rule = "it goes with --use-distributed-optimizer or --use-megatron-fsdp only";
        return Err(reader.refused("overlap-param-gather", rule));
    }
    let overlaps = reader.is_on("overlap-grad-reduce")?;
    if reader.is_on("overlap-param-gather")? && !overlaps && !is_fsdp {
        return Err(reader.refused("overlap-param-gather", "it goes with --overlap-grad-reduce only"));
    }
    let is_bf16 = reader.is_on("grad-reduce-in-bf16")?;
    let is_single = reader.is_on("accumulate-allreduce-grads-in-fp32")?;
    draft.gradient_type = match meaning.precision {
        Some(ElementType::Bf16 | ElementType::Fp8) if is_bf16 => Some(ElementType::Bf16),
        Some(ElementType::Fp16) if !is_single => Some(ElementType::Fp16),
        _ => None,
    };
    Ok(())
}

fn recomputation(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let granularity = "recompute-granularity";
    let method = reader.choice("recompute-method", &[("uniform", true), ("block", false)])?;
    let count_path = "recompute-num-layers";
    let count = reader.size(count_path)?;
    let modules = reader.list("recompute-modules")?;
    let is_short = reader.is_on("recompute-activations")?;
    let is_distributed = reader.is_on("distribute-saved-activations")?;
    let chosen = reader.choice(granularity, &[("full", true), ("selective", false)])?;
    let is_full = match (chosen, is_short) {
        (None, false) => return Ok(()),
        (None, true) | (Some(false), _) => false,
        (Some(true), _) => true,
    };
    let entry = if !is_full {
        if method.is_some() {
            return Err(reader.refused("recompute-method", "it goes with full recomputation only"));
        }
        if count.is_some() {
            return Err(reader.refused(count_path, "it goes with full recomputation only"));
        }
        meaning.recomputes = recompute::modules(reader, scene, modules.as_deref())?;
        CheckpointEntry::Whole(CheckpointMode::Selective)
    } else {
        if is_distributed && meaning.draft.tensor > Some(1) {
            let rule = "inputs of blocks that lie in parts on the tensor ranks are not modelled; --sequence-parallel is";
            return Err(reader.refused("distribute-saved-activations", rule));
        }
        match (method, count) {
            (Some(false), Some(count)) => CheckpointEntry::First(u32::try_from(count).unwrap_or(u32::MAX)),
            (Some(true), Some(1)) => CheckpointEntry::Whole(CheckpointMode::Full),
            (Some(true), Some(_)) => {
                let rule =
                    "groups of layers that recompute as one are not modelled; layers by themselves are";
                return Err(reader.refused(count_path, rule).or(vec!["1".to_owned()]));
            }
            _ => {
                return Err(reader.refused(
                    granularity,
                    "--recompute-method and --recompute-num-layers are needed with full",
                ));
            }
        }
    };
    // A chunk may have fewer blocks than recompute.
    let cuts = meaning.draft.cuts.clone();
    meaning.draft.checkpoint = Some(match (entry, cuts) {
        (CheckpointEntry::First(count), Some(cuts)) => {
            cuts.iter().map(|blocks| CheckpointEntry::First(count.min(*blocks))).collect()
        }
        (entry, _) => vec![entry],
    });
    Ok(())
}

fn offload(reader: &Reader<'_>, draft: &mut Draft) -> Result<(), ImportError> {
    let mut list = Vec::new();
    let fraction = reader.real("optimizer-offload-fraction")?.unwrap_or(1.0);
    let overlaps = reader.is_on("overlap-cpu-optimizer-d2h-h2d")?;
    if reader.is_on("optimizer-cpu-offload")? {
        if !reader.is_on("use-precision-aware-optimizer")? {
            return Err(reader.refused("optimizer-cpu-offload", "it needs --use-precision-aware-optimizer"));
        }
        list.push((OffloadCategory::Optimizer, vec![fraction]));
        draft.overlap = Some(overlaps);
    } else {
        reader.is_on("use-precision-aware-optimizer")?;
    }
    let share = reader.real("activation-offload-fraction")?.unwrap_or(1.0);
    reader.value("offload-modules")?;
    if reader.is_on("fine-grained-activation-offloading")? {
        list.push((OffloadCategory::Activations, vec![share]));
    }
    for name in ["cpu-offloading", "cpu-offloading-num-layers"] {
        if reader.has(name) {
            return Err(reader.refused(
                name,
                "offload by layers is not modelled; --fine-grained-activation-offloading is",
            ));
        }
    }
    draft.offload = (!list.is_empty()).then_some(list);
    Ok(())
}
