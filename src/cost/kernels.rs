//! The price of kernels on one device: products, attention, and all that only moves bytes.

use super::gemm;
use super::price::{DevicePricing, Price, Resource};
use crate::ops::{AttentionCore, CorePass, Elementwise, ElementwiseKind, Linear, Op};
use crate::profile::{DeviceModel, Sourced};
use crate::units::{Bytes, BytesPerSecond, ElementType, FlopsPerSecond, Seconds};

/// Kernels beside softmax itself where it is not fused: to scale, to mask and to cast to single precision and back.
const UNFUSED_SOFTMAX: u64 = 4;

impl DevicePricing<'_> {
    /// A kernel: `seconds` of work behind its launch.
    pub(super) fn kernel(&self, seconds: Seconds, multiprocessors: f64, bytes: Bytes) -> Price {
        let device = &self.cluster.device;
        let seconds = seconds + device.kernel_time.value;
        let memory = bytes.at(device.memory_bandwidth.value).0 / seconds.0;
        Price::alone(seconds)
            .demanding(Resource::Multiprocessors, multiprocessors)
            .demanding(Resource::Memory, memory)
    }

    /// How often the engine's kernels go over what one fused kernel for `op` would move.
    pub(super) fn passes(&self, op: &Op) -> f64 {
        match op {
            // One kernel does it, if it is not the product's own.
            Op::Elementwise(Elementwise { kind: ElementwiseKind::Accumulate, .. }) => 1.0,
            Op::Norm(_) | Op::Elementwise(_) => self.timing.elementwise_passes.value,
            Op::CrossEntropy(_) => self.timing.loss_passes.value,
            Op::AdamW(_) => self.timing.optimizer_passes.value,
            Op::Routing(_) => self.timing.routing_passes.value,
            _ => 1.0,
        }
    }

    /// Bytes moved to scale and cast the factors of a product in 8 bits, which are kept in 16.
    pub(super) fn casts(&self, product: &Linear) -> Bytes {
        if product.element != ElementType::Fp8 {
            return Bytes::ZERO;
        }
        let elements = product.batch * product.depth * (product.rows + product.columns);
        Bytes(elements * ElementType::Bf16.size()).scaled(self.timing.cast_passes.value)
    }

    /// A kernel that only moves data.
    pub(super) fn memory_bound(&self, bytes: Bytes) -> Price {
        let device = &self.cluster.device;
        let rate = device.memory_bandwidth.value * device.memory_bound.efficiency.value;
        self.moving(bytes, rate)
    }

    /// The kernel of `op`, which only moves data: at the rate of its kind where that is known.
    pub(super) fn streamed(&self, op: &Op) -> Price {
        let bytes = op.bytes_moved().scaled(self.passes(op));
        let known = op.kernel_kind().and_then(|kind| self.cluster.device.kernels.get(&kind));
        let mut price = known
            .map_or_else(|| self.memory_bound(bytes), |rates| self.moving(bytes, rates.rate(self.compute)));
        price.seconds += self.cluster.device.kernel_time.value * (self.kernels(op) - 1.0);
        price
    }

    /// Kernels that the engine runs for `op`. An engine whose kernels go over an op's bytes several times does so in as
    /// many kernels.
    pub(super) fn kernels(&self, op: &Op) -> f64 {
        match op {
            Op::Norm(_) | Op::Elementwise(_) => self.passes(op).max(1.0),
            // Experts' products are kernels of their own, except where one takes them all.
            Op::Linear(product) if self.runs_experts_apart => product.batch as f64,
            Op::Attention(core) => (core.kernels() + self.unfused_softmax(core).0) as f64,
            _ => 1.0,
        }
    }

    /// The product that `op` is: its arithmetic or its bytes, whichever takes longer.
    pub(super) fn product(&self, op: &Op, product: &Linear) -> Price {
        let device = &self.cluster.device;
        let rate = device.memory_bandwidth.value * device.memory_bound.efficiency.value;
        let arithmetic = gemm::arithmetic(product, device) / self.product_share(product);
        let casts = self.casts(product).at(rate);
        let launches = device.kernel_time.value * (self.kernels(op) - 1.0);
        let seconds = arithmetic.max(op.bytes_moved().at(rate)) + casts + launches;
        self.kernel(seconds, 1.0, op.bytes_moved())
    }

    /// The share of the device's rate that `product` reaches.
    pub(super) fn product_share(&self, product: &Linear) -> f64 {
        let share = self.timing.product_share.value;
        let share = if product.batch > 1 { share * self.timing.expert_share.value } else { share };
        let device = &self.cluster.device;
        match &device.peak.tf32 {
            Some(peak) if self.timing.tensor_float && product.element == ElementType::Fp32 => {
                share * peak.value.0 / device.peak(ElementType::Fp32).0
            }
            _ => share,
        }
    }

    pub(super) fn moving(&self, bytes: Bytes, rate: BytesPerSecond) -> Price {
        self.kernel(bytes.at(rate), 1.0 - self.cluster.device.collective_share.value, bytes)
    }

    /// Kernels and bytes that a softmax takes more which the engine cannot fuse.
    pub(super) fn unfused_softmax(&self, op: &AttentionCore) -> (u64, Bytes) {
        let batches = op.batch * op.heads;
        // No number but 0 is a multiple of 0.
        if op.fused || batches.is_multiple_of(self.timing.softmax_multiple.value) {
            return (0, Bytes::ZERO);
        }
        (UNFUSED_SOFTMAX, op.unfused_softmax_bytes())
    }

    pub(super) fn attention(&self, op: &AttentionCore) -> Price {
        let device = &self.cluster.device;
        let peak = device.peak(self.compute);
        let streamed =
            op.bytes_moved().at(device.memory_bandwidth.value * device.memory_bound.efficiency.value);
        if !op.fused {
            let products = op.products().into_iter().map(|product| gemm::arithmetic(&product, device));
            let rate = device.memory_bandwidth.value * device.memory_bound.efficiency.value;
            let (kernels, more) = self.unfused_softmax(op);
            let launches = device.kernel_time.value * (op.kernels() + kernels - 1) as f64;
            let seconds = products.sum::<Seconds>() + streamed + more.at(rate) + launches;
            return self.kernel(seconds, 1.0, op.bytes_moved() + more);
        }
        let efficiency = match op.pass {
            CorePass::Forward => device.attention.forward_efficiency.value,
            CorePass::Backward => device.attention.backward_efficiency.value,
        };
        let older = device.attention.older_kernels.as_ref().filter(|_| self.timing.older_attention);
        let efficiency =
            efficiency * self.timing.attention_share.value * older.map_or(1.0, |share| share.value);
        let arithmetic = fused_attention(op, device, peak * efficiency);
        self.kernel(arithmetic.max(streamed), 1.0, op.bytes_moved())
    }
}

