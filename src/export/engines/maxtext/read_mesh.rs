//! What MaxText's sizes of axes mean.

use super::mesh::Parts;
use crate::export::error::ImportError;
use crate::export::meaning::{Meaning, Scene};
use crate::export::reader::Reader;
use crate::strategy::ContextKind;

/// Axes that have a word here.
const KNOWN: [&str; 7] = ["data", "pipeline", "fsdp", "context", "tensor", "tensor_sequence", "expert"];

/// Axes that have none.
const OTHERS: [&str; 6] = [
    "diloco",
    "fsdp_transpose",
    "sequence",
    "context_usp_ulysses",
    "context_autoregressive",
    "autoregressive",
];

/// The parts of one axis.
#[derive(Clone, Copy, Debug)]
struct Part {
    inside: u64,
    between: u64,
}

impl Part {
    const fn whole(self) -> u64 {
        self.inside.saturating_mul(self.between)
    }

    const fn times(self, other: Self) -> Self {
        Self {
            inside: self.inside.saturating_mul(other.inside),
            between: self.between.saturating_mul(other.between),
        }
    }
}

/// The product of sizes, at most what 64 bits hold.
fn product(sizes: &[u64; 7]) -> u64 {
    sizes.iter().fold(1, |product, size| product.saturating_mul(*size))
}

/// The sizes of one side, in the order of [`KNOWN`]; −1 is what is left of `room`.
fn side(reader: &Reader<'_>, prefix: &str, open: &str, room: u64) -> Result<[u64; 7], ImportError> {
    let path = |name: &str| format!("{prefix}_{name}_parallelism");
    for name in OTHERS {
        if reader.whole(&path(name))?.unwrap_or(1) != 1 {
            let rule = "no strategy has such an axis; 1 is needed";
            return Err(reader.refused(&path(name), rule).or(vec!["1".to_owned()]));
        }
    }
    let mut sizes = [1; 7];
    let mut left = None;
    for (index, name) in KNOWN.into_iter().enumerate() {
        let usual = if name == open { -1 } else { 1 };
        match reader.whole(&path(name))?.unwrap_or(usual) {
            -1 if left.is_some() => {
                return Err(reader.refused(&path(name), "at most one axis of a side may be -1"));
            }
            -1 => left = Some(index),
            _ => sizes[index] = reader.size(&path(name))?.unwrap_or(1),
        }
    }
    let product = product(&sizes);
    if let Some(index) = left {
        if !room.is_multiple_of(product) {
            let rule =
                format!("what is left over is no whole number: the others multiply to {product}, of {room}");
            return Err(reader.refused(&path(KNOWN[index]), rule));
        }
        sizes[index] = room / product;
    }
    Ok(sizes)
}

/// Reads the axes into `meaning`.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let kinds = [("gpu", true), ("gpu_multiprocess", true), ("tpu", false), ("cpu", false)];
    let is_gpu = reader.choice("hardware", &kinds)?.unwrap_or(false);
    let room = scene.devices_per_node.clamp(1, scene.devices.max(1));
    // On GPUs a slice is a node; elsewhere it is what the DCN axes leave.
    let between = side(reader, "dcn", "data", (scene.devices / room).max(1))?;
    let slices = product(&between);
    let of_slice = if is_gpu { room } else { scene.devices.checked_div(slices).unwrap_or(1) };
    let inside = side(reader, "ici", "fsdp", of_slice)?;
    let devices = product(&inside);
    if devices.checked_mul(slices) != Some(scene.devices) || (is_gpu && devices != room) {
        let rule = format!(
            "the ICI axes multiply to {devices} and the DCN axes to {slices}; there are {} devices, {room} a node",
            scene.devices
        );
        let path = match reader.has("ici_fsdp_parallelism") {
            true => "ici_fsdp_parallelism",
            false => "dcn_fsdp_parallelism",
        };
        return Err(reader.refused(path, rule));
    }
    let part = |index: usize| Part { inside: inside[index], between: between[index] };
    let [data, pipeline, fsdp, context, plain, sequence, expert] = [0, 1, 2, 3, 4, 5, 6].map(part);
    if plain.whole() > 1 && sequence.whole() > 1 {
        let path = if reader.has("ici_tensor_parallelism") {
            "ici_tensor_parallelism"
        } else {
            "dcn_tensor_parallelism"
        };
        let rule =
            "tensor parallelism with and without split sequences at once has no word here; one of them is 1";
        return Err(reader.refused(path, rule));
    }
    let tensor = plain.times(sequence);
    let over_data = reader.is_on("shard_optimizer_over_data")?;
    let draft = &mut meaning.draft;
    draft.tensor = Some(tensor.whole());
    draft.sequence_parallel = (tensor.whole() > 1).then_some(sequence.whole() > 1);
    draft.context = Some(context.whole());
    draft.pipeline = Some(pipeline.whole());
    draft.data = Some(data.times(fsdp).times(expert).whole());
    draft.expert = Some(expert.whole());
    draft.expert_tensor = Some(tensor.whole());
    // Weights are split over context and expert ranks too (base.yml, logical axis `embed`).
    let shards = fsdp.times(expert);
    let has_fsdp = shards.whole().saturating_mul(context.whole()) > 1;
    let (shard, replica) = match has_fsdp {
        true => (shards, data),
        false => (data, Part { inside: 1, between: 1 }),
    };
    draft.zero = Some(match (has_fsdp, over_data) {
        (true, _) => 3,
        (false, true) => 1,
        (false, false) => 0,
    });
    draft.shard = has_fsdp.then_some(shards.whole());
    if has_fsdp && over_data && data.whole() > 1 {
        let rule = "optimizer state over replicas too is not modelled where parameters are sharded";
        return Err(reader.refused("shard_optimizer_over_data", rule).or(vec!["false".to_owned()]));
    }
    let parts = Parts {
        inside: [tensor.inside, context.inside, shard.inside, replica.inside, pipeline.inside],
        between: [tensor.between, context.between, shard.between, replica.between, pipeline.between],
    };
    match parts.order(has_fsdp) {
        _ if !is_gpu => meaning.notes.push("Slices of TPUs are predicted as nodes in the default order.".to_owned()),
        Some(order) => meaning.order = order,
        None => meaning.notes.push(
            "Axes that are cut at the edge of a node are not next to each other between nodes: no order of axes says so, \
             and the default order is taken."
                .to_owned(),
        ),
    }
    self::context(reader, meaning)
}

fn context(reader: &Reader<'_>, meaning: &mut Meaning) -> Result<(), ImportError> {
    let path = "context_parallel_strategy";
    let kinds = [
        ("all_gather", (ContextKind::Ring, true)),
        ("ring", (ContextKind::Ring, false)),
        ("ulysses", (ContextKind::Ulysses, false)),
    ];
    if reader.word(path)? == Some("usp") {
        let rule = "both kinds of context parallelism at once have no word here; ring, all_gather or ulysses is needed";
        return Err(reader.refused(path, rule).or(vec!["ring".to_owned()]));
    }
    let (kind, gathers) = reader.choice(path, &kinds)?.unwrap_or((ContextKind::Ring, true));
    let is_balanced = reader.switch("context_parallel_load_balance")?.unwrap_or(true);
    if meaning.draft.context.unwrap_or(1) == 1 {
        return Ok(());
    }
    meaning.draft.context_kind = Some(kind);
    if gathers {
        meaning.notes.push("Keys and values are gathered; they are predicted as a ring.".to_owned());
    }
    if !is_balanced && kind == ContextKind::Ring {
        meaning.notes.push("Context ranks are not balanced; they are predicted as if they were.".to_owned());
    }
    Ok(())
}
