//! What was measured of kernels, copies and the host, as numbers of a cost model.

use serde::Deserialize;
use serde_json::Value;

use super::{DeviceFacts, Document};
use crate::calibrate::efficiency;
use crate::calibrate::observe::median;
use crate::ops::Linear;
use crate::profile::{DeviceModel, Evidence, Sourced};
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

/// The entries of `section` that can be read; a section that was skipped or failed has none.
fn list<T: for<'de> Deserialize<'de>>(section: &Value) -> Vec<T> {
    let entries = section.as_array().into_iter().flatten();
    entries.filter_map(|entry| T::deserialize(entry).ok()).collect()
}

/// A cost model that takes on what was measured.
pub struct Taken {
    pub model: DeviceModel,
    /// Each number that changed: its path, what it was and what it is.
    pub changed: Vec<(&'static str, f64, f64)>,
    /// Who measured with what, and when.
    pub source: String,
}

impl Taken {
    /// Takes all numbers of `document`.
    pub(super) fn all(&mut self, document: &Document) {
        self.device(&document.device);
        self.products(&list(&document.gemm));
        self.attention(&list(&document.attention));
        self.memory(document);
        self.copies(&list(&document.copies));
        self.host(&document.host_adam);
    }

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
        let wanted = |product: &&Product| {
            let is_large = product.m.min(product.n) >= LARGE_PRODUCT;
            product.element == "bfloat16" && is_large && product.forward_s > 0.0
        };
        let products: Vec<&Product> = products.iter().filter(wanted).collect();
        let products = products.iter().map(|product| {
            let Product { m, n, k, forward_s, .. } = **product;
            let element = ElementType::Bf16;
            (Linear { batch: 1, rows: m, columns: n, depth: k, element, over_tokens: false }, forward_s)
        });
        let found = efficiency::of_products(&self.model, &products.collect::<Vec<_>>());
        let Some((efficiency, half_depth)) = found else { return };
        self.set("gemm.efficiency", Some(efficiency.min(1.0)), |model| &mut model.gemm.efficiency);
        self.set("gemm.half_depth", Some(half_depth.max(1.0)), |model| &mut model.gemm.half_depth);
    }

    fn attention(&mut self, runs: &[Attention]) {
        let wanted = |run: &&Attention| run.head_size == 128 && run.tokens >= LONG;
        let peak = self.model.peak(ElementType::Bf16).0 / 1e12;
        let shares = |of: fn(&Attention) -> f64| {
            let shares: Vec<f64> = runs.iter().filter(wanted).map(|run| of(run) / peak).collect();
            (!shares.is_empty()).then(|| median(shares).min(1.0))
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

/// Four digits, which is more than any measurement tells.
pub fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
