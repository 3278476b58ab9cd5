//! The DeepSpeed settings that an Accelerate file says: in its section, or in the file that it names.

use serde_json::Value;

use super::super::read;
use crate::export::engines::deepspeed::Config;
use crate::export::error::ImportError;
use crate::export::format::Read;
use crate::export::meaning::Scene;
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Origin, Place, Syntax};
use crate::export::targets::Target;
use crate::units::ElementType;

/// The file that holds DeepSpeed's own settings.
const FILE: &str = "deepspeed_config_file";

/// The settings of the section, by the name that DeepSpeed has for each (1.15.0 `utils/dataclasses.py`, DeepSpeedPlugin).
const NAMES: [(&str, &str); 8] = [
    ("zero_stage", "zero_optimization.stage"),
    ("gradient_accumulation_steps", "gradient_accumulation_steps"),
    ("gradient_clipping", "gradient_clipping"),
    ("offload_optimizer_device", "zero_optimization.offload_optimizer.device"),
    ("offload_param_device", "zero_optimization.offload_param.device"),
    ("offload_optimizer_nvme_path", "zero_optimization.offload_optimizer.nvme_path"),
    ("offload_param_nvme_path", "zero_optimization.offload_param.nvme_path"),
    ("zero3_save_16bit_model", "zero_optimization.stage3_gather_16bit_weights_on_model_save"),
];

/// Keys of the section that change nothing of a step.
const IDLE: [&str; 8] = [
    FILE,
    "deepspeed_hostfile",
    "deepspeed_multinode_launcher",
    "deepspeed_inclusion_filter",
    "deepspeed_exclusion_filter",
    "deepspeed_moe_layer_cls_names",
    "zero3_init_flag",
    "use_deepspeed",
];

/// What the file means to DeepSpeed.
pub fn read(reader: &Reader<'_>, scene: &Scene<'_>) -> Result<Read, ImportError> {
    let document = settings(reader)?;
    Read::handed(Target { dialect: &Config }, &document, reader, scene)
}

/// The settings of DeepSpeed, each with its place; what the training script fills in is `auto`.
///
/// # Errors
/// If a key of the section is none of Accelerate's, or goes not with a file of DeepSpeed's own.
pub fn settings(reader: &Reader<'_>) -> Result<Document, ImportError> {
    let own = |name: &str| format!("deepspeed_config.{name}");
    for found in &reader.document().found {
        let Some(name) = found.path.strip_prefix("deepspeed_config.") else { continue };
        let known = || NAMES.iter().map(|(known, _)| *known).chain(IDLE);
        if !known().any(|known| known == name) {
            let near = crate::spelling::nearest(name, known());
            return Err(reader.refused(&found.path, "Accelerate has no such key in this section").or(near));
        }
    }
    match reader.part(&own(FILE))? {
        Some(document) => of_file(reader, document),
        None => inline(reader),
    }
}

/// Those of a file of DeepSpeed's own, whose `auto` the precision of this one fills in.
fn of_file(reader: &Reader<'_>, mut document: Document) -> Result<Document, ImportError> {
    // 1.15.0 `utils/dataclasses.py`, _deepspeed_config_checks.
    let doubled = NAMES.iter().map(|(name, _)| format!("deepspeed_config.{name}"));
    for path in doubled.chain(["mixed_precision".to_owned()]) {
        if reader.value(&path)?.is_some() {
            let rule = format!("Accelerate refuses it beside {FILE}, whose own settings say it");
            return Err(reader.refused(&path, rule).or(vec!["null".to_owned()]));
        }
    }
    if !document.says("zero_optimization") {
        let rule = "Accelerate needs a section zero_optimization in this file";
        return Err(reader.refused(&format!("deepspeed_config.{FILE}"), rule));
    }
    let origin = Origin { path: "gradient_accumulation_steps".to_owned(), place: Place::Default };
    if !document.says("gradient_accumulation_steps") {
        document.set("gradient_accumulation_steps", 1.into(), origin);
    }
    let filled = [
        ("zero_optimization.stage", Value::from(2)),
        ("zero_optimization.offload_optimizer.device", "none".into()),
        ("zero_optimization.offload_param.device", "none".into()),
    ];
    for (path, value) in filled {
        if document.get(path).is_some_and(|found| found.value == "auto") {
            document.set(path, value, Origin { path: path.to_owned(), place: Place::Default });
        }
    }
    Ok(document)
}

/// Those of the section itself.
fn inline(reader: &Reader<'_>) -> Result<Document, ImportError> {
    let mut document = Document::translated(Syntax::Yaml);
    for (path, value) in [
        ("train_batch_size", Value::from("auto")),
        ("train_micro_batch_size_per_gpu", "auto".into()),
        ("gradient_accumulation_steps", "auto".into()),
        ("gradient_clipping", "auto".into()),
        ("zero_optimization.stage", 2.into()),
    ] {
        document.set(path, value, Origin { path: path.to_owned(), place: Place::Default });
    }
    for (name, path) in NAMES {
        let own = format!("deepspeed_config.{name}");
        let value = reader.value(&own)?.cloned();
        if let Some((value, found)) = value.zip(reader.document().get(&own)) {
            // `none` may come without quotes, which is a word in YAML.
            document.set(path, value, reader.document().origin(found));
        }
    }
    let origin = |path: &str| match reader.document().get(path) {
        Some(found) => reader.document().origin(found),
        None => Origin { path: path.to_owned(), place: Place::Default },
    };
    let precision = read::mixed_precision(reader)?;
    let is_half = [ElementType::Bf16, ElementType::Fp8].contains(&precision);
    if precision == ElementType::Fp8 {
        let rule = "products in 8 bits under DeepSpeed are not modelled";
        return Err(reader.refused("mixed_precision", rule).or(vec!["bf16".to_owned()]));
    }
    document.set("bf16.enabled", is_half.into(), origin("mixed_precision"));
    document.set("fp16.enabled", (precision == ElementType::Fp16).into(), origin("mixed_precision"));
    Ok(document)
}
