//! What a Python file that makes a plugin means.

use super::plugin::{MEGA, Plugin, order};
use super::read_hybrid::{self, Call};
use super::read_pipeline::{self, Batch};
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::{AttentionKernel, CheckpointEntry, CheckpointMode, ContextKind, OffloadCategory};
use crate::units::ElementType;

/// What the file means.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Meaning, ImportError> {
    let (plugin, prefix) = made(reader)?;
    let call = Call { reader, prefix: &prefix };
    let mut meaning = Meaning::default();
    // So that a plugin that only one branch makes is refused.
    reader.word(&prefix)?;
    precision(&call, &mut meaning)?;
    communication(&call, &mut meaning);
    match plugin {
        Plugin::LowLevelZero => low_level(&call, scene, &mut meaning)?,
        Plugin::Gemini => gemini(&call, scene, &mut meaning)?,
        Plugin::Hybrid | Plugin::Moe => read_hybrid::read(&call, plugin, scene, &mut meaning)?,
    }
    meaning.clip = Some(reader.real(&call.path("max_norm"))?.unwrap_or(0.0));
    workload(&call, scene, plugin, &mut meaning)?;
    recomputation(&call, plugin, &mut meaning)?;
    attention(&call, plugin, &mut meaning)?;
    Ok(meaning)
}

/// The plugin that the file makes, and the variable that holds it.
fn made(reader: &Reader<'_>) -> Result<(Plugin, String), ImportError> {
    let found = &reader.document().found;
    let class =
        |text: &str| text.strip_suffix("()").map(|name| name.rsplit('.').next().unwrap_or(name).to_owned());
    let calls = found.iter().filter_map(|found| Some((found, class(found.value.as_str()?)?)));
    let mut plugins = calls.filter(|(_, class)| class.ends_with("Plugin"));
    let Some((found, class)) = plugins.next() else {
        let rule = "a plugin such as HybridParallelPlugin(tp_size=4, pp_size=1) is needed".to_owned();
        return Err(ImportError::Missing { path: "plugin".to_owned(), rule });
    };
    let known = Plugin::ALL.into_iter().find(|plugin| plugin.class() == class);
    let Some(plugin) = known else {
        let rule = format!("{} are read", Plugin::ALL.map(Plugin::class).join(", "));
        return Err(reader.refused(&found.path, rule));
    };
    if let Some((other, _)) = plugins.next() {
        let rule = format!("the file makes another plugin, {}; one is needed", found.path);
        return Err(reader.refused(&other.path, rule));
    }
    Ok((plugin, found.path.clone()))
}

fn precision(call: &Call<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let types = [("fp16", ElementType::Fp16), ("bf16", ElementType::Bf16), ("fp32", ElementType::Fp32)];
    let precision = call.reader.choice(&call.path("precision"), &types)?.unwrap_or(ElementType::Fp16);
    let is_fp8 = call.reader.is_on(&call.path("use_fp8"))?;
    meaning.precision = Some(if is_fp8 { ElementType::Fp8 } else { precision });
    if !call.reader.switch(&call.path("master_weights"))?.unwrap_or(true) {
        let rule = "state in 16 bits without master weights is not modelled";
        return Err(call.reader.refused(&call.path("master_weights"), rule).or(vec!["True".to_owned()]));
    }
    Ok(())
}

/// The types that messages have, where they are not the parameters'.
fn communication(call: &Call<'_>, meaning: &mut Meaning) {
    if let Some(name) = call.reader.name(&call.path("communication_dtype")) {
        meaning.draft.reduce_type = match name.rsplit('.').next() {
            Some("float32") => Some(ElementType::Fp32),
            Some("bfloat16") => Some(ElementType::Bf16),
            Some("float16") => Some(ElementType::Fp16),
            _ => None,
        };
    }
    if call
        .reader
        .document()
        .get(&call.path("fp8_communication"))
        .is_some_and(|found| found.value.as_bool() == Some(true))
    {
        meaning.notes.push(
            "Messages in 8 bits have no word here; they are predicted in the parameters' type.".to_owned(),
        );
    }
    call.reader.name(&call.path("fp8_communication"));
}

