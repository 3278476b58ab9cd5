//! Collectives over a process group.

use crate::units::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CollectiveKind {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    /// Each rank sends to its next neighbour and receives from the one before.
    RingShift,
}

impl CollectiveKind {
    /// The name that reports show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllToAll => "all-to-all",
            Self::RingShift => "ring shift",
        }
    }
}

/// The process group that a collective runs in, as seen from any of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    Tensor,
    Context,
    /// Ranks that exchange tokens for experts.
    Expert,
    /// Ranks that share one expert's matrices.
    ExpertTensor,
    /// Ranks that shard dense state: context × shard.
    State,
    /// Ranks that hold equal shards: one a sub-data-parallel group.
    Replica,
    /// Ranks that sum dense gradients: context × data.
    Gradient,
    /// Ranks that shard expert state.
    ExpertState,
    /// Ranks that hold equal shards of experts.
    ExpertReplica,
    /// Ranks that sum expert gradients.
    ExpertGradient,
    /// First and last pipeline rank, which share a tied table.
    Tied,
    World,
}

impl Group {
    /// All kinds of groups.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Tensor,
        Self::Context,
        Self::Expert,
        Self::ExpertTensor,
        Self::State,
        Self::Replica,
        Self::Gradient,
        Self::ExpertState,
        Self::ExpertReplica,
        Self::ExpertGradient,
        Self::Tied,
        Self::World,
    ];

    /// How many kinds of groups there are.
    pub const COUNT: usize = Self::World as usize + 1;
}

/// One collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Collective {
    pub kind: CollectiveKind,
    pub group: Group,
    /// The whole payload of one rank: what an all-gather ends with, a reduce-scatter starts with, an all-reduce
    /// or all-to-all works on, a shift sends.
    pub bytes: Bytes,
    /// Messages that it is sent in, one behind the other.
    pub messages: u64,
    /// Members that each element goes to. Those inside one domain of links share what comes from outside it.
    pub copies: u64,
}

impl Collective {
    /// A collective in one message.
    pub const fn new(kind: CollectiveKind, group: Group, bytes: Bytes) -> Self {
        Self { kind, group, bytes, messages: 1, copies: 1 }
    }
}
