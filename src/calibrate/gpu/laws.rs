//! From what instructions took to the numbers of cost formulas: each law of those formulas turned round.

use std::collections::{BTreeMap, HashSet};

use super::measure::Timed;
use crate::calibrate::efficiency;
use crate::calibrate::fit::non_negative;
use crate::calibrate::observe::median;
use crate::cost::kernels::fused_attention;
use crate::execute::device::cuda::measure::{Copied, HostMemory};
use crate::ops::{AttentionCore, CorePass, KernelKind, Linear, Op};
use crate::profile::DeviceModel;
use crate::units::ElementType;

/// A number, and how much it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found<T> {
    pub value: T,
    /// Ops that differ.
    pub shapes: usize,
    /// Times that were taken of them.
    pub instructions: usize,
}

impl<T> Found<T> {
    fn of(value: T, samples: &[&Timed]) -> Self {
        let instructions = samples.iter().map(|timed| timed.count).sum();
        let shapes: HashSet<Op> = samples.iter().map(|timed| timed.op).collect();
        Self { value, shapes: shapes.len(), instructions }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        Found { value: change(self.value), shapes: self.shapes, instructions: self.instructions }
    }
}

/// Ops count whose work is at least this share of the most: launches are not what is looked for.
const LARGE: f64 = 1.0 / 30.0;
/// Shapes of a kind that tell its seconds apart from its bytes.
const LEAST_SHAPES: usize = 3;

/// Those of `samples` that do much of what `work` says.
fn large<'a>(samples: &[&'a Timed], work: impl Fn(&Timed) -> f64) -> Vec<&'a Timed> {
    let most = samples.iter().map(|timed| work(timed)).fold(0.0, f64::max);
    samples.iter().copied().filter(|timed| work(timed) >= LARGE * most && timed.seconds > 0.0).collect()
}

/// Samples of kernels that only move data, by kind.
fn by_kind<'a>(samples: &[&'a Timed]) -> BTreeMap<KernelKind, Vec<&'a Timed>> {
    let mut kinds: BTreeMap<_, Vec<&Timed>> = BTreeMap::new();
    for timed in samples {
        let is_read = timed.op.bytes_moved().0 > 0 && timed.seconds > 0.0;
        if let Some(kind) = timed.op.kernel_kind().filter(|_| is_read) {
            kinds.entry(kind).or_default().push(timed);
        }
    }
    kinds
}

/// Seconds that an instruction takes beside its work: where the times of kinds of kernels that move data begin, over the
/// bytes that they move. Nothing where no kind was seen in several sizes.
pub fn start(samples: &[Timed]) -> Option<Found<f64>> {
    let all: Vec<&Timed> = samples.iter().collect();
    let mut used = Vec::new();
    let mut starts = Vec::new();
    for samples in by_kind(&all).into_values().filter(|samples| samples.len() >= LEAST_SHAPES) {
        let rows: Vec<_> = samples
            .iter()
            .map(|timed| ([1.0, timed.op.bytes_moved().0 as f64], timed.seconds, timed.seconds))
            .collect();
        let [seconds, _] = non_negative(&rows);
        starts.push(seconds);
        used.extend(samples);
    }
    (!starts.is_empty()).then(|| Found::of(median(starts), &used))
}

/// Bytes/s of the large ones of `samples`, together: what they move over what they take behind their `start`.
fn rate(samples: &[&Timed], start: f64) -> Option<Found<f64>> {
    let large = large(samples, |timed| timed.op.bytes_moved().0 as f64);
    let bytes: f64 = large.iter().map(|timed| timed.op.bytes_moved().0 as f64).sum();
    let seconds: f64 = large.iter().map(|timed| timed.seconds - start).sum();
    (bytes > 0.0 && seconds > 0.0).then(|| Found::of(bytes / seconds, &large))
}

/// Bytes/s of each kind of kernels that move data.
pub fn rates(samples: &[Timed], start: f64) -> BTreeMap<KernelKind, Found<f64>> {
    let all: Vec<&Timed> = samples.iter().collect();
    let kinds = by_kind(&all).into_iter();
    kinds.filter_map(|(kind, samples)| Some((kind, rate(&samples, start)?))).collect()
}

/// Bytes/s of kernels that move data, of all kinds together.
pub fn moving(samples: &[Timed], start: f64) -> Option<Found<f64>> {
    let all: Vec<&Timed> = samples.iter().collect();
    let moving: Vec<&Timed> = by_kind(&all).into_values().flatten().collect();
    rate(&moving, start)
}

