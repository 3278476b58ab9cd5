//! What PyTorch measured on a card: rates of kernels and copies become numbers of a cost model, training runs a trace.

mod numbers;
mod training;

pub(super) use numbers::rounded;
pub use training::{Training, training};

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use self::numbers::Taken;
use crate::json;
use crate::profile::{DeviceModel, ProfileError, device_model, device_named};

/// What is wrong with a file of facts.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FactsError {
    /// It is no such file.
    #[error("is no file of measured facts: {reason}")]
    Format { reason: String },
    /// No built-in device has this name.
    #[error("measures `{name}`, which no built-in device is called; name the nearest by --device")]
    Device { name: String },
    /// It holds no training run.
    #[error("holds no training run that was measured")]
    NoRuns,
    /// A training run that lacks what a trace needs.
    #[error("training run {place} cannot become a trace: {field}: {reason}")]
    Run { place: usize, field: String, reason: String },
    /// A number that no cost formula can use.
    #[error(transparent)]
    Number(#[from] ProfileError),
}

/// A cost model with what was measured in it, in words.
#[derive(Clone, Debug)]
pub struct Facts {
    pub model: DeviceModel,
    /// Each number that changed: its path, what it was and what it is.
    pub changed: Vec<(&'static str, f64, f64)>,
}

#[derive(Deserialize)]
struct Document {
    tool: String,
    torch: String,
    date: String,
    device: DeviceFacts,
    #[serde(default)]
    gemm: Value,
    #[serde(default)]
    attention: Value,
    #[serde(default)]
    memory_bound: Value,
    #[serde(default)]
    launch: Value,
    #[serde(default)]
    copies: Value,
    #[serde(default)]
    host_adam: Value,
    #[serde(default)]
    training: Value,
}

impl Document {
    fn read(text: &str) -> Result<Self, FactsError> {
        json::read(text).map_err(|fault| FactsError::Format { reason: fault.to_string() })
    }

    /// The cost model of its card, called `name` or as the driver's name means.
    fn card(&self, name: Option<&str>) -> Result<DeviceModel, FactsError> {
        let name = match name {
            Some(name) => device_named(name)?,
            None => device_named(&self.device.name)
                .map_err(|_| FactsError::Device { name: self.device.name.clone() })?,
        };
        Ok(device_model(name)?.0)
    }

