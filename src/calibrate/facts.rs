//! A cost model from what PyTorch measured on a card: products, attention, kernels that move memory, launches, copies and
//! the host's optimizer. What was measured replaces the built-in number and is called so; all else stays.

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::cost::gemm;
use crate::ops::Linear;
use crate::profile::{DeviceModel, Evidence, ProfileError, Sourced, device_model};
use crate::units::{Bytes, ElementType, Seconds};

/// A product's rate counts where its sides have at least so many elements: smaller ones measure launches.
const LARGE_PRODUCT: u64 = 2048;
/// Attention over fewer tokens measures launches.
const LONG: u64 = 2048;
/// A copy of fewer bytes measures its start.
const LARGE_COPY: u64 = 1 << 24;
/// Bytes that one element of AdamW moves on a host: parameter, gradient and two moments read, all but the gradient
/// written, in 32 bits.
const ADAM_BYTES: f64 = 28.0;
/// Depths that half of the rate may be lost at, to choose from.
const HALF_DEPTHS: [f64; 13] =
    [0.0, 25.0, 50.0, 75.0, 100.0, 125.0, 150.0, 200.0, 250.0, 300.0, 400.0, 500.0, 600.0];

/// What is wrong with a file of facts.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum FactsError {
    /// It is no such file.
    #[error("is no file of measured facts: {reason}")]
    Format { reason: String },
    /// No built-in device has this name.
    #[error("measures `{name}`, which no built-in device is called; name the nearest by --device")]
    Device { name: String },
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

/// Names that drivers give devices, by how they are written, and our cost models; the first that is found counts.
const DEVICES: [(&str, &str); 16] = [
    ("A100-SXM4-40GB", "a100-sxm-40gb"),
    ("A100-SXM4-80GB", "a100-sxm-80gb"),
    ("A100-SXM-80GB", "a100-sxm-80gb"),
    ("A100 80GB PCIe", "a100-pcie-80gb"),
    ("H100 80GB HBM3", "h100-sxm"),
    ("H200", "h200-sxm"),
    ("GB300", "gb300"),
    ("GB200", "gb200"),
    ("B300", "b300-sxm"),
    ("B200", "b200-sxm"),
    ("L40S", "l40s"),
    ("A10G", "a10g"),
    ("RTX 4090", "rtx-4090"),
    ("V100-SXM2-16GB", "v100-sxm-16gb"),
    ("V100-SXM2-32GB", "v100-sxm-32gb"),
    ("MI300X", "mi300x"),
];

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
}

#[derive(Deserialize)]
struct DeviceFacts {
    name: String,
    multiprocessors: Option<u32>,
    memory_bytes: Option<u64>,
    free_before_bytes: Option<u64>,
    free_after_context_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Product {
    #[serde(rename = "type")]
    element: String,
    m: u64,
    n: u64,
    k: u64,
    forward_s: f64,
}

#[derive(Deserialize)]
struct Attention {
    head_size: u64,
    tokens: u64,
    forward_tflops: f64,
    backward_tflops: f64,
}

#[derive(Deserialize)]
struct Copied {
    bytes: u64,
    pinned: bool,
    to_device_s: f64,
    to_host_s: f64,
}

/// The cost model of `text`, a file of measured facts; the device is the built-in one called `name`, or that which the
/// driver's name means.
///
/// # Errors
/// What is wrong with the file.
pub fn read(text: &str, name: Option<&str>) -> Result<Facts, FactsError> {
    let format = |error: serde_json::Error| FactsError::Format { reason: error.to_string() };
    let document: Document = serde_json::from_str(text).map_err(format)?;
    let known = DEVICES.iter().find(|(words, _)| document.device.name.contains(words));
    let unknown = || FactsError::Device { name: document.device.name.clone() };
    let name = name.or(known.map(|(_, name)| *name)).ok_or_else(unknown)?;
    let (model, _) = device_model(name)?;
    let source = format!("{} by PyTorch {} on {}", document.tool, document.torch, document.date);
    let mut taken = Taken { model, changed: Vec::new(), source };
    taken.device(&document.device);
    taken.products(&list(&document.gemm));
    taken.attention(&list(&document.attention));
    taken.memory(&document);
    taken.copies(&list(&document.copies));
    taken.host(&document.host_adam);
    taken.model.validate()?;
    Ok(Facts { model: taken.model, changed: taken.changed })
}

/// The entries of `section` that can be read; a section that was skipped or failed has none.
fn list<T: for<'de> Deserialize<'de>>(section: &Value) -> Vec<T> {
    let entries = section.as_array().into_iter().flatten();
    entries.filter_map(|entry| T::deserialize(entry).ok()).collect()
}

struct Taken {
    model: DeviceModel,
    changed: Vec<(&'static str, f64, f64)>,
    source: String,
}

impl Taken {
    /// Sets the number that `find` finds, if `value` is one.
    fn set(
        &mut self,
        path: &'static str,
        value: Option<f64>,
        find: fn(&mut DeviceModel) -> &mut Sourced<f64>,
    ) {
        let Some(value) = value.filter(|value| value.is_finite() && *value > 0.0) else { return };
        let value = rounded(value);
        let number = find(&mut self.model);
        self.changed.push((path, number.value, value));
        *number = Sourced { value, kind: Evidence::Measured, source: self.source.clone() };
    }

