//! What kind of run the file is for.

use crate::export::error::ImportError;
use crate::export::reader::Reader;
use crate::spelling::nearest;

/// How parameters lie on data ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// FSDP, version 1, by the name of its strategy.
    First,
    /// FSDP2.
    Second,
    /// DDP, or one process.
    Replicated,
}

/// Keys of the outermost level; Accelerate refuses others (1.15.0 `commands/config/config_args.py`).
const KEYS: &[&str] = &[
    "compute_environment",
    "distributed_type",
    "mixed_precision",
    "use_cpu",
    "debug",
    "num_processes",
    "machine_rank",
    "num_machines",
    "gpu_ids",
    "main_process_ip",
    "main_process_port",
    "rdzv_backend",
    "same_network",
    "main_training_function",
    "enable_cpu_affinity",
    "fp8_config",
    "deepspeed_config",
    "fsdp_config",
    "parallelism_config",
    "megatron_lm_config",
    "mpirun_config",
    "downcast_bf16",
    "tpu_name",
    "tpu_zone",
    "tpu_use_cluster",
    "tpu_use_sudo",
    "command_file",
    "commands",
    "tpu_vm",
    "tpu_env",
    "dynamo_config",
    "dynamo_backend",
    "fp16",
];

/// That every key of the outermost level is one of Accelerate's, and those of `parallelism_config` have their prefix.
pub fn known(reader: &Reader<'_>) -> Result<(), ImportError> {
    for found in &reader.document().found {
        let first = found.path.split('.').next().unwrap_or_default();
        if !KEYS.contains(&first) {
            let near = nearest(first, KEYS.iter().copied());
            return Err(reader.refused(&found.path, "Accelerate has no such key, and refuses it").or(near));
        }
        let short = found.path.strip_prefix("parallelism_config.");
        if short.is_some_and(|name| ["dp_", "tp_", "cp_", "sp_"].iter().any(|axis| name.starts_with(axis))) {
            let near = vec![format!("parallelism_config_{}", short.unwrap_or_default())];
            return Err(reader.refused(&found.path, "Accelerate passes it by without its prefix").or(near));
        }
    }
    Ok(())
}

/// That it runs on GPUs of machines of one's own.
pub fn is_local(reader: &Reader<'_>) -> Result<(), ImportError> {
    let place = "compute_environment";
    let places = [("LOCAL_MACHINE", true), ("AMAZON_SAGEMAKER", false)];
    if reader.choice(place, &places)? == Some(false) {
        return Err(reader
            .refused(place, "runs on SageMaker are not read")
            .or(vec!["LOCAL_MACHINE".to_owned()]));
    }
    let processor = "use_cpu";
    if super::is_on(reader, processor)? {
        return Err(reader.refused(processor, "runs on CPUs are not read").or(vec!["false".to_owned()]));
    }
    Ok(())
}

/// What kind of run it is, where no other engine runs it.
pub fn kind(reader: &Reader<'_>) -> Result<Kind, ImportError> {
    is_local(reader)?;
    let path = "distributed_type";
    // Without quotes, YAML takes `NO` for false.
    if reader.value(path)?.is_some_and(|value| *value == serde_json::Value::Bool(false)) {
        return Ok(Kind::Replicated);
    }
    let kinds = ["FSDP", "MULTI_GPU", "NO", "DEEPSPEED", "MEGATRON_LM"];
    match reader.word(path)? {
        None => {
            let rule = format!("Accelerate needs one of {}", kinds.join(", "));
            Err(ImportError::Missing { path: path.to_owned(), rule })
        }
        Some("FSDP") => version(reader),
        Some("MULTI_GPU" | "NO") => Ok(Kind::Replicated),
        Some(other) => {
            let rule = format!("one of {} is needed; other devices and CPUs are not read", kinds.join(", "));
            Err(reader.refused(path, rule).or(nearest(other, kinds)))
        }
    }
}

/// The version of FSDP: 1 where it is not said.
fn version(reader: &Reader<'_>) -> Result<Kind, ImportError> {
    let path = super::sharding(reader, "version");
    let said =
        reader.value(&path)?.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    match said.as_deref() {
        None | Some("1") => Ok(Kind::First),
        Some("2") => Ok(Kind::Second),
        Some(_) => Err(reader.refused(&path, "1 or 2 is needed").or(vec!["2".to_owned()])),
    }
}
