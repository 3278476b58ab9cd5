//! The price of every op on a cluster: how long it takes alone, and what share of each resource it takes meanwhile.

use crate::cluster::Cluster;
use crate::cost::collective::{GroupShape, Transfer};
use crate::cost::cores::CorePricing;
use crate::ops::{Collective, CollectiveKind, Group, Op};
use crate::profile::EngineProfile;
use crate::profile::engine::TimingModel;
use crate::strategy::mesh::{Group as MeshGroup, Mesh};
use crate::strategy::{Axis, Strategy};
use crate::units::{Bytes, ElementType, Seconds};

/// What instructions of a rank compete for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Multiprocessors,
    Memory,
    CopyOut,
    CopyIn,
    Host,
    /// Links of the first four levels.
    Level0,
    Level1,
    Level2,
    Level3,
}

/// Levels of links that are shared.
pub const LEVELS: usize = 4;

/// Shares of the links of each level.
pub type Links = [f64; LEVELS];

impl Resource {
    /// Number of resources.
    pub const COUNT: usize = 9;
    const LEVELS: [Self; LEVELS] = [Self::Level0, Self::Level1, Self::Level2, Self::Level3];
}

/// A duration alone on the machine, and the share of each resource taken meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    pub seconds: Seconds,
    pub demand: [f64; Resource::COUNT],
}

impl Price {
    /// The shares of links that are taken.
    pub fn links(&self) -> Links {
        Resource::LEVELS.map(|level| self.demand[level as usize])
    }

    /// A price that competes for nothing.
    pub fn alone(seconds: Seconds) -> Self {
        Self { seconds, demand: [0.0; Resource::COUNT] }
    }

    /// Seconds of all multiprocessors that it takes.
    pub fn busy(&self) -> Seconds {
        self.seconds * self.demand[Resource::Multiprocessors as usize]
    }

    pub(super) fn demanding(mut self, resource: Resource, share: f64) -> Self {
        self.demand[resource as usize] = share.clamp(0.0, 1.0);
        self
    }
}

/// Puts prices on ops; tests bring their own.
pub trait Pricing {
    /// The price of `op` on a rank of pipeline stage `stage`.
    fn price(&self, op: &Op, stage: u32) -> Price;

    /// The price of sending `bytes` from stage `from` to stage `to`.
    fn send(&self, bytes: Bytes, from: u32, to: u32) -> Price;

    /// Time that the host takes to issue the kernels of `op`.
    fn host_time(&self, _op: &Op) -> Seconds {
        Seconds::ZERO
    }

    /// The share of the multiprocessors that a collective takes from kernels which would fill them.
    fn beside(&self) -> f64 {
        0.0
    }

    /// Whether the ranks of all stages compete for one set of resources, and not each for its own.
    fn shares_machine(&self) -> bool {
        false
    }
}

/// Queued kernels in whose time a host issues one product from compiled code. An estimate: a library call that chooses
/// an algorithm and launches takes about 10 µs, which is what the smallest eager kernel of PyTorch took on an H200.
const LAUNCHES_OF_A_PRODUCT: f64 = 4.0;

/// Prices on a host that is never late. A pass that its host issues too slowly is stretched as a whole, and one kernel
/// more may then shorten others.
pub struct NeverLate<'a>(pub &'a dyn Pricing);

impl Pricing for NeverLate<'_> {
    fn price(&self, op: &Op, stage: u32) -> Price {
        self.0.price(op, stage)
    }

    fn send(&self, bytes: Bytes, from: u32, to: u32) -> Price {
        self.0.send(bytes, from, to)
    }

    fn beside(&self) -> f64 {
        self.0.beside()
    }

    fn shares_machine(&self) -> bool {
        self.0.shares_machine()
    }
}

/// Prices under which nothing slows anything down: the host is never late, and ops compete for nothing. Each instruction
/// then ends when the last one that it waits for has ended, and its own time is over. So a step never ends later than
/// the same step with more work, or more waits, as it is played in truth.
pub struct Unhindered<'a>(pub &'a dyn Pricing);

impl Pricing for Unhindered<'_> {
    fn price(&self, op: &Op, stage: u32) -> Price {
        Price::alone(self.0.price(op, stage).seconds)
    }

    fn send(&self, bytes: Bytes, from: u32, to: u32) -> Price {
        Price::alone(self.0.send(bytes, from, to).seconds)
    }
}

/// All groups, in the order of their numbers.
const GROUPS: [Group; Group::COUNT] = [
    Group::Tensor,
    Group::Context,
    Group::Expert,
    Group::ExpertTensor,
    Group::State,
    Group::Replica,
    Group::Gradient,
    Group::ExpertState,
    Group::ExpertReplica,
    Group::ExpertGradient,
    Group::Tied,
    Group::World,
];