/// Time of the products of fused attention at `rate` on all multiprocessors. Each takes a block of 128 queries at a time, so
/// the last round may leave some idle.
pub fn fused_attention(op: &AttentionCore, device: &DeviceModel, rate: FlopsPerSecond) -> Seconds {
    let blocks = (op.batch * op.heads * op.queries.div_ceil(128)).max(1);
    let multiprocessors = u64::from(device.multiprocessors.value.max(1));
    let ragged = (blocks.div_ceil(multiprocessors) * multiprocessors) as f64 / blocks as f64;
    let half = |number: &Option<Sourced<f64>>| number.as_ref().map_or(0.0, |number| number.value);
    // A causal mask leaves a query half of the keys on average.
    let keys = op.keys as f64 / if op.causal { 2.0 } else { 1.0 };
    let short = 1.0 + half(&device.attention.half_keys) / keys.max(1.0);
    let half_head = half(&device.attention.half_head);
    let head = (op.query_dim + op.value_dim).max(1) as f64 / 2.0;
    let narrow = (1.0 + half_head / head) / (1.0 + half_head / USUAL_HEAD);
    op.flops().at(rate) * (ragged * short * narrow)
}

/// Elements of the heads that rates of attention are stated for.
const USUAL_HEAD: f64 = 128.0;