    /// Who measured with what, and when.
    fn source(&self) -> String {
        format!("{} by PyTorch {} on {}", self.tool, self.torch, self.date)
    }
}

#[derive(Deserialize)]
struct DeviceFacts {
    name: String,
    multiprocessors: Option<u32>,
    memory_bytes: Option<u64>,
    free_before_bytes: Option<u64>,
    free_after_context_bytes: Option<u64>,
}

/// The cost model of `text`, a file of measured facts; the device is the built-in one called `name`, or that which the
/// driver's name means.
///
/// # Errors
/// What is wrong with the file.
pub fn read(text: &str, name: Option<&str>) -> Result<Facts, FactsError> {
    let document = Document::read(text)?;
    let mut taken = Taken { model: document.card(name)?, changed: Vec::new(), source: document.source() };
    taken.all(&document);
    taken.model.validate()?;
    Ok(Facts { model: taken.model, changed: taken.changed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::gemm;
    use crate::ops::Linear;
    use crate::profile::Evidence;
    use crate::units::{Bytes, ElementType};
    use serde_json::json;

    /// Facts of a card that does exactly what the formula of `truth` says.
    fn facts(truth: &DeviceModel) -> Value {
        let products: Vec<Value> = [(4096, 4096, 512), (4096, 8192, 2048), (8192, 8192, 8192)]
            .iter()
            .map(|&(m, n, k)| {
                let linear = Linear {
                    batch: 1,
                    rows: m,
                    columns: n,
                    depth: k,
                    element: ElementType::Bf16,
                    over_tokens: false,
                };
                let seconds = gemm::arithmetic(&linear, truth).0;
                json!({ "type": "bfloat16", "m": m, "n": n, "k": k, "forward_s": seconds })
            })
            .collect();
        json!({
            "tool": "gpu_facts", "torch": "2.9", "date": "2026-11-24",
            "device": { "name": "NVIDIA H100 80GB HBM3", "multiprocessors": 132, "memory_bytes": 85_000_000_000_u64,
                "free_before_bytes": 84_900_000_000_u64, "free_after_context_bytes": 84_400_000_000_u64 },
            "gemm": products,
            "attention": [{ "head_size": 128, "tokens": 8192, "forward_tflops": 494.5, "backward_tflops": 395.6 }],
            "memory_bound": { "copy_1073741824_B": { "seconds": 1.0, "bytes_per_s": 2.68e12 } },
            "launch": { "seconds_a_small_kernel": 3e-6 },
            "copies": [{ "bytes": 268_435_456, "pinned": true, "to_device_s": 0.005, "to_host_s": 0.006 }],
            "host_adam": "skipped: out of time",
        })
    }

    #[test]
    fn what_was_measured_is_found_again_and_called_so() {
        let mut truth = device_model("h100-sxm").unwrap().0;
        truth.gemm.efficiency.value = 0.71;
        truth.gemm.half_depth.value = 200.0;
        let found = read(&facts(&truth).to_string(), None).unwrap();
        let model = &found.model;
        assert!((model.gemm.efficiency.value - 0.71).abs() < 1e-3);
        assert_eq!(model.gemm.half_depth.value, 200.0);
        assert!((model.attention.forward_efficiency.value - 0.5).abs() < 1e-3);
        assert!((model.memory_bound.efficiency.value - 0.8).abs() < 1e-3);
        assert_eq!(model.reserve.context.value, Bytes(500_000_000));
        assert_eq!(model.gemm.efficiency.kind, Evidence::Measured);
        // What was skipped stays.
        let built_in = device_model("h100-sxm").unwrap().0;
        assert_eq!(model.host.optimizer_efficiency, built_in.host.optimizer_efficiency);
        assert!(found.changed.iter().any(|(path, ..)| *path == "kernel_time"));
    }

    #[test]
    fn products_that_took_no_time_are_left_out() {
        let built_in = device_model("h100-sxm").unwrap().0;
        let mut other = facts(&built_in);
        for product in other["gemm"].as_array_mut().unwrap() {
            product["forward_s"] = json!(0.0);
        }
        assert_eq!(read(&other.to_string(), None).unwrap().model.gemm, built_in.gemm);
    }

    #[test]
    fn what_is_no_facts_is_said() {
        assert!(matches!(read("{}", None), Err(FactsError::Format { .. })));
        let mut other = facts(&device_model("h100-sxm").unwrap().0);
        other["device"]["name"] = json!("Some card");
        let text = other.to_string();
        assert!(matches!(read(&text, None), Err(FactsError::Device { name }) if name == "Some card"));
        assert_eq!(read(&text, Some("h100-sxm")).unwrap().model.name, "h100-sxm");
        assert_eq!(read(&text, Some("h100")).unwrap().model.name, "h100-sxm");
        assert!(matches!(read(&text, Some("abacus")), Err(FactsError::Number(_))));
    }

    #[test]
    fn the_facts_in_the_repository_are_read_and_its_trace_is_of_them() {
        let text = include_str!("../../../cost_models/facts/h200-sxm.json");
        let found = read(text, None).unwrap();
        assert_eq!(found.model.name, "h200-sxm");
        assert_eq!(found.changed.len(), 11, "{:?}", found.changed);
        let trace: crate::trace::published::PublishedTrace =
            serde_json::from_str(include_str!("../../../traces/own/gpu_facts-h200-sxm.json")).unwrap();
        let again = training(text, None).unwrap().trace;
        assert_eq!(serde_json::to_value(again).unwrap(), serde_json::to_value(trace).unwrap());
    }
}
