//! Arguments of the Trainer as settings of Accelerate: FSDP, or replicas.

use serde_json::Value;

use super::around::switch;
use super::run::{MICRO, number};
use crate::export::error::ImportError;
use crate::export::meaning::Scene;
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Origin, Place, Syntax};
use crate::spelling::nearest;

/// Strategies of `fsdp`, by Accelerate's name (transformers 4.57 `trainer_utils.py`, FSDPOption).
const STRATEGIES: [(&str, &str); 5] = [
    ("full_shard", "FULL_SHARD"),
    ("shard_grad_op", "SHARD_GRAD_OP"),
    ("no_shard", "NO_SHARD"),
    ("hybrid_shard", "HYBRID_SHARD"),
    ("hybrid_shard_zero2", "HYBRID_SHARD_ZERO2"),
];

/// What else `fsdp` may say.
const OPTIONS: [&str; 2] = ["offload", "auto_wrap"];

/// Keys of `fsdp_config`, as Accelerate has them behind `fsdp_`; the rest changes nothing of a step.
const KEYS: [(&str, &str); 8] = [
    ("activation_checkpointing", "activation_checkpointing"),
    ("reshard_after_forward", "reshard_after_forward"),
    ("sharding_strategy", "sharding_strategy"),
    ("offload_params", "offload_params"),
    ("auto_wrap_policy", "auto_wrap_policy"),
    ("version", "version"),
    ("min_num_params", "min_num_params"),
    ("ignored_modules", "ignored_modules"),
];

const IDLE: [&str; 17] = [
    "backward_prefetch",
    "forward_prefetch",
    "limit_all_gathers",
    "use_orig_params",
    "sync_module_states",
    "cpu_ram_efficient_loading",
    "state_dict_type",
    "final_state_dict_type",
    "transformer_layer_cls_to_wrap",
    "xla",
    "xla_fsdp_v2",
    "xla_fsdp_settings",
    "xla_fsdp_grad_ckpt",
    "cpu_offload_pin_memory",
    "mixed_precision_policy",
    "backward_prefetch_policy",
    "sync_module_state",
];

/// The settings of Accelerate that the arguments are.
///
/// # Errors
/// If `fsdp` says what transformers do not know.
pub fn settings(reader: &Reader<'_>, _scene: &Scene<'_>) -> Result<Document, ImportError> {
    let mut document = Document::translated(Syntax::Yaml);
    let options = options(reader)?;
    let config = reader.part("fsdp_config")?;
    let is_on = !options.is_empty() || config.as_ref().is_some_and(|config| !config.found.is_empty());
    let origin = said_at(reader, if options.is_empty() { "fsdp_config" } else { "fsdp" });
    if is_on {
        document.set("distributed_type", "FSDP".into(), origin.clone());
        for option in &options {
            if let Some((_, name)) = STRATEGIES.iter().find(|(known, _)| known == option) {
                document.set("fsdp_config.fsdp_sharding_strategy", (*name).into(), origin.clone());
            } else if option == "offload" {
                document.set("fsdp_config.fsdp_offload_params", true.into(), origin.clone());
            } else if option == "auto_wrap" {
                document.set(
                    "fsdp_config.fsdp_auto_wrap_policy",
                    "TRANSFORMER_BASED_WRAP".into(),
                    origin.clone(),
                );
            }
        }
        if let Some(config) = config {
            fields(reader, &config, &mut document)?;
        }
        // Without it the model is one unit, which is gathered whole.
        let is_wrapped = document.says("fsdp_config.fsdp_auto_wrap_policy");
        if !is_wrapped {
            document.set("fsdp_config.fsdp_auto_wrap_policy", "NO_WRAP".into(), origin);
        }
    } else {
        let origin = Origin { path: "fsdp".to_owned(), place: Place::Default };
        document.set("distributed_type", "MULTI_GPU".into(), origin);
    }
    arguments(reader, &mut document)?;
    Ok(document)
}

/// Those of a file of Accelerate that starts the script, with what the script is told.
///
/// # Errors
/// If a number of the arguments is none.
pub fn launched(reader: &Reader<'_>, mut document: Document) -> Result<Document, ImportError> {
    arguments(reader, &mut document)?;
    Ok(document)
}

