//! The cost model of one kind of device and its links: a file under `cost_models/`, each number with its source.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::evidence::Sourced;
use crate::ops::KernelKind;
use crate::units::{Bytes, BytesPerSecond, ElementType, FlopsPerSecond, Seconds};

/// Calibrated numbers for one device. All values are in bytes, bytes/s, FLOP/s and seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceModel {
    pub version: u32,
    /// The name in cluster texts, e.g. `h100-sxm`.
    pub name: String,
    /// One line for people.
    pub title: String,
    pub class: DeviceClass,
    /// Device memory that a process can see.
    pub memory: Sourced<Bytes>,
    pub memory_bandwidth: Sourced<BytesPerSecond>,
    /// Streaming multiprocessors, compute units or cores.
    pub multiprocessors: Sourced<u32>,
    /// Dense peak rates by element type of the operands.
    pub peak: Peaks,
    pub gemm: GemmModel,
    pub attention: AttentionModel,
    pub memory_bound: MemoryBoundModel,
    /// Kernels whose rate is known by itself; the others reach `memory_bound`'s share of the memory bandwidth.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<KernelKind, KernelRates>,
    /// Where ranks are threads that share the cores of a machine. Rates above are then one core's, `host.cores` are
    /// what ranks share, and `memory_bandwidth` is the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<CoresModel>,
    /// Time that one kernel takes at least, launch included, when the queue is full.
    pub kernel_time: Sourced<Seconds>,
    /// Devices that share a host, unless the cluster says otherwise.
    pub devices_per_node: Sourced<u32>,
    /// The fast domain: NVLink, xGMI, PCIe or shared memory.
    pub scale_up: ScaleUpModel,
    /// From node to node, a device's own share of the NICs.
    pub network: LinkModel,
    /// Between device and host memory, one direction.
    pub host_link: LinkModel,
    pub host: HostModel,
    /// Share of the multiprocessors that a running collective occupies.
    pub collective_share: Sourced<f64>,
    pub reserve: ReserveModel,
    pub uncertainty: Uncertainty,
    /// Where it was measured, if on one machine (version 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MeasuredMachine>,
}

/// The machine that a cost model was measured on, and how fast it was then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredMachine {
    pub key: MachineKey,
    /// The speed of the fixed kernel on all cores together while the rest was measured.
    pub fixed_kernel: Sourced<FlopsPerSecond>,
}

/// What a measured cost model holds for: another processor or another program has other speeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineKey {
    pub processor: String,
    /// That threads of the program may use.
    pub cores: u32,
    /// The version of this program.
    pub program: String,
    pub build: Build,
}

/// How this program was compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Build {
    Debug,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeviceClass {
    Gpu,
    /// Ranks are threads of one machine: all ranks share cores and memory bandwidth.
    Cpu,
}

/// Dense peak FLOP/s; none where the device has no such units.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peaks {
    pub fp64: Sourced<FlopsPerSecond>,
    pub fp32: Sourced<FlopsPerSecond>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bf16: Option<Sourced<FlopsPerSecond>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp16: Option<Sourced<FlopsPerSecond>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp8: Option<Sourced<FlopsPerSecond>>,
    /// Of 32-bit operands that are rounded to 19 bits (TF32); none where there is no such unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tf32: Option<Sourced<FlopsPerSecond>>,
}

/// Matrix products: a share of the peak that shrinks with short inner dimensions, on whole tiles and waves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GemmModel {
    /// Share of the dense peak that a large, well-shaped product sustains.
    pub efficiency: Sourced<f64>,
    /// The same of products in 8 bits.
    pub efficiency_fp8: Sourced<f64>,
    /// The same of products in 32 bits; `efficiency` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency_fp32: Option<Sourced<f64>>,
    /// Outputs for each element that a tile of r × c loads, r·c/(r + c), at which a tile reaches half of what an
    /// endless one would.
    pub half_intensity: Sourced<f64>,
    /// Share of its rate that a 16-bit product reaches whose rows are no whole 16 bytes; if left out, it runs at the rate
    /// of 32 bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unaligned_share: Option<Sourced<f64>>,
    /// Output tile sizes (rows, columns) that the library chooses from.
    pub tiles: Sourced<Vec<(u32, u32)>>,
    /// Inner dimension at which half of `efficiency` is reached.
    pub half_depth: Sourced<f64>,
}

/// Fused attention as shares of the dense peak, over long sequences and heads of 128 elements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionModel {
    pub forward_efficiency: Sourced<f64>,
    pub backward_efficiency: Sourced<f64>,
    /// Share of these that kernels reach which were written for the devices of 2020 (FlashAttention 2); all if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_kernels: Option<Sourced<f64>>,
    /// Keys of a query, on average, at which half of the rate is reached; any number of them reaches it if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_keys: Option<Sourced<f64>>,
    /// Elements of a head at which half of what endless ones would reach is reached; all heads are alike if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_head: Option<Sourced<f64>>,
}