fn low_level(call: &Call<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let reader = call.reader;
    let path = call.path("stage");
    let stage = reader.size(&path)?.unwrap_or(1);
    if stage > 2 {
        return Err(reader.refused(&path, "1 or 2 is needed; GeminiPlugin has 3").or(vec!["2".to_owned()]));
    }
    let draft = &mut meaning.draft;
    (draft.tensor, draft.pipeline, draft.context) = (Some(1), Some(1), Some(1));
    draft.data = Some(scene.devices);
    draft.zero = Some(stage as u8);
    let size = reader.real(&call.path("reduce_bucket_size_in_m"))?.unwrap_or(12.0);
    draft.bucket = Some((size * MEGA).round() as u64).filter(|elements| *elements > 0);
    if reader.is_on(&call.path("cpu_offload"))? {
        draft.offload = Some(vec![(OffloadCategory::Optimizer, vec![1.0])]);
    }
    let path = call.path("extra_dp_size");
    let extra = reader.size(&path)?.unwrap_or(1);
    if !scene.devices.is_multiple_of(extra) {
        return Err(reader.refused(&path, format!("it must divide the {} devices", scene.devices)));
    }
    if extra > 1 {
        // State is split over both groups (low_level_zero_plugin.py:460).
        meaning.notes.push(
            "Messages go in two levels, of state that all ranks share; they are predicted in one.".to_owned(),
        );
    }
    Ok(())
}

fn gemini(call: &Call<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let reader = call.reader;
    let path = call.path("placement_policy");
    if reader.word(&path)?.is_some_and(|policy| policy != "static") {
        let rule = "what it places by measured use is not modelled; static is";
        return Err(reader.refused(&path, rule).or(vec!["static".to_owned()]));
    }
    if meaning.precision == Some(ElementType::Fp32) {
        return Err(reader.refused(&call.path("precision"), "Gemini has fp16 and bf16 (gemini_plugin.py:39)"));
    }
    let path = call.path("shard_param_frac");
    if reader.real(&path)?.unwrap_or(1.0) != 1.0 {
        let rule = "parameters of which a part stays whole are not modelled; 1.0 is";
        return Err(reader.refused(&path, rule).or(vec!["1.0".to_owned()]));
    }
    let tensor = reader.size(&call.path("tp_size"))?.unwrap_or(1);
    let replicas = reader.size(&call.path("extra_dp_size"))?.unwrap_or(1);
    if !scene.devices.is_multiple_of(tensor.saturating_mul(replicas)) {
        let rule =
            format!("tp · extra dp = {tensor} · {replicas} does not divide the {} devices", scene.devices);
        let name = if replicas > 1 { "extra_dp_size" } else { "tp_size" };
        return Err(reader.refused(&call.path(name), rule));
    }
    let sequence = reader.is_on(&call.path("enable_sequence_parallelism"))?;
    let [optimizer, parameters] = ["offload_optim_frac", "offload_param_frac"].map(|name| call.path(name));
    let mut shares = [0.0, 0.0];
    for (share, path) in shares.iter_mut().zip([&optimizer, &parameters]) {
        *share = reader.real(path)?.unwrap_or(0.0);
        if !(0.0..=1.0).contains(share) {
            return Err(reader.refused(path, "a share from 0 to 1 is needed"));
        }
    }
    if shares[1] > 0.0 && shares[0] < 1.0 {
        // zero/gemini/placement_policy.py:59.
        meaning
            .notes
            .push("Without all optimizer state on the host, offload_param_frac is ignored.".to_owned());
        shares[1] = 0.0;
    }
    let draft = &mut meaning.draft;
    (draft.tensor, draft.pipeline, draft.context) = (Some(tensor), Some(1), Some(1));
    draft.sequence_parallel = (tensor > 1).then_some(sequence);
    draft.data = Some(scene.devices / tensor);
    draft.zero = Some(3);
    draft.shard = (replicas > 1).then_some(scene.devices / tensor / replicas);
    let list: Vec<_> = [OffloadCategory::Optimizer, OffloadCategory::Parameters]
        .into_iter()
        .zip(shares)
        .filter(|(_, share)| *share > 0.0)
        .map(|(category, share)| (category, vec![share]))
        .collect();
    draft.offload = (!list.is_empty()).then_some(list);
    let least = reader.real(&call.path("min_chunk_size_m"))?.unwrap_or(32.0);
    if reader.real(&call.path("search_range_m"))?.unwrap_or(32.0) > 0.0 {
        meaning.notes.push(
            "Chunks are of the least size or somewhat larger, as the search finds; the least is taken."
                .to_owned(),
        );
    }
    draft.bucket = Some((least * MEGA).round() as u64).filter(|elements| *elements > 0);
    meaning.order = order(Plugin::Gemini, ContextKind::Ring, false);
    Ok(())
}