    fn sourced<T>(&self, value: T) -> Sourced<T> {
        Sourced { value, kind: Evidence::Measured, source: self.source.clone() }
    }

    fn device(&mut self, facts: &DeviceFacts) {
        if let Some(count) = facts.multiprocessors {
            let was = f64::from(self.model.multiprocessors.value);
            self.changed.push(("multiprocessors", was, f64::from(count)));
            self.model.multiprocessors = self.sourced(count);
        }
        if let Some(bytes) = facts.memory_bytes {
            self.changed.push(("memory", self.model.memory.value.0 as f64, bytes as f64));
            self.model.memory = self.sourced(Bytes(bytes));
        }
        let context = facts.free_before_bytes.zip(facts.free_after_context_bytes);
        let context =
            context.and_then(|(before, after)| before.checked_sub(after)).filter(|bytes| *bytes > 0);
        if let Some(bytes) = context {
            self.changed.push(("reserve.context", self.model.reserve.context.value.0 as f64, bytes as f64));
            self.model.reserve.context = self.sourced(Bytes(bytes));
        }
    }

    /// The half depth, and with it the share of the peak, under which the formula of products is nearest to them.
    fn products(&mut self, products: &[Product]) {
        let wanted =
            |product: &&Product| product.element == "bfloat16" && product.m.min(product.n) >= LARGE_PRODUCT;
        let products: Vec<&Product> = products.iter().filter(wanted).collect();
        let mut best: Option<(f64, f64, f64)> = None;
        for half_depth in HALF_DEPTHS {
            let mut model = self.model.clone();
            model.gemm.half_depth.value = half_depth;
            model.gemm.efficiency.value = 1.0;
            let mut ratios: Vec<f64> = products
                .iter()
                .map(|product| {
                    let Product { m, n, k, .. } = **product;
                    let linear =
                        Linear { batch: 1, rows: m, columns: n, depth: k, element: ElementType::Bf16 };
                    gemm::arithmetic(&linear, &model).0 / product.forward_s
                })
                .collect();
            let Some(efficiency) = median(&mut ratios) else { return };
            let spread = ratios.iter().map(|ratio| (ratio / efficiency).ln().abs()).sum::<f64>();
            if best.is_none_or(|(_, _, least)| spread < least) {
                best = Some((efficiency, half_depth, spread));
            }
        }
        let Some((efficiency, half_depth, _)) = best else { return };
        self.set("gemm.efficiency", Some(efficiency.min(1.0)), |model| &mut model.gemm.efficiency);
        self.set("gemm.half_depth", Some(half_depth.max(1.0)), |model| &mut model.gemm.half_depth);
    }

