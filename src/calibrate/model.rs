//! The cost model of this machine, from its measurements.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::calibrate::error::CalibrateError;
use crate::calibrate::machine;
use crate::calibrate::measure::{Effort, Measured, measure};
use crate::calibrate::products::{self, Products};
use crate::calibrate::samples::Sample;
use crate::execute::kernels::attention::LANES;
use crate::execute::kernels::tile;
use crate::ops::{CorePass, KernelKind, Op};
use crate::profile::device::{CoresModel, KernelRates, MeasuredMachine};
use crate::profile::{DeviceModel, Evidence, ProfileError, Sourced, device_model};
use crate::trace::today;
use crate::units::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds};

/// A cost model of this machine and how it came about.
#[derive(Clone, Debug)]
pub struct Calibration {
    pub model: DeviceModel,
    pub measured: Measured,
    pub seconds: f64,
}

/// Measures this machine and fits its cost model; `say` is told what comes next and the share that is done.
///
/// # Errors
/// If a program cannot be run here.
pub fn calibrate(effort: Effort, say: &dyn Fn(&'static str, f64)) -> Result<Calibration, CalibrateError> {
    let began = Instant::now();
    let measured = measure(effort, say)?;
    let model = model(&measured).map_err(|error| CalibrateError::Program {
        program: "cost model".to_owned(),
        reason: error.to_string(),
    })?;
    Ok(Calibration { model, measured, seconds: began.elapsed().as_secs_f64() })
}

/// Says where numbers come from.
struct Origin {
    machine: String,
    date: String,
}

impl Origin {
    fn of<T>(&self, kind: Evidence, value: T, what: &str) -> Sourced<T> {
        Sourced { value, kind, source: format!("{what}; {}, {}", self.machine, self.date) }
    }

    fn measured<T>(&self, value: T, what: &str) -> Sourced<T> {
        self.of(Evidence::Measured, value, what)
    }
}

/// The cost model that `measured` makes; what is not of this machine (the network) is the built-in model's.
///
/// # Errors
/// If a measurement is no number that formulas can use.
pub fn model(measured: &Measured) -> Result<DeviceModel, ProfileError> {
    let origin = Origin { machine: machine::name(), date: today() };
    let mut model = device_model("cpu")?.0;
    let cores = measured.cores;
    model.version = 2;
    model.title = format!("{}, {cores} cores, ranks as threads", origin.machine);
    set_arithmetic(&mut model, measured, &origin);
    set_memory(&mut model, measured, &origin);
    let link = &mut model.scale_up.link;
    link.bandwidth = origin.measured(
        BytesPerSecond(measured.collective_rate),
        "what a member of a collective copies or adds up",
    );
    link.efficiency = origin.measured(1.0, "the bandwidth is what is sustained");
    link.latency = origin.measured(Seconds(measured.meeting), "one meeting of two ranks, streams woken");
    model.kernel_time = origin.measured(Seconds(measured.gap), "from one instruction of a rank to the next");
    model.host.cores = origin.measured(cores as u32, "cores that threads may use");
    model.devices_per_node = origin.measured(cores as u32, "as many as cores");
    model.uncertainty.time = Sourced {
        value: 0.2,
        kind: Evidence::Estimate,
        source: "the aim of a calibration where ranks outnumber cores".to_owned(),
    };
    model.machine = Some(MeasuredMachine {
        key: machine::key(),
        fixed_kernel: origin.measured(
            measured.fixed_kernel,
            "products on all cores at once, between the steps of all programs",
        ),
    });
    model.validate()?;
    Ok(model)
}

fn set_arithmetic(model: &mut DeviceModel, measured: &Measured, origin: &Origin) {
    let tile = tile::tile::<f32>();
    let fitted = products::products(&measured.fp32, tile);
    let rate = |samples: &[Sample], tile| FlopsPerSecond(products::rate(samples, tile, &fitted));
    model.peak.fp32 = origin.measured(FlopsPerSecond(fitted.rate), "products, one core");
    model.peak.fp64 = origin.measured(rate(&measured.fp64, tile::tile::<f64>()), "products, one core");
    model.peak.bf16 = Some(origin.measured(rate(&measured.bf16, tile), "products summed in fp32, one core"));
    model.gemm.efficiency = origin.measured(1.0, "the peak is what the inner loop sustains");
    model.gemm.efficiency_fp8 = model.gemm.efficiency.clone();
    model.gemm.tiles = origin.measured(vec![(tile.0 as u32, tile.1 as u32)], "tile that fills the registers");
    model.gemm.half_depth = origin.measured(fitted.half_depth, "reading and writing the sums of a tile");
    let forward = products::attention(&measured.fp32, CorePass::Forward);
    let backward = products::attention(&measured.fp32, CorePass::Backward);
    let share = |rate: f64| (rate / fitted.rate).clamp(1e-6, 1.0);
    model.attention.forward_efficiency = origin.measured(share(forward.rate), "fused attention");
    model.attention.backward_efficiency = origin.measured(share(backward.rate), "fused attention");
    model.kernels = kernels(measured, &fitted, origin);
    model.cores = Some(CoresModel {
        packing: origin.measured(BytesPerSecond(fitted.packing), "factors of products"),
        attention_tile: origin.measured(LANES as u32, "tile of the kernel"),
        score_time: origin.measured(Seconds(forward.score), "fused attention"),
        score_time_backward: origin.measured(Seconds(backward.score), "fused attention"),
        effective: origin.measured(measured.effective, "ranks on all cores against one rank alone"),
        serial_share: origin.measured(measured.serial_share, "one rank on all cores against one core"),
        dispatch: origin.measured(Seconds(measured.dispatch), "one rank on all cores against one core"),
        cache: origin
            .measured(Bytes(machine::cache() / measured.cores as u64), "a core's share of the last cache"),
    });
}

fn set_memory(model: &mut DeviceModel, measured: &Measured, origin: &Origin) {
    let all = measured.memory_one.max(measured.memory_all);
    model.memory_bandwidth = origin.measured(BytesPerSecond(all), "AdamW beyond the caches, all cores");
    let share = (measured.memory_one / all).clamp(1e-6, 1.0);
    model.memory_bound.efficiency = origin.measured(share, "AdamW beyond the caches, one core of all");
    model.host_link.bandwidth = origin.measured(BytesPerSecond(measured.copy_rate), "copies between arenas");
    model.host_link.efficiency = origin.measured(1.0, "the bandwidth is what is sustained");
    model.host_link.latency = origin.measured(Seconds(measured.meeting), "one stream wakes another");
    let free = machine::available_memory();
    let ranks = 2 * measured.cores as u64;
    model.memory = origin.measured(Bytes(free / ranks), "free memory among twice as many ranks as cores");
    model.host.memory = origin.measured(Bytes(free), "free memory");
    model.host.memory_bandwidth = model.memory_bandwidth.clone();
    model.host.optimizer_efficiency = model.memory_bound.efficiency.clone();
}

/// Bytes/s of each kind of kernel, by element type.
fn kernels(measured: &Measured, fitted: &Products, origin: &Origin) -> BTreeMap<KernelKind, KernelRates> {
    let by_kind = |samples: &[Sample]| {
        let mut sums: BTreeMap<KernelKind, (f64, f64)> = BTreeMap::new();
        for (op, seconds) in samples {
            let Some(kind) = op.kernel_kind() else { continue };
            let (bytes, seconds) = match op {
                Op::Attention(core) => (core.score_bytes() as f64, seconds - op.flops().0 / fitted.rate),
                _ => (op.bytes_moved().0 as f64, *seconds),
            };
            if seconds > 0.0 && bytes > 0.0 {
                // Large ones count most: they are what steps are made of.
                let (all_bytes, all_seconds) = sums.entry(kind).or_default();
                *all_bytes += bytes;
                *all_seconds += seconds;
            }
        }
        sums.into_iter().map(|(kind, (bytes, seconds))| (kind, bytes / seconds)).collect::<BTreeMap<_, _>>()
    };
    let (fp64, bf16) = (by_kind(&measured.fp64), by_kind(&measured.bf16));
    let rate = |value: f64| origin.measured(BytesPerSecond(value), "operands of such kernels, one core");
    let of = |rates: &BTreeMap<KernelKind, f64>, kind| rates.get(&kind).map(|value| rate(*value));
    by_kind(&measured.fp32)
        .into_iter()
        .map(|(kind, value)| {
            (kind, KernelRates { fp32: rate(value), fp64: of(&fp64, kind), bf16: of(&bf16, kind) })
        })
        .collect()
}