/// Batch and sequence, which are variables of the file.
fn workload(
    call: &Call<'_>,
    scene: &Scene<'_>,
    plugin: Plugin,
    meaning: &mut Meaning,
) -> Result<(), ImportError> {
    let reader = call.reader;
    let steps = reader.size("accumulation_steps")?;
    let local = reader.size("batch_size")?;
    let data = meaning.draft.data.unwrap_or(1);
    let steps_of_one = steps.unwrap_or(1);
    let local = match local {
        Some(local) => local,
        // A data rank's part of the batch that the command line gives.
        None => {
            let global = scene.needed_global_batch()?;
            let parts = data.saturating_mul(steps_of_one);
            if !global.is_multiple_of(parts) {
                let rule = format!(
                    "the batch of {global} does not divide by {data} data ranks and {steps_of_one} steps"
                );
                return Err(ImportError::Missing { path: "batch_size".to_owned(), rule });
            }
            global / parts
        }
    };
    read_pipeline::batch(call, Batch { local, steps: steps_of_one }, "batch_size", meaning)?;
    meaning.seq_len = reader.size("max_length")?;
    let path = call.path("enable_gradient_accumulation");
    if plugin == Plugin::Gemini && !reader.is_on(&path)? && steps_of_one > 1 {
        let rule = "Gemini adds gradients up over accumulation_steps with enable_gradient_accumulation only";
        return Err(reader.refused("accumulation_steps", rule));
    }
    Ok(())
}

fn recomputation(call: &Call<'_>, plugin: Plugin, meaning: &mut Meaning) -> Result<(), ImportError> {
    let is_on = call.reader.is_on("gradient_checkpointing")?;
    if matches!(plugin, Plugin::Hybrid | Plugin::Moe) {
        return read_pipeline::recomputation(call, is_on, meaning);
    }
    let mode = if is_on { CheckpointMode::Full } else { CheckpointMode::None };
    meaning.draft.checkpoint = Some(vec![CheckpointEntry::Whole(mode)]);
    Ok(())
}

fn attention(call: &Call<'_>, plugin: Plugin, meaning: &mut Meaning) -> Result<(), ImportError> {
    let (fused, plain) = (AttentionKernel::Fused, AttentionKernel::Materialised);
    let kernels = [("flash_attention_2", fused), ("sdpa", fused), ("eager", plain)];
    let of_model = call.reader.choice("attn_implementation", &kernels)?;
    let of_plugin = call.reader.switch(&call.path("enable_flash_attention"))?;
    let optimises = call.reader.is_on(&call.path("enable_all_optimization"))?;
    let is_ring = meaning.draft.context_kind == Some(ContextKind::Ring);
    meaning.draft.attention = match (plugin, of_plugin) {
        (Plugin::LowLevelZero, _) => of_model,
        // Ring attention brings its own kernel.
        _ if is_ring || optimises => Some(fused),
        (_, Some(true)) => Some(fused),
        (_, Some(false)) => of_model.or(Some(plain)),
        (_, None) => of_model,
    };
    Ok(())
}