/// Prices by a cluster's cost model, with the groups of a strategy's mesh.
pub struct DevicePricing<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) timing: &'a TimingModel,
    pub(super) compute: ElementType,
    /// By group.
    groups: Vec<GroupShape>,
    /// The hop between neighbouring stages, by the lower stage; the last is from the last stage to the first.
    hops: Vec<GroupShape>,
    /// Ranks that a message between stages is cut over, to be gathered on arrival.
    message_parts: u64,
    /// Whether products of experts are kernels of their own, on several streams.
    pub(super) runs_experts_apart: bool,
    /// Where ranks share the cores of a machine.
    cores: Option<CorePricing<'a>>,
}

impl<'a> DevicePricing<'a> {
    /// Prices for `strategy` on `cluster` as `engine` runs it, activations in `compute`.
    pub fn new(
        cluster: &'a Cluster,
        engine: &'a EngineProfile,
        strategy: &Strategy,
        compute: ElementType,
    ) -> Self {
        let mesh = Mesh::new(strategy);
        let stage = |stage: u64| mesh.rank(&[(Axis::Pipeline, stage)]);
        let last = strategy.pipeline - 1;
        let groups = GROUPS.map(|group| match (MeshGroup::of(group), group) {
            (Some(kind), _) => worst(cluster, &mesh, strategy, kind),
            (None, Group::Tied) => GroupShape::new(cluster, &[stage(0), stage(last)]),
            (None, _) => GroupShape::whole(cluster),
        });
        let hops = (0..strategy.pipeline)
            .map(|from| {
                let to = (from + 1) % strategy.pipeline;
                let mut pair = vec![stage(from), stage(to)];
                pair.dedup();
                GroupShape::new(cluster, &pair)
            })
            .collect();
        Self::with(cluster, engine, strategy, compute, (groups.into(), hops))
    }

    /// Prices that no order of the mesh can undercut: every group as if its members were neighbours on the fastest
    /// links.
    pub fn anywhere(
        cluster: &'a Cluster,
        engine: &'a EngineProfile,
        strategy: &Strategy,
        compute: ElementType,
    ) -> Self {
        let mesh = Mesh::new(strategy);
        let groups = GROUPS.map(|group| {
            let pipelined = strategy.pipeline.min(2);
            let size = match (MeshGroup::of(group), group) {
                (Some(kind), _) => mesh.group_size(kind),
                (None, Group::Tied) => pipelined,
                (None, _) => return GroupShape::whole(cluster),
            };
            GroupShape::neighbours(cluster, size)
        });
        let hop = GroupShape::neighbours(cluster, strategy.pipeline.min(2));
        let hops = vec![hop; strategy.pipeline as usize];
        Self::with(cluster, engine, strategy, compute, (groups.into(), hops))
    }

    fn with(
        cluster: &'a Cluster,
        engine: &'a EngineProfile,
        strategy: &Strategy,
        compute: ElementType,
        (groups, hops): (Vec<GroupShape>, Vec<GroupShape>),
    ) -> Self {
        let cores = CorePricing::new(cluster, strategy, compute);
        let timing = &engine.timing;
        let is_whole = strategy.tensor > 1 && !strategy.sequence_parallel;
        let message_parts = if timing.scatters_messages && is_whole { strategy.tensor } else { 1 };
        let runs_experts_apart = engine.buffers.expert_streams > 0;
        Self { cluster, timing, compute, groups, hops, message_parts, runs_experts_apart, cores }
    }

    /// The shapes of the groups that layers send in; others move state.
    pub fn layer_groups(&self) -> [&GroupShape; 4] {
        [Group::Tensor, Group::Context, Group::Expert, Group::ExpertTensor].map(|group| self.group(group))
    }

    /// The shape of `group`.
    fn group(&self, group: Group) -> &GroupShape {
        &self.groups[group as usize]
    }

    fn transfer(&self, transfer: &Transfer, bytes: Bytes, messages: u64) -> Price {
        let device = &self.cluster.device;
        if transfer.seconds.0 <= 0.0 {
            return Price::default();
        }
        let seconds = transfer.seconds + device.kernel_time.value * messages as f64;
        let memory = (bytes * 2).at(device.memory_bandwidth.value).0 / seconds.0;
        let mut price = Price::alone(seconds)
            .demanding(Resource::Multiprocessors, device.collective_share.value)
            .demanding(Resource::Memory, memory);
        for (level, busy) in transfer.busy.iter().enumerate().take(Resource::LEVELS.len()) {
            price = price.demanding(Resource::LEVELS[level], busy / seconds.0);
        }
        price
    }
}

/// The shape of the groups of one kind: the first group's members, the slowest links of any group.
fn worst(cluster: &Cluster, mesh: &Mesh, strategy: &Strategy, kind: MeshGroup) -> GroupShape {
    if cluster.levels.iter().all(|level| level.slower.is_empty()) {
        return GroupShape::on(cluster, |span| mesh.members_below(kind, span));
    }
    let first = GroupShape::new(cluster, &mesh.group(kind, 0));
    (0..strategy.devices()).fold(first, |mut worst, rank| {
        let other = GroupShape::new(cluster, &mesh.group(kind, rank));
        for (level, other) in worst.levels.iter_mut().zip(other.levels) {
            level.bandwidth = level.bandwidth.min(other.bandwidth);
        }
        worst
    })
}

