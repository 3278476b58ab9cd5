//! Settings of axolotl under the names of the Trainer, whose arguments they become (`core/builders`).

use serde_json::Value;

use crate::export::error::ImportError;
use crate::export::formats::trainer::switch;
use crate::export::meaning::Scene;
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Origin, Place, Syntax};

/// Settings by the argument that each becomes.
const NAMES: [(&str, &str); 6] = [
    ("micro_batch_size", "per_device_train_batch_size"),
    ("gradient_accumulation_steps", "gradient_accumulation_steps"),
    ("max_grad_norm", "max_grad_norm"),
    ("deepspeed", "deepspeed"),
    ("fsdp", "fsdp"),
    ("fsdp_config", "fsdp_config"),
];

/// Settings by the axis whose size they say.
const SIZES: [(&str, &str); 3] =
    [("dp_replicate_size", "dp_replicate"), ("dp_shard_size", "dp_shard"), ("tensor_parallel_size", "tp")];

/// The arguments of the Trainer.
pub fn arguments(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Document, ImportError> {
    let whole = reader.document();
    let mut document = Document::translated(Syntax::Yaml);
    for (own, name) in NAMES {
        let below = format!("{own}.");
        for found in &whole.found {
            let path = match found.path.strip_prefix(&below) {
                Some(rest) => format!("{name}.{rest}"),
                None if found.path == own => name.to_owned(),
                None => continue,
            };
            reader.value(&found.path)?;
            document.set(&path, found.value.clone(), whole.origin(found));
        }
    }
    let default = |path: &str| Origin { path: path.to_owned(), place: Place::Default };
    if !document.says("per_device_train_batch_size") {
        document.set("per_device_train_batch_size", 1.into(), default("micro_batch_size"));
    }
    if let Some(path) = precision(reader)? {
        let name = if path.contains("bf") { "bf16" } else { "fp16" };
        let origin = whole.get(path).map_or_else(|| default(path), |found| whole.origin(found));
        document.set(name, true.into(), origin);
    }
    optimizer(reader, &mut document)?;
    let compile = "torch_compile";
    if reader.name(compile) != Some("auto") && switch(reader, compile, false)? {
        let origin = whole.get(compile).map_or_else(|| default(compile), |found| whole.origin(found));
        document.set(compile, true.into(), origin);
    }
    version(reader, &mut document)?;
    sizes(reader, scene, &mut document)?;
    Ok(document)
}

/// The setting by which arithmetic is in 16 bits, bf16 where nothing is said; none where all is in 32.
pub fn precision(reader: &Reader<'_>) -> Result<Option<&'static str>, ImportError> {
    if reader.name("bf16") == Some("auto") || reader.name("bf16") == Some("full") {
        return Ok(Some("bf16"));
    }
    for path in ["fp16", "float16", "bf16", "bfloat16"] {
        if switch(reader, path, false)? {
            return Ok(Some(path));
        }
    }
    // Off is said, or the default holds, which is auto.
    Ok((!reader.has("bf16") && !reader.has("float32")).then_some("bf16"))
}

/// The optimizer by the name that transformers have for it.
fn optimizer(reader: &Reader<'_>, document: &mut Document) -> Result<(), ImportError> {
    let path = "optimizer";
    let Some(Value::String(word)) = reader.value(path)? else { return Ok(()) };
    if let Some(found) = reader.document().get(path) {
        document.set("optim", word.as_str().into(), reader.document().origin(found));
    }
    Ok(())
}

/// The version of FSDP, which may stand outside its section.
fn version(reader: &Reader<'_>, document: &mut Document) -> Result<(), ImportError> {
    let path = "fsdp_version";
    if reader.value(path)?.is_some()
        && let Some(found) = reader.document().get(path)
        && document.says("fsdp_config")
    {
        document.set("fsdp_config.fsdp_version", found.value.clone(), reader.document().origin(found));
    }
    Ok(())
}

/// Ranks that share a sequence.
pub fn context(reader: &Reader<'_>) -> Result<u64, ImportError> {
    let newer = reader.size("context_parallel_size")?;
    let older = reader.size("sequence_parallel_degree")?;
    Ok(newer.or(older).unwrap_or(1))
}

fn sizes(reader: &Reader<'_>, scene: &Scene<'_>, document: &mut Document) -> Result<(), ImportError> {
    let whole = reader.document();
    let set = |document: &mut Document, axis: &str, size: u64, path: &str| {
        let place = whole.get(path).map_or(Place::Default, |found| whole.origin(found).place);
        let name = format!("parallelism_config.{axis}_size");
        document.set(&name, size.into(), Origin { path: path.to_owned(), place });
    };
    let mut others = 1_u64;
    let mut has_shard = false;
    for (path, axis) in SIZES {
        if let Some(size) = reader.size(path)? {
            set(document, axis, size, path);
            others = others.saturating_mul(size);
            has_shard |= axis == "dp_shard";
        }
    }
    let context = context(reader)?;
    if context > 1 {
        let path = if reader.has("context_parallel_size") {
            "context_parallel_size"
        } else {
            "sequence_parallel_degree"
        };
        set(document, "cp", context, path);
        others = others.saturating_mul(context);
    }
    // What is left of the devices shards.
    let is_said = document.says("parallelism_config");
    if is_said && !has_shard && document.says("fsdp_config") {
        let left = scene.devices / others.max(1);
        set(document, "dp_shard", left.max(1), "dp_shard_size");
    }
    Ok(())
}
