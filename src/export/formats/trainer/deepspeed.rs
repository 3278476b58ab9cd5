//! What the Trainer fills in of DeepSpeed's settings, and what it compares them with.

use serde_json::Value;

use super::around::switch;
use super::run::{MICRO, number};
use crate::export::error::ImportError;
use crate::export::meaning::Scene;
use crate::export::reader::Reader;
use crate::export::syntax::{Document, Origin, Place};

/// `document` with what is `auto` in it, or not said, as the arguments have it (transformers 4.57
/// `integrations/deepspeed.py`, trainer_config_process).
///
/// # Errors
/// If the two contradict each other, which transformers refuse.
pub fn filled(
    reader: &Reader<'_>,
    mut document: Document,
    scene: &Scene<'_>,
) -> Result<Document, ImportError> {
    let (micro, micro_origin) = number(reader, "per_device_train_batch_size", MICRO)?;
    let (steps, steps_origin) = number(reader, "gradient_accumulation_steps", 1)?;
    if switch(reader, "auto_find_batch_size", false)? {
        let rule = "the batch is found by trying; give per_device_train_batch_size and leave this out";
        return Err(reader.refused("auto_find_batch_size", rule).or(vec!["false".to_owned()]));
    }
    let origin = |path: &str| {
        let found = reader.document().get(path);
        let default = || Origin { path: path.to_owned(), place: Place::Default };
        found.map_or_else(default, |found| reader.document().origin(found))
    };
    let mut fill = |path: &str, value: Value, origin: Origin, is_always: bool| {
        let said = document.get(path).filter(|found| !found.value.is_null());
        match said.map(|found| found.value.clone()) {
            Some(known) if known == "auto" => document.set(path, value, origin),
            Some(known) if !is_same(&known, &value) => {
                let found = document.get(path).map(|found| document.origin(found));
                let place = found.map_or_else(String::new, |found| format!(" ({})", found.place));
                let rule =
                    format!("DeepSpeed's `{path}` is {known}{place}, and transformers refuse what differs");
                return Err(contradiction(reader, &origin, &value, rule));
            }
            None if is_always => document.set(path, value, origin),
            _ => {}
        }
        Ok(())
    };
    fill("train_micro_batch_size_per_gpu", micro.into(), micro_origin, true)?;
    fill("gradient_accumulation_steps", steps.into(), steps_origin, true)?;
    let clip = reader.real("max_grad_norm")?.unwrap_or(1.0);
    fill("gradient_clipping", clip.into(), origin("max_grad_norm"), false)?;
    let half = |name: &str| switch(reader, name, false);
    let (bf16, fp16) = (half("bf16")?, half("fp16")?);
    fill("bf16.enabled", bf16.into(), origin("bf16"), bf16)?;
    fill("fp16.enabled", fp16.into(), origin("fp16"), fp16)?;
    // The product is calculated from the others.
    let train = document.get("train_batch_size").map(|found| found.value.clone());
    if train.as_ref().is_some_and(|value| *value == "auto") {
        document.remove("train_batch_size");
    } else if let Some(number) = train.and_then(|value| value.as_u64()) {
        let data = scene.devices / inside(&document);
        let product = micro.saturating_mul(steps).saturating_mul(data);
        if number != product {
            let rule = format!("{micro} sequences, {steps} steps and {data} data ranks make {product}");
            return Err(reader
                .of_part(&document)
                .refused("train_batch_size", rule)
                .or(vec![product.to_string()]));
        }
    }
    // Its optimizer is the Trainer's where the file has none.
    Ok(document)
}

/// Ranks that are not data ranks.
fn inside(document: &Document) -> u64 {
    let size = |path: &str| document.get(path).and_then(|found| found.value.as_u64()).unwrap_or(1).max(1);
    size("tensor_parallel.autotp_size").saturating_mul(size("sequence_parallel_size"))
}

fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().zip(other.as_f64()).is_some_and(|(one, other)| one == other)
}

fn contradiction(reader: &Reader<'_>, origin: &Origin, value: &Value, rule: String) -> ImportError {
    match reader.document().get(&origin.path) {
        Some(_) => reader.refused(&origin.path, rule),
        None => ImportError::Elsewhere {
            place: Box::new(origin.place.clone()),
            path: origin.path.clone(),
            value: value.to_string(),
            rule,
            nearest: Vec::new(),
        },
    }
}