/// Large products in `element`, and their seconds behind the `start`: those that arithmetic bounds, where there are some.
fn products<'a>(
    samples: &'a [Timed],
    element: ElementType,
    (model, start): (&DeviceModel, f64),
) -> (Vec<&'a Timed>, Vec<(Linear, f64)>) {
    let linear = |timed: &Timed| match timed.op {
        Op::Linear(op) if op.element == element => Some(op),
        _ => None,
    };
    let of_type: Vec<&Timed> = samples.iter().filter(|timed| linear(timed).is_some()).collect();
    let peak = model.peak(element);
    let is_bound = |timed: &&Timed| {
        timed.op.flops().at(peak) >= timed.op.bytes_moved().at(model.memory_bandwidth.value)
            && timed.seconds > start
    };
    let bound: Vec<&Timed> = of_type.iter().copied().filter(is_bound).collect();
    // On devices that do nothing but small ones, these are what there is.
    let chosen = if bound.is_empty() { of_type } else { bound };
    let chosen = large(&chosen, |timed| timed.op.flops().0);
    let behind = |timed: &&Timed| Some((linear(timed)?, timed.seconds - start)).filter(|(_, s)| *s > 0.0);
    let products = chosen.iter().filter_map(behind).collect();
    (chosen, products)
}

/// The share of the peak that products in bf16 reach, and the depth at which half of it is lost.
pub fn efficiency(samples: &[Timed], model: &DeviceModel, start: f64) -> Option<Found<(f64, f64)>> {
    let (chosen, products) = products(samples, ElementType::Bf16, (model, start));
    Some(Found::of(efficiency::of_products(model, &products)?, &chosen))
}

/// The share of the peak that products in fp32 reach, with the half depth of `model`.
pub fn efficiency_fp32(samples: &[Timed], model: &DeviceModel, start: f64) -> Option<Found<f64>> {
    let (chosen, products) = products(samples, ElementType::Fp32, (model, start));
    let shares = efficiency::shares(model, model.gemm.half_depth.value, &products);
    (!shares.is_empty()).then(|| Found::of(median(shares), &chosen))
}

/// The share of the peak that fused attention in bf16 reaches in `pass`.
pub fn attention(samples: &[Timed], pass: CorePass, model: &DeviceModel, start: f64) -> Option<Found<f64>> {
    let core = |timed: &Timed| -> Option<AttentionCore> {
        match timed.op {
            Op::Attention(core) if core.fused && core.pass == pass => Some(core),
            _ => None,
        }
    };
    let cores: Vec<&Timed> = samples
        .iter()
        .filter(|timed| core(timed).is_some_and(|core| core.element == ElementType::Bf16))
        .filter(|timed| timed.seconds > start)
        .collect();
    let large = large(&cores, |timed| timed.op.flops().0);
    let peak = model.peak(ElementType::Bf16);
    let share =
        |timed: &&Timed| Some(fused_attention(&core(timed)?, model, peak).0 / (timed.seconds - start));
    let shares: Vec<f64> = large.iter().filter_map(share).collect();
    (!shares.is_empty()).then(|| Found::of(median(shares), &large))
}

/// Bytes/s of copies between GPU and host in one direction, the slower one, and the seconds of one of no bytes.
pub fn copies(copies: &[Copied], memory: HostMemory) -> Option<Found<(f64, f64)>> {
    let of_memory = copies.iter().filter(|copied| copied.memory == memory);
    let rows: Vec<_> = of_memory
        .map(|copied| {
            let seconds = copied.to_gpu.max(copied.to_host);
            ([1.0, copied.bytes.0 as f64], seconds, seconds)
        })
        .filter(|(_, seconds, _)| *seconds > 0.0)
        .collect();
    let [seconds, byte] = non_negative(&rows);
    let shapes = rows.len();
    (byte > 0.0).then(|| Found { value: (1.0 / byte, seconds), shapes, instructions: 2 * shapes })
}

/// Bytes/s of instructions that move bytes between memories, or of the host's optimizer: all that they move over all that
/// they take.
pub fn moved(samples: &[Timed]) -> Option<Found<f64>> {
    let all: Vec<&Timed> = samples.iter().collect();
    rate(&all, 0.0)
}

#[cfg(test)]
mod tests;
