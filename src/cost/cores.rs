//! Prices where ranks are threads of one machine: a rank has its share of the cores, and all compete for all of them.

use crate::cluster::Cluster;
use crate::cost::collective::GroupShape;
use crate::cost::gemm;
use crate::cost::price::{Price, Resource};
use crate::ops::{AttentionCore, Collective, CollectiveKind, CorePass, Linear, Op};
use crate::profile::DeviceModel;
use crate::profile::device::CoresModel;
use crate::strategy::Strategy;
use crate::units::{Bytes, ElementType, Flops, Seconds};

/// Prices of the ranks of one strategy on the cores of a machine.
///
/// Demands are shares of all cores, and of the memory bandwidth, that the like ranks of one stage take together.
pub struct CorePricing<'a> {
    cluster: &'a Cluster,
    device: &'a DeviceModel,
    model: &'a CoresModel,
    compute: ElementType,
    /// Threads of a rank's kernels.
    threads: f64,
    /// Ranks that do the same at the same time.
    alike: f64,
    /// Cores of all nodes, each as fast as one alone.
    cores: f64,
}

/// Meetings of a collective's members: at the start, between its parts and at the end.
pub const fn meetings(kind: CollectiveKind) -> f64 {
    match kind {
        CollectiveKind::AllReduce => 3.0,
        _ => 2.0,
    }
}

/// Bytes that one of `members` copies or adds up, as it reads them where the others have them: its shard of every
/// member's slice and the result, then the others' shards.
pub fn copied(collective: &Collective, members: f64) -> f64 {
    let bytes = collective.bytes.0 as f64;
    let sum = bytes * (1.0 + 1.0 / members) / 2.0;
    match collective.kind {
        CollectiveKind::AllReduce => sum + bytes * (members - 1.0) / members,
        CollectiveKind::ReduceScatter => sum,
        CollectiveKind::AllGather | CollectiveKind::AllToAll | CollectiveKind::RingShift => bytes,
    }
}

/// FLOPs and pairs of a fused core in whole tiles of `tile` × `tile` tokens: a causal mask saves those above the
/// diagonal.
pub fn tiled(core: &AttentionCore, tile: u32) -> (Flops, f64) {
    let all = core.batch as f64 * core.heads as f64 * core.queries as f64 * core.keys as f64;
    if !core.causal {
        return (core.flops(), all);
    }
    let share = (0.5 + 0.5 * f64::from(tile) / core.keys.max(1) as f64).min(1.0);
    (core.flops() * (2.0 * share), all * share)
}

impl<'a> CorePricing<'a> {
    /// None where the cost model says nothing of shared cores.
    pub fn new(cluster: &'a Cluster, strategy: &Strategy, compute: ElementType) -> Option<Self> {
        let model = cluster.device.cores.as_ref()?;
        let cores = cluster.host.cores.max(1);
        Some(Self {
            cluster,
            device: &cluster.device,
            model,
            compute,
            threads: f64::from((cores / cluster.devices_per_node.max(1)).max(1)),
            alike: strategy.devices() as f64 / strategy.pipeline as f64,
            cores: model.effective.value * f64::from(cluster.nodes.max(1)),
        })
    }

    /// The price of an op that is no collective.
    pub fn price(&self, op: &Op) -> Price {
        match op {
            Op::Linear(product) => self.kernel(self.product(product), op.bytes_moved()),
            Op::Attention(core) if core.fused => self.kernel(self.attention(core), op.bytes_moved()),
            Op::Attention(core) => {
                let products =
                    op.flops().at(self.device.peak(self.compute) * self.device.gemm.efficiency.value);
                self.kernel(products + self.streamed(op, Bytes(core.score_bytes())), op.bytes_moved())
            }
            Op::CopyOut(bytes) => self.copy(*bytes, Resource::CopyOut),
            Op::CopyIn(bytes) => self.copy(*bytes, Resource::CopyIn),
            Op::Collective(_) | Op::Send(_) | Op::Receive(_) | Op::Release => Price::default(),
            _ => self.kernel(self.streamed(op, op.bytes_moved()), op.bytes_moved()),
        }
    }