impl Pricing for DevicePricing<'_> {
    fn price(&self, op: &Op, _stage: u32) -> Price {
        let device = &self.cluster.device;
        if let Some(cores) = &self.cores {
            return match op {
                Op::Collective(collective) => cores.collective(collective, self.group(collective.group)),
                _ => cores.price(op),
            };
        }
        match op {
            Op::Linear(product) => self.product(op, product),
            Op::Attention(core) => self.attention(core),
            Op::AdamW(step) if step.on_host => {
                let host = &self.cluster.host;
                let share = host.memory_bandwidth * device.host.optimizer_efficiency.value
                    / f64::from(self.cluster.devices_per_node.max(1));
                Price::alone(op.bytes_moved().at(share)).demanding(Resource::Host, 1.0)
            }
            Op::Collective(collective) => {
                let group = self.group(collective.group);
                let price = self.transfer(&group.time(collective), collective.bytes, collective.messages);
                let hidden = match collective.group {
                    Group::Tensor => self.timing.tensor_hidden.value,
                    Group::Expert => self.timing.exchange_hidden.as_ref().map_or(0.0, |hidden| hidden.value),
                    _ => 0.0,
                };
                Price { seconds: price.seconds * (1.0 - hidden), ..price }
            }
            Op::CopyOut(bytes) | Op::CopyIn(bytes) => {
                let link = &self.cluster.host_link;
                let seconds = bytes.at(link.bandwidth) + link.latency;
                let resource =
                    if matches!(op, Op::CopyOut(_)) { Resource::CopyOut } else { Resource::CopyIn };
                let memory = bytes.at(device.memory_bandwidth.value).0 / seconds.0;
                Price::alone(seconds).demanding(resource, 1.0).demanding(Resource::Memory, memory)
            }
            Op::AdamW(_) => {
                let price = self.streamed(op);
                Price { seconds: price.seconds + self.timing.step_time.value, ..price }
            }
            Op::Send(_) | Op::Receive(_) | Op::Release => Price::default(),
            _ => self.streamed(op),
        }
    }

    fn host_time(&self, op: &Op) -> Seconds {
        // Where ranks are threads, the cores that issue kernels are those that run them.
        if self.cores.is_some() {
            return Seconds::ZERO;
        }
        match op {
            Op::Release => Seconds::ZERO,
            Op::Send(_) | Op::Receive(_) => self.timing.collective_host_time.value,
            Op::Collective(collective) => {
                // The members of a node wait for the last of their hosts: the more there are, the later it is.
                let members = self.group(collective.group).size();
                if members <= 1 {
                    return Seconds::ZERO;
                }
                let together = members.min(u64::from(self.cluster.devices_per_node));
                let messages = collective.messages as f64;
                self.timing.collective_host_time.value * (together as f64 / 2.0 * messages)
            }
            // One call issues the products of all experts.
            Op::Linear(_) => {
                let others = LAUNCHES_OF_A_PRODUCT * (self.kernels(op) - 1.0);
                self.timing.host_time.value + self.cluster.device.kernel_time.value * others
            }
            _ => self.timing.host_time.value * self.kernels(op),
        }
    }

    fn beside(&self) -> f64 {
        if self.cores.is_some() { 0.0 } else { self.cluster.device.collective_share.value }
    }

    fn shares_machine(&self) -> bool {
        self.cores.is_some()
    }

    fn send(&self, bytes: Bytes, from: u32, to: u32) -> Price {
        if let Some(cores) = &self.cores {
            return cores.message(bytes);
        }
        if from == to {
            return self.memory_bound(bytes * 2);
        }
        let last = self.hops.len() as u32 - 1;
        let hop = match (from.min(to), from.max(to)) {
            (0, highest) if highest == last && last > 1 => last,
            (lowest, _) => lowest,
        };
        let part = Bytes(bytes.0.div_ceil(self.message_parts));
        let mut price = self.transfer(&self.hops[hop as usize].point_to_point(part), part, 1);
        if self.message_parts > 1 {
            let kind = CollectiveKind::AllGather;
            let gather = Op::Collective(Collective::new(kind, Group::Tensor, bytes));
            let seconds = price.seconds + self.price(&gather, to).seconds;
            price.demand = price.demand.map(|demand| demand * (price.seconds.0 / seconds.0));
            price.seconds = seconds;
        }
        // NICs and copy engines move it: no multiprocessors are held, and of the memory bandwidth a few per cent,
        // which are not counted.
        price.demand[Resource::Multiprocessors as usize] = 0.0;
        price.demand[Resource::Memory as usize] = 0.0;
        price
    }
}
