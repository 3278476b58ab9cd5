//! What the arguments of the hybrid plugins mean.

use super::plugin::{MEGA, Plugin, order};
use super::read_pipeline;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::{ContextKind, OffloadCategory};
use crate::units::ElementType;

/// A call whose arguments are read.
pub struct Call<'a> {
    pub reader: &'a Reader<'a>,
    pub prefix: &'a str,
}

impl Call<'_> {
    /// The place of an argument.
    pub fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// An argument that the class has no default for, or that is 1 where `usual` says so.
    fn size(&self, name: &str, usual: Option<u64>) -> Result<u64, ImportError> {
        let path = self.path(name);
        let missing = || ImportError::Missing { path: path.clone(), rule: "give it by its name".to_owned() };
        self.reader.size(&path)?.or(usual).ok_or_else(missing)
    }
}

/// Reads the sizes and ZeRO stage into `meaning`, whose precision is known.
pub fn read(
    call: &Call<'_>,
    plugin: Plugin,
    scene: &Scene<'_>,
    meaning: &mut Meaning,
) -> Result<(), ImportError> {
    let reader = call.reader;
    // Open-Sora's defaults of sizes are 1; the class has none.
    let usual = (call.prefix == "plugin_config").then_some(1);
    let tensor = call.size("tp_size", usual)?;
    let pipeline = call.size("pp_size", usual)?;
    let (context, kind) = sequence(call, plugin, tensor, meaning)?;
    let inside = tensor.saturating_mul(pipeline).saturating_mul(context);
    if !scene.devices.is_multiple_of(inside) {
        let rule = format!(
            "tp · pp · sp = {tensor} · {pipeline} · {context} does not divide the {} devices",
            scene.devices
        );
        let name = if tensor > 1 { "tp_size" } else { "pp_size" };
        return Err(reader.refused(&call.path(name), rule));
    }
    let draft = &mut meaning.draft;
    draft.tensor = Some(tensor);
    draft.pipeline = Some(pipeline);
    draft.context = Some(context);
    draft.context_kind = kind;
    draft.data = Some(scene.devices / inside);
    if plugin == Plugin::Moe {
        draft.expert = Some(call.size("ep_size", None)?);
        draft.expert_tensor = Some(tensor);
    }
    let path = call.path("zero_stage");
    let zero = reader.count(&path)?.unwrap_or(0);
    if zero > 2 {
        return Err(reader
            .refused(&path, "0, 1 or 2 is needed; GeminiPlugin has 3")
            .or(vec!["2".to_owned()]));
    }
    if zero > 1 && pipeline > 1 {
        let rule = "with a pipeline it is 0 or 1 (hybrid_parallel_plugin.py:1134)";
        return Err(reader.refused(&path, rule).or(vec!["1".to_owned()]));
    }
    if zero > 0 && meaning.precision == Some(ElementType::Fp32) {
        let rule = "beside other kinds of parallelism ZeRO goes with fp16 and bf16 only (hybrid_parallel_plugin.py:1361)";
        return Err(reader.refused(&path, rule).or(vec!["0".to_owned()]));
    }
    let zero = match plugin {
        Plugin::Moe if zero == 2 => {
            meaning.notes.push(
                "With experts the plugin runs ZeRO 2 as 1 (moe_hybrid_parallel_plugin.py:227).".to_owned(),
            );
            1
        }
        _ => zero,
    };
    draft.zero = Some(zero as u8);
    bucket(call, zero, meaning)?;
    let is_offloaded = reader.is_on(&call.path("cpu_offload"))?;
    if is_offloaded && zero > 0 {
        meaning.draft.offload = Some(vec![(OffloadCategory::Optimizer, vec![1.0])]);
    }
    let name = if plugin == Plugin::Moe { "moe_dp_outside" } else { "dp_outside" };
    let outside = reader.switch(&call.path(name))?.unwrap_or(true);
    meaning.order = order(plugin, kind.unwrap_or(ContextKind::Ring), outside);
    let spreads = meaning.draft.expert.unwrap_or(1) > 1 && pipeline > 1 && outside;
    if plugin == Plugin::Moe && spreads {
        meaning.notes.push(
            "Expert ranks lie inside the pipeline, other data ranks outside; all are predicted outside."
                .to_owned(),
        );
    }
    read_pipeline::pipes(call, scene, meaning)
}

fn sequence(
    call: &Call<'_>,
    plugin: Plugin,
    tensor: u64,
    meaning: &mut Meaning,
) -> Result<(u64, Option<ContextKind>), ImportError> {
    let reader = call.reader;
    let is_on = reader.is_on(&call.path("enable_sequence_parallelism"))?;
    let mode_path = call.path("sequence_parallelism_mode");
    let modes = ["split_gather", "ring", "all_to_all", "ring_attn"].map(|mode| (mode, mode));
    let mode = reader.choice(&mode_path, &modes)?.unwrap_or("all_to_all");
    let size_path = call.path("sp_size");
    let size = reader.size(&size_path)?.unwrap_or(1);
    reader.value(&call.path("inner_ring_size"))?;
    meaning.draft.sequence_parallel = (tensor > 1).then_some(false);
    if !is_on {
        if size > 1 {
            let rule = "it goes with enable_sequence_parallelism only (hybrid_parallel_plugin.py:1084)";
            return Err(reader.refused(&size_path, rule).or(vec!["1".to_owned()]));
        }
        return Ok((1, None));
    }
    match mode {
        "split_gather" | "ring" if tensor == 1 => {
            let rule = format!("{mode} splits sequences over the tensor group, which is 1");
            Err(reader.refused(&mode_path, rule).or(vec!["all_to_all".to_owned()]))
        }
        "split_gather" | "ring" => {
            meaning.draft.sequence_parallel = Some(true);
            Ok((1, None))
        }
        "ring_attn" if plugin == Plugin::Moe => {
            let rule =
                "with experts it is split_gather, ring or all_to_all (moe_hybrid_parallel_plugin.py:258)";
            Err(reader.refused(&mode_path, rule).or(vec!["all_to_all".to_owned()]))
        }
        "ring_attn" => Ok((size, (size > 1).then_some(ContextKind::Ring))),
        _ => Ok((size, (size > 1).then_some(ContextKind::Ulysses))),
    }
}

/// The bucket of ZeRO or of data parallelism without it.
fn bucket(call: &Call<'_>, zero: u64, meaning: &mut Meaning) -> Result<(), ImportError> {
    let mut of_zero = call.reader.real(&call.path("zero_bucket_size_in_m"))?;
    if call.prefix == "plugin_config" {
        // Open-Sora hands the other plugin's on.
        of_zero = of_zero.or(call.reader.real(&call.path("reduce_bucket_size_in_m"))?);
    }
    let of_all = call.reader.real(&call.path("ddp_bucket_cap_mb"))?.unwrap_or(25.0);
    let width = match meaning.precision {
        Some(ElementType::Fp32) => 4.0,
        _ => 2.0,
    };
    // Open-Sora gives 20 where nothing is said, the class 12.
    let usual = if call.prefix == "plugin_config" { 20.0 } else { 12.0 };
    let elements = if zero > 0 { of_zero.unwrap_or(usual) * MEGA } else { of_all * MEGA / width };
    meaning.draft.bucket = Some(elements.round() as u64).filter(|elements| *elements > 0);
    Ok(())
}