/// Kernels that only move data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryBoundModel {
    /// Share of the memory bandwidth that large kernels reach.
    pub efficiency: Sourced<f64>,
}

/// Bytes/s of operands that a kernel gets through, by compute type; fp32's where there is no other. On one core of a CPU, or
/// on a whole GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KernelRates {
    pub fp32: Sourced<BytesPerSecond>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fp64: Option<Sourced<BytesPerSecond>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bf16: Option<Sourced<BytesPerSecond>>,
}

/// Cores that all ranks of a machine share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoresModel {
    /// Bytes/s of factors that one core lays out for the inner loop of a product.
    pub packing: Sourced<BytesPerSecond>,
    /// Tokens of a side of fused attention's tiles: those that a causal mask cuts are computed whole.
    pub attention_tile: Sourced<u32>,
    /// Time of one score of fused attention beside its products: mask and exponential.
    pub score_time: Sourced<Seconds>,
    /// The same in the backward pass.
    pub score_time_backward: Sourced<Seconds>,
    /// Cores, each as fast as one that works alone, that do as much as all of them together: fewer than there are where
    /// they share arithmetic units, caches or power.
    pub effective: Sourced<f64>,
    /// Share of a kernel's work that the threads of its rank do not share (Amdahl 1967).
    pub serial_share: Sourced<f64>,
    /// Time to hand a kernel out to the threads of its rank and to gather them again.
    pub dispatch: Sourced<Seconds>,
    /// Bytes that a kernel finds in the caches: one that touches more loads the memory.
    pub cache: Sourced<Bytes>,
}

/// One kind of link, as one device sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkModel {
    /// Bandwidth of one device in one direction.
    pub bandwidth: Sourced<BytesPerSecond>,
    /// Share of it that large messages reach.
    pub efficiency: Sourced<f64>,
    /// Time of one hop of a message.
    pub latency: Sourced<Seconds>,
    /// What rings of few members lose: m of them reach 1 − loss / m² of what many do. Nothing if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring_loss: Option<Sourced<f64>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScaleUpModel {
    pub link: LinkModel,
    /// Devices in one fast domain where it is not the node (72 for NVL72).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Sourced<u32>>,
}

/// The host of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostModel {
    pub memory: Sourced<Bytes>,
    pub memory_bandwidth: Sourced<BytesPerSecond>,
    pub cores: Sourced<u32>,
    /// Share of the memory bandwidth that a host optimizer step reaches.
    pub optimizer_efficiency: Sourced<f64>,
}

/// Device memory that a program never sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReserveModel {
    /// Driver context and loaded code.
    pub context: Sourced<Bytes>,
    /// Buffers of one communicator (one process group).
    pub communicator: Sourced<Bytes>,
    /// Library workspaces that the allocator hands out beside the program's buffers.
    pub workspace: Sourced<Bytes>,
    /// Reserved over allocated bytes of the caching allocator; 1 where there is none.
    pub allocator_factor: Sourced<f64>,
}

/// Half-width of the 80 % interval, as a share of the prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uncertainty {
    pub time: Sourced<f64>,
    pub memory: Sourced<f64>,
}

impl KernelRates {
    /// The rate where activations are `compute`. What no entry names does as many elements a second as fp32, but
    /// for wider ones, which do as many bytes.
    pub fn rate(&self, compute: ElementType) -> BytesPerSecond {
        let known = match compute {
            ElementType::Fp64 => self.fp64.as_ref(),
            ElementType::Bf16 => self.bf16.as_ref(),
            _ => None,
        };
        let narrower = compute.size().min(ElementType::Fp32.size()) as f64 / ElementType::Fp32.size() as f64;
        known.map_or(self.fp32.value * narrower, |rate| rate.value)
    }
}

impl DeviceModel {
    /// Whether products of `element` have a peak of their own.
    pub const fn has_units(&self, element: ElementType) -> bool {
        match element {
            ElementType::Fp64 | ElementType::Fp32 => true,
            ElementType::Bf16 => self.peak.bf16.is_some(),
            ElementType::Fp16 => self.peak.fp16.is_some(),
            ElementType::Fp8 => self.peak.fp8.is_some(),
        }
    }

    /// Dense peak for operands of `element`; types without units of their own run at the next wider type's.
    pub fn peak(&self, element: ElementType) -> FlopsPerSecond {
        let fp32 = self.peak.fp32.value;
        let or = |peak: &Option<Sourced<FlopsPerSecond>>, wider: FlopsPerSecond| {
            peak.as_ref().map_or(wider, |sourced| sourced.value)
        };
        let fp16 = or(&self.peak.fp16, fp32);
        match element {
            ElementType::Fp64 => self.peak.fp64.value,
            ElementType::Fp32 => fp32,
            ElementType::Fp16 => fp16,
            ElementType::Bf16 => or(&self.peak.bf16, fp32),
            ElementType::Fp8 => or(&self.peak.fp8, or(&self.peak.bf16, fp16)),
        }
    }
}