    /// The price of `collective` among threads; each member copies with the core that it computes with.
    pub fn collective(&self, collective: &Collective, group: &GroupShape) -> Price {
        let members = group.size();
        if members <= 1 {
            return Price::default();
        }
        let link = &self.cluster.levels[0].link;
        let seconds = if group.levels[0].members == members {
            let bytes = Bytes(copied(collective, members as f64) as u64);
            link.latency * (meetings(collective.kind) * collective.messages as f64) + bytes.at(link.bandwidth)
        } else {
            group.time(collective).seconds
        };
        self.shared(seconds, 1.0, collective.bytes * 2)
    }

    /// The price of a message between stages: the receiver copies it.
    pub fn message(&self, bytes: Bytes) -> Price {
        let link = &self.cluster.levels[0].link;
        self.shared(bytes.at(link.bandwidth) + link.latency * 2.0, 1.0, bytes * 2)
    }

    fn copy(&self, bytes: Bytes, way: Resource) -> Price {
        let link = &self.cluster.host_link;
        self.shared(bytes.at(link.bandwidth) + link.latency, 1.0, bytes * 2).demanding(way, 1.0)
    }

    /// Arithmetic, and laying out both factors.
    fn product(&self, product: &Linear) -> Seconds {
        let factors =
            product.batch * product.depth * (product.rows + product.columns) * product.element.size();
        gemm::arithmetic(product, self.device) + Bytes(factors).at(self.model.packing.value)
    }

    fn attention(&self, core: &AttentionCore) -> Seconds {
        let (flops, pairs) = tiled(core, self.model.attention_tile.value);
        let attention = &self.device.attention;
        let (efficiency, score) = match core.pass {
            CorePass::Forward => (attention.forward_efficiency.value, self.model.score_time.value),
            CorePass::Backward => (attention.backward_efficiency.value, self.model.score_time_backward.value),
        };
        flops.at(self.device.peak(self.compute) * efficiency) + score * pairs
    }

    /// Time of one core over `bytes` of operands of `op`.
    fn streamed(&self, op: &Op, bytes: Bytes) -> Seconds {
        let known = op.kernel_kind().and_then(|kind| self.device.kernels.get(&kind));
        let general = self.device.memory_bandwidth.value * self.device.memory_bound.efficiency.value;
        bytes.at(known.map_or(general, |rates| rates.rate(self.compute)))
    }

    /// A kernel of `work` on one core, by all threads of its rank.
    fn kernel(&self, work: Seconds, bytes: Bytes) -> Price {
        let mut seconds = work + self.device.kernel_time.value;
        if self.threads > 1.0 {
            let serial = self.model.serial_share.value;
            seconds = work * (serial + (1.0 - serial) / self.threads)
                + self.device.kernel_time.value
                + self.model.dispatch.value;
        }
        self.shared(seconds, self.threads, bytes)
    }

    /// `seconds` of `threads` threads in each of the like ranks. What asks for more than there is takes longer.
    fn shared(&self, seconds: Seconds, threads: f64, bytes: Bytes) -> Price {
        let cores = self.alike * threads / self.cores;
        let seconds = seconds * cores.max(1.0);
        let loads = if bytes.0 > self.model.cache.value.0 { bytes } else { Bytes::ZERO };
        let moved = loads.at(self.device.memory_bandwidth.value)
            * (self.alike / f64::from(self.cluster.nodes.max(1)));
        let seconds = seconds.max(moved);
        if seconds.0 <= 0.0 {
            return Price::default();
        }
        Price::alone(seconds)
            .demanding(Resource::Multiprocessors, cores)
            .demanding(Resource::Memory, moved.0 / seconds.0)
    }
}