/// Batch, precision and sizes.
fn arguments(reader: &Reader<'_>, document: &mut Document) -> Result<(), ImportError> {
    if switch(reader, "auto_find_batch_size", false)? {
        let rule = "the batch is found by trying; give per_device_train_batch_size and leave this out";
        return Err(reader.refused("auto_find_batch_size", rule).or(vec!["false".to_owned()]));
    }
    let (micro, micro_origin) = number(reader, "per_device_train_batch_size", MICRO)?;
    let (steps, steps_origin) = number(reader, "gradient_accumulation_steps", 1)?;
    document.set("parallelism_config.per_device_train_batch_size", micro.into(), micro_origin);
    document.set("parallelism_config.gradient_accumulation_steps", steps.into(), steps_origin);
    let (bf16, fp16) = (switch(reader, "bf16", false)?, switch(reader, "fp16", false)?);
    if bf16 && fp16 {
        return Err(reader.refused("fp16", "it goes not with bf16").or(vec!["false".to_owned()]));
    }
    let word = if bf16 {
        "bf16"
    } else if fp16 {
        "fp16"
    } else {
        "no"
    };
    let is_said = document.says("mixed_precision");
    if !is_said || bf16 || fp16 {
        let path = if fp16 { "fp16" } else { "bf16" };
        document.set("mixed_precision", word.into(), said_at(reader, path));
    }
    for axis in ["dp_replicate", "dp_shard", "tp", "cp"] {
        let path = format!("parallelism_config.parallelism_config_{axis}_size");
        let own = format!("parallelism_config.{axis}_size");
        if let Some(size) = reader.size(&own)? {
            document.set(&path, size.into(), said_at(reader, &own));
        }
    }
    Ok(())
}

/// The words of `fsdp`, which may be a list.
///
/// # Errors
/// If one is no word of it.
pub fn options(reader: &Reader<'_>) -> Result<Vec<String>, ImportError> {
    let words: Vec<String> = match reader.value("fsdp")? {
        None | Some(Value::Bool(false)) => Vec::new(),
        // Without a word it is full_shard with blocks wrapped.
        Some(Value::Bool(true)) => vec!["full_shard".to_owned(), "auto_wrap".to_owned()],
        Some(Value::String(word)) => word.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) => return Err(reader.refused("fsdp", "words are needed, such as full_shard auto_wrap")),
    };
    let known = || STRATEGIES.iter().map(|(name, _)| *name).chain(OPTIONS);
    match words.iter().find(|word| !known().any(|name| name == word.as_str())) {
        Some(word) => {
            let rule = format!("{word} is no option of it; {} are", known().collect::<Vec<_>>().join(", "));
            Err(reader.refused("fsdp", rule).or(nearest(word, known())))
        }
        None => Ok(words),
    }
}

/// The keys of `fsdp_config`, with or without their prefix.
fn fields(reader: &Reader<'_>, config: &Document, document: &mut Document) -> Result<(), ImportError> {
    for found in &config.found {
        let name = found.path.strip_prefix("fsdp_").unwrap_or(&found.path);
        let known = KEYS.iter().find(|(known, _)| *known == name);
        match known {
            Some((_, own)) => {
                // Of the smallest wrapped module only whether there is one matters.
                if *own == "min_num_params" {
                    if found.value.as_f64().is_some_and(|number| number > 0.0) {
                        let origin = config.origin(found);
                        document.set("fsdp_config.fsdp_auto_wrap_policy", "SIZE_BASED_WRAP".into(), origin);
                    }
                    continue;
                }
                document.set(&format!("fsdp_config.fsdp_{own}"), found.value.clone(), config.origin(found));
            }
            None if IDLE.contains(&name) => {
                // A class of blocks says that they are wrapped.
                let says_blocks = name == "transformer_layer_cls_to_wrap" && !found.value.is_null();
                if says_blocks && !document.says("fsdp_config.fsdp_auto_wrap_policy") {
                    let origin = config.origin(found);
                    document.set(
                        "fsdp_config.fsdp_auto_wrap_policy",
                        "TRANSFORMER_BASED_WRAP".into(),
                        origin,
                    );
                }
            }
            None => {
                let names = KEYS.iter().map(|(name, _)| *name).chain(IDLE);
                let rule = "no such key of fsdp_config is known";
                return Err(reader.of_part(config).refused(&found.path, rule).or(nearest(name, names)));
            }
        }
    }
    Ok(())
}

/// Where `path` stands; else that it is its default.
fn said_at(reader: &Reader<'_>, path: &str) -> Origin {
    let document = reader.document();
    let below =
        |name: &str| name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let found = document.found.iter().find(|found| below(&found.path));
    let default = Origin { path: path.to_owned(), place: Place::Default };
    found.map_or(default, |found| Origin { path: path.to_owned(), place: document.origin(found).place })
}