    fn attention(&mut self, runs: &[Attention]) {
        let wanted = |run: &&Attention| run.head_size == 128 && run.tokens >= LONG;
        let peak = self.model.peak(ElementType::Bf16).0 / 1e12;
        let shares = |of: fn(&Attention) -> f64| {
            let mut shares: Vec<f64> = runs.iter().filter(wanted).map(|run| of(run) / peak).collect();
            median(&mut shares).map(|share| share.min(1.0))
        };
        let (forward, backward) = (shares(|run| run.forward_tflops), shares(|run| run.backward_tflops));
        // What PyTorch runs is what engines that use it run.
        let is_measured = forward.is_some() && backward.is_some();
        self.set("attention.forward_efficiency", forward, |model| &mut model.attention.forward_efficiency);
        self.set("attention.backward_efficiency", backward, |model| &mut model.attention.backward_efficiency);
        if is_measured {
            self.model.attention.older_kernels = None;
        }
    }

    fn memory(&mut self, document: &Document) {
        let number = |section: &Value, path: &[&str]| {
            path.iter().try_fold(section, |value, key| value.get(key)).and_then(Value::as_f64)
        };
        let bandwidth = self.model.memory_bandwidth.value.0;
        let rate = number(&document.memory_bound, &["copy_1073741824_B", "bytes_per_s"]);
        let share = rate.map(|rate| (rate / bandwidth).min(1.0));
        self.set("memory_bound.efficiency", share, |model| &mut model.memory_bound.efficiency);
        if let Some(seconds) = number(&document.launch, &["seconds_a_small_kernel"]) {
            self.changed.push(("kernel_time", self.model.kernel_time.value.0, seconds));
            self.model.kernel_time = self.sourced(Seconds(seconds));
        }
    }

    fn copies(&mut self, copies: &[Copied]) {
        let bandwidth = self.model.host_link.bandwidth.value.0;
        let wanted = |copy: &&Copied| copy.pinned && copy.bytes >= LARGE_COPY;
        let shares = copies.iter().filter(wanted).map(|copy| {
            // The slower way.
            copy.bytes as f64 / copy.to_device_s.max(copy.to_host_s) / bandwidth
        });
        let best = shares.fold(0.0, f64::max).min(1.0);
        self.set("host_link.efficiency", Some(best), |model| &mut model.host_link.efficiency);
    }

    fn host(&mut self, facts: &Value) {
        let elements = facts.get("elements").and_then(Value::as_f64);
        let seconds =
            ["fused_s", "foreach_s"].iter().filter_map(|key| facts.get(key).and_then(Value::as_f64));
        let best = seconds.fold(f64::INFINITY, f64::min);
        let bandwidth = self.model.host.memory_bandwidth.value.0;
        let share = elements.map(|elements| (ADAM_BYTES * elements / best / bandwidth).min(1.0));
        self.set("host.optimizer_efficiency", share, |model| &mut model.host.optimizer_efficiency);
    }
}

/// The middle of `values`, which it sorts.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Four digits, which is more than any measurement tells.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Facts of a card that does exactly what the formula of `truth` says.
    fn facts(truth: &DeviceModel) -> Value {
        let products: Vec<Value> = [(4096, 4096, 512), (4096, 8192, 2048), (8192, 8192, 8192)]
            .iter()
            .map(|&(m, n, k)| {
                let linear = Linear { batch: 1, rows: m, columns: n, depth: k, element: ElementType::Bf16 };
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
    fn what_is_no_facts_is_said() {
        assert!(matches!(read("{}", None), Err(FactsError::Format { .. })));
        let mut other = facts(&device_model("h100-sxm").unwrap().0);
        other["device"]["name"] = json!("Some card");
        let text = other.to_string();
        assert!(matches!(read(&text, None), Err(FactsError::Device { name }) if name == "Some card"));
        assert_eq!(read(&text, Some("h100-sxm")).unwrap().model.name, "h100-sxm");
        assert!(matches!(read(&text, Some("h100")), Err(FactsError::Number(_))));
    }
}
