//! The cost model of a GPU, from its measurements: each number that was measured says so, with what it rests on, and each
//! other says that it is the built-in model's.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::laws::{self, Found};
use super::measure::{Measured, Timed};
use crate::calibrate::facts::rounded;
use crate::execute::device::cuda::measure::HostMemory;
use crate::ops::CorePass;
use crate::profile::device::KernelRates;
use crate::profile::engines::embedded;
use crate::profile::{DeviceModel, Evidence, ProfileError, Sourced};
use crate::trace::today;
use crate::units::{Bytes, BytesPerSecond, Seconds};

/// A number that was measured: where it stands, what it was, if there was one, and what it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub path: String,
    pub was: Option<f64>,
    pub is: f64,
}

/// The cost model that `measured` makes of `base`, and what it changed.
///
/// # Errors
/// If a measurement is no number that formulas can use.
pub fn model(base: &DeviceModel, measured: &Measured) -> Result<(DeviceModel, Vec<Change>), ProfileError> {
    let card = &measured.card;
    let origin = format!("{}, CUDA {}, meshwright {}, {}", card.name, card.driver, VERSION, today());
    let mut taken = Taken { model: inherited(base), origin };
    taken.model.title = format!("{}, as meshwright runs on it", base.title);
    taken.card(measured);
    // What an instruction takes beside its work comes first: all others are behind it.
    let all: Vec<Timed> = measured.bf16.iter().chain(&measured.fp32).copied().collect();
    let start = laws::start(&all);
    taken.kernel_time(start, measured);
    let start = start.map_or(measured.launch.on_gpu, |found| found.value);
    taken.moving(&all, measured, start);
    taken.products(measured, start);
    taken.attention(measured, start);
    taken.host(measured);
    taken.model.validate()?;
    let changed = changed(base, &taken.model);
    Ok((taken.model, changed))
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `base`, whose sources say that numbers are its.
fn inherited(base: &DeviceModel) -> DeviceModel {
    fn mark(value: &mut Value, name: &str) {
        match value {
            Value::Object(fields) => {
                let is_sourced = fields.contains_key("kind");
                if let Some(Value::String(source)) = fields.get_mut("source").filter(|_| is_sourced) {
                    *source = format!("built-in {name}: {source}");
                } else {
                    fields.values_mut().for_each(|value| mark(value, name));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|value| mark(value, name)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(base).unwrap_or_default();
    mark(&mut value, &base.name);
    // Only words have changed.
    DeviceModel::deserialize(&value).unwrap_or_else(|_| base.clone())
}

/// The fields in which `model` is not `base`.
fn changed(base: &DeviceModel, model: &DeviceModel) -> Vec<Change> {
    let before = base.fields();
    let was = |path: &str| before.iter().find(|field| field.path == path).map(|field| field.value);
    let is_own = |source: &str| !source.starts_with("built-in ");
    let fields = model.fields().into_iter().filter(|field| is_own(field.source));
    fields.map(|field| Change { was: was(&field.path), is: field.value, path: field.path }).collect()
}

/// A cost model that takes on what was measured.
struct Taken {
    model: DeviceModel,
    /// Card, driver, program and date.
    origin: String,
}

impl Taken {
    fn told<T>(&self, value: T, what: &str) -> Sourced<T> {
        Sourced { value, kind: Evidence::Measured, source: format!("{what}; {}", self.origin) }
    }

    /// A number with what it rests on.
    fn sourced<T>(&self, found: Found<T>, what: &str) -> Sourced<T> {
        let Found { value, shapes, instructions } = found;
        self.told(value, &format!("{what}, {shapes} shapes, {instructions} instructions"))
    }

    /// A share, if it is one; what is above 1 is 1.
    fn share(&self, found: Option<Found<f64>>, what: &str) -> Option<Sourced<f64>> {
        let found = found.filter(|found| found.value.is_finite() && found.value > 0.0)?;
        Some(self.sourced(found.map(|share| rounded(share.min(1.0))), what))
    }

    fn card(&mut self, measured: &Measured) {
        let Measured { card, context, code, cores, host_memory, .. } = measured;
        self.model.memory = self.told(card.memory, "what the driver says");
        self.model.multiprocessors = self.told(card.multiprocessors, "what the driver says");
        let reserved = Bytes(context.0 + code.0);
        if reserved.0 > 0 {
            let what = format!("context and driver {context}, code of kernels {code}");
            self.model.reserve.context = self.told(reserved, &what);
        }
        self.model.host.cores = self.told(*cores as u32, "cores that threads may use");
        self.model.host.memory = self.told(*host_memory, "free memory");
    }

    /// From the start of an instruction that has next to nothing to do to the start of the next, in a step that is not
    /// traced.
    fn kernel_time(&mut self, start: Option<Found<f64>>, measured: &Measured) {
        let launch = measured.launch;
        let micro = |seconds: f64| format!("{:.2} us", 1e6 * seconds);
        let what = format!(
            "instructions of no bytes, from the start of one to that of the next, less {} of tracing; launches in a row take \
             {} on the GPU, {} of the host",
            micro(measured.tracing),
            micro(launch.on_gpu),
            micro(launch.on_host),
        );
        let Some(start) = start else { return };
        let apart = start.value + measured.gap - measured.tracing;
        // Where tracing cannot be told apart, launches in a row are what is known.
        let seconds = rounded(if apart > 0.0 { apart } else { launch.on_gpu });
        if seconds.is_finite() && seconds > 0.0 {
            self.model.kernel_time = self.sourced(start.map(|_| Seconds(seconds)), &what);
        }
    }

    fn moving(&mut self, all: &[Timed], measured: &Measured, start: f64) {
        let bandwidth = self.model.memory_bandwidth.value.0;
        let share = laws::moving(all, start).map(|found| found.map(|rate| rate / bandwidth));
        if let Some(share) = self.share(share, "kernels that move data, all kinds") {
            self.model.memory_bound.efficiency = share;
        }
        let (bf16, fp32) = (laws::rates(&measured.bf16, start), laws::rates(&measured.fp32, start));
        let rate = |found: Found<f64>, element: &str| {
            let what = format!("operands of such kernels in {element}");
            self.sourced(found.map(|rate| BytesPerSecond(rounded(rate))), &what)
        };
        let kernels: BTreeMap<_, _> = fp32
            .into_iter()
            .map(|(kind, found)| {
                let bf16 = bf16.get(&kind).map(|found| rate(*found, "bf16"));
                (kind, KernelRates { fp32: rate(found, "fp32"), fp64: None, bf16 })
            })
            .collect();
        self.model.kernels = kernels;
    }

    fn products(&mut self, measured: &Measured, start: f64) {
        let by = measured.library.as_deref().unwrap_or("kernels of meshwright");
        let what = &format!("products in bf16 of random numbers by {by}");
        let found = laws::efficiency(&measured.bf16, &self.model, start);
        let half_depth = found.map(|found| found.map(|(_, half_depth)| half_depth));
        if let Some(efficiency) = self.share(found.map(|found| found.map(|(share, _)| share)), what) {
            self.model.gemm.efficiency = efficiency;
            if let Some(half_depth) = half_depth {
                self.model.gemm.half_depth = self.sourced(half_depth, what);
            }
        }
        let single = laws::efficiency_fp32(&measured.fp32, &self.model, start);
        let what = &format!("products in fp32 of random numbers by {by}");
        if let Some(single) = self.share(single, what) {
            self.model.gemm.efficiency_fp32 = Some(single);
        }
    }

    fn attention(&mut self, measured: &Measured, start: f64) {
        let share = |pass| {
            // A cost model says what the device can: what our kernels reach of it is in our profile.
            let share = embedded().timing.attention_share.value;
            let found = laws::attention(&measured.bf16, pass, &self.model, start);
            let found = found.map(|found| found.map(|reached| reached / share));
            self.share(found, "fused attention in bf16")
        };
        let (forward, backward) = (share(CorePass::Forward), share(CorePass::Backward));
        let attention = &mut self.model.attention;
        attention.forward_efficiency = forward.unwrap_or_else(|| attention.forward_efficiency.clone());
        attention.backward_efficiency = backward.unwrap_or_else(|| attention.backward_efficiency.clone());
    }

    /// Copies and the host's own work. Where more is reached than the datasheet says, what is reached is the bandwidth.
    fn host(&mut self, measured: &Measured) {
        let pageable = laws::copies(&measured.copies, HostMemory::Pageable);
        let beside = pageable.map_or_else(String::new, |found| {
            format!(", the slower way; from memory that is not pinned {}", BytesPerSecond(found.value.0))
        });
        if let Some(found) = laws::copies(&measured.copies, HostMemory::Pinned) {
            let (rate, seconds) = found.value;
            let what = format!("copies with pinned memory{beside}");
            let bandwidth = self.model.host_link.bandwidth.value.0;
            if rate > bandwidth {
                self.model.host_link.bandwidth =
                    self.sourced(found.map(|_| BytesPerSecond(rounded(rate))), &what);
            }
            if let Some(share) = self.share(Some(found.map(|_| (rate / bandwidth).min(1.0))), &what) {
                self.model.host_link.efficiency = share;
                self.model.host_link.latency =
                    self.sourced(found.map(|_| Seconds(rounded(seconds))), "a copy of no bytes");
            }
        }
        // In steps, where they ran there; else by itself.
        let alone = Found { value: measured.host_adamw, shapes: 1, instructions: 5 };
        let found = laws::moved(&measured.host_steps).unwrap_or(alone);
        let what = format!("AdamW on {} cores of the host", measured.cores);
        let bandwidth = self.model.host.memory_bandwidth.value.0;
        if found.value > bandwidth {
            self.model.host.memory_bandwidth = self.sourced(found.map(BytesPerSecond), &what);
        }
        if let Some(share) = self.share(Some(found.map(|rate| (rate / bandwidth).min(1.0))), &what) {
            self.model.host.optimizer_efficiency = share;
        }
    }
}

#[cfg(test)]
mod tests;
