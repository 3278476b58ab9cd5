//! The mesh: the ranks as a grid of the parallel axes, and the process groups read off it.

use super::{Axis, MeshOrder, Strategy};
use crate::ops;

/// Every axis, in the default order.
const AXES: [Axis; 5] = [Axis::Tensor, Axis::Context, Axis::Shard, Axis::Replica, Axis::Pipeline];

/// Sizes and strides of the axes. A rank is the sum over the axes of coordinate times stride.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// Indexed by axis, as are the strides.
    sizes: [u64; 5],
    strides: [u64; 5],
    /// Ranks that share one expert, and expert groups' sizes.
    expert_tensor: u64,
    expert: u64,
}

/// A kind of process group; each partitions the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Splits matrices; with sequence parallelism, sequences too. Members by tensor coordinate.
    Tensor,
    /// Splits sequences in attention.
    Context,
    /// Passes activations on; members by stage.
    Pipeline,
    /// Takes different sequences; members by data rank.
    Data,
    /// Shares one copy of dense state: context ranks times the shard group, context fastest.
    Shard,
    /// Holds the same shard of dense state.
    Replica,
    /// All ranks that sum the gradients of the same dense parameters: context, shard and replica.
    Gradient,
    /// All ranks of a pipeline stage, ascending.
    Stage,
    /// Shares one expert: runs of `etp` neighbours in a stage.
    ExpertTensor,
    /// Exchanges tokens: the ranks of a run of `etp * ep` neighbours in a stage that have the same place in
    /// their expert; members by expert.
    Expert,
    /// Ranks of a stage that hold the same part of the same experts: sum their gradients.
    ExpertData,
    /// Neighbours among these that shard the state of their experts: all, or one shard group's.
    ExpertShard,
    /// Those of `ExpertData` that hold the same shard.
    ExpertReplica,
}

impl Group {
    /// The group that a collective's `group` is on a mesh; none for those that are no grid of axes: the two ranks of
    /// a tied table, and all ranks.
    pub const fn of(group: ops::Group) -> Option<Self> {
        Some(match group {
            ops::Group::Tensor => Self::Tensor,
            ops::Group::Context => Self::Context,
            ops::Group::Expert => Self::Expert,
            ops::Group::ExpertTensor => Self::ExpertTensor,
            ops::Group::State => Self::Shard,
            ops::Group::Replica => Self::Replica,
            ops::Group::Gradient => Self::Gradient,
            ops::Group::ExpertState => Self::ExpertShard,
            ops::Group::ExpertReplica => Self::ExpertReplica,
            ops::Group::ExpertGradient => Self::ExpertData,
            ops::Group::Tied | ops::Group::World => return None,
        })
    }
}

impl MeshOrder {
    /// Whether each axis occurs once.
    pub fn is_permutation(self) -> bool {
        AXES.iter().all(|axis| self.0.contains(axis))
    }

    /// The same mesh, with each axis of size 1 (by `size`) back at its default place: it moves no rank.
    pub fn normalised(self, size: impl Fn(Axis) -> u64) -> Self {
        let mut axes: Vec<Axis> = self.0.into_iter().filter(|&axis| size(axis) > 1).collect();
        for axis in AXES.into_iter().filter(|&axis| size(axis) <= 1) {
            let place = |axis| axes.iter().position(|&other| other == axis);
            let after = |axis| place(axis).map_or(0, |place| place + 1);
            let place = match axis {
                Axis::Tensor => 0,
                Axis::Context => after(Axis::Tensor),
                // Beside each other they are written as one.
                Axis::Shard => place(Axis::Replica).unwrap_or_else(|| after(Axis::Context)),
                Axis::Replica => after(Axis::Shard),
                Axis::Pipeline => axes.len(),
            };
            axes.insert(place, axis);
        }
        axes.try_into().map_or(self, Self)
    }
}

impl Mesh {
    /// Lays the ranks out. The strategy must be legal.
    pub fn new(strategy: &Strategy) -> Self {
        let sizes = AXES.map(|axis| strategy.size(axis));
        let mut strides = [1; 5];
        let mut stride = 1;
        for axis in strategy.order.0 {
            strides[axis as usize] = stride;
            stride *= sizes[axis as usize];
        }
        Self { sizes, strides, expert_tensor: strategy.expert_tensor, expert: strategy.expert }
    }

    /// All ranks.
    pub fn ranks(&self) -> u64 {
        self.sizes.iter().product()
    }

    /// Ranks along `axis`.
    pub const fn size(&self, axis: Axis) -> u64 {
        self.sizes[axis as usize]
    }

    /// How far neighbours along `axis` are apart in rank.
    pub const fn stride(&self, axis: Axis) -> u64 {
        self.strides[axis as usize]
    }

    /// Where `rank` is along `axis`.
    pub const fn coordinate(&self, rank: u64, axis: Axis) -> u64 {
        rank / self.stride(axis) % self.size(axis)
    }

    /// The rank at these coordinates; axes that are left out are at 0.
    pub fn rank(&self, coordinates: &[(Axis, u64)]) -> u64 {
        coordinates.iter().map(|&(axis, coordinate)| coordinate * self.stride(axis)).sum()
    }

    /// Which share of the sequences `rank` takes: replica times shard size plus shard index.
    pub const fn data_rank(&self, rank: u64) -> u64 {
        self.coordinate(rank, Axis::Replica) * self.size(Axis::Shard) + self.coordinate(rank, Axis::Shard)
    }

    /// The ranks that differ from `rank` along `axes` only, itself among them; the first axis varies fastest.
    pub fn along(&self, axes: &[Axis], rank: u64) -> Vec<u64> {
        let origin = axes
            .iter()
            .fold(rank, |origin, &axis| origin - self.coordinate(origin, axis) * self.stride(axis));
        let mut members = vec![origin];
        for &axis in axes {
            let row = members.clone();
            for coordinate in 1..self.size(axis) {
                members.extend(row.iter().map(|member| member + coordinate * self.stride(axis)));
            }
        }
        members
    }

    /// The group of kind `kind` that `rank` is in.
    pub fn group(&self, kind: Group, rank: u64) -> Vec<u64> {
        use Axis::{Context, Pipeline, Replica, Shard, Tensor};
        match kind {
            Group::Tensor => self.along(&[Tensor], rank),
            Group::Context => self.along(&[Context], rank),
            Group::Pipeline => self.along(&[Pipeline], rank),
            Group::Data => self.along(&[Shard, Replica], rank),
            Group::Shard => self.along(&[Context, Shard], rank),
            Group::Replica => self.along(&[Replica], rank),
            Group::Gradient => self.along(&[Context, Shard, Replica], rank),
            Group::Stage => {
                let mut ranks = self.along(&[Tensor, Context, Shard, Replica], rank);
                ranks.sort_unstable();
                ranks
            }
            Group::ExpertTensor
            | Group::Expert
            | Group::ExpertData
            | Group::ExpertShard
            | Group::ExpertReplica => self.expert_group(kind, rank),
        }
    }

    /// How many of the ranks below `limit` are in the group of kind `kind` that rank 0 is in: at least as many as in
    /// any other run of `limit` ranks.
    pub fn members_below(&self, kind: Group, limit: u64) -> u64 {
        use Axis::{Context, Pipeline, Replica, Shard, Tensor};
        let along = |axes: &[Axis]| {
            let grid: Vec<(u64, u64)> =
                axes.iter().map(|&axis| (self.size(axis), self.stride(axis))).collect();
            below(&grid, limit)
        };
        let (inside, experts) = (self.expert_tensor, self.expert);
        let run = inside * experts;
        let members = |step: u64, count: u64| {
            // The members' places among the ranks of a stage.
            let places = (0..count).map(|member| self.stage_rank(member * step));
            places.take_while(|&rank| rank < limit).count() as u64
        };
        match kind {
            Group::Tensor => along(&[Tensor]),
            Group::Context => along(&[Context]),
            Group::Pipeline => along(&[Pipeline]),
            Group::Data => along(&[Shard, Replica]),
            Group::Shard => along(&[Context, Shard]),
            Group::Replica => along(&[Replica]),
            Group::Gradient => along(&[Context, Shard, Replica]),
            Group::Stage => along(&[Tensor, Context, Shard, Replica]),
            Group::ExpertTensor => members(1, inside),
            Group::Expert => members(inside, experts),
            Group::ExpertData => members(run, self.group_size(kind)),
            Group::ExpertShard => members(run, self.group_size(kind)),
            Group::ExpertReplica => members(run * self.group_size(Group::ExpertShard), self.group_size(kind)),
        }
    }

    /// The rank at place `place` among those of the first stage, ascending.
    const fn stage_rank(&self, place: u64) -> u64 {
        let stride = self.stride(Axis::Pipeline);
        place / stride * stride * self.size(Axis::Pipeline) + place % stride
    }

    /// Members of a group of kind `kind`; all groups of a kind have the same size.
    pub fn group_size(&self, kind: Group) -> u64 {
        let data = self.size(Axis::Shard) * self.size(Axis::Replica);
        let stage = self.size(Axis::Tensor) * self.size(Axis::Context) * data;
        let expert_data = stage / (self.expert_tensor * self.expert);
        match kind {
            Group::Tensor => self.size(Axis::Tensor),
            Group::Context => self.size(Axis::Context),
            Group::Pipeline => self.size(Axis::Pipeline),
            Group::Data => data,
            Group::Shard => self.size(Axis::Context) * self.size(Axis::Shard),
            Group::Replica => self.size(Axis::Replica),
            Group::Gradient => self.size(Axis::Context) * data,
            Group::Stage => stage,
            Group::ExpertTensor => self.expert_tensor,
            Group::Expert => self.expert,
            Group::ExpertData => expert_data,
            Group::ExpertShard => self.expert_shard(expert_data),
            Group::ExpertReplica => expert_data / self.expert_shard(expert_data),
        }
    }

    /// Every group of kind `kind`, by its lowest rank.
    pub fn groups(&self, kind: Group) -> Vec<Vec<u64>> {
        let mut is_placed = vec![false; self.ranks() as usize];
        let mut groups = Vec::new();
        for rank in 0..self.ranks() {
            if !is_placed[rank as usize] {
                let group = self.group(kind, rank);
                group.iter().for_each(|&member| is_placed[member as usize] = true);
                groups.push(group);
            }
        }
        groups
    }

    /// Whether every group of kind `kind` lies inside a block of `node` neighbouring ranks.
    pub fn is_inside(&self, kind: Group, node: u64) -> bool {
        (0..self.ranks()).all(|rank| {
            let group = self.group(kind, rank);
            group.iter().all(|member| member / node == rank / node)
        })
    }

    /// Ranks over which the state of one expert part is sharded: of the ranks that hold it, one replica's share.
    const fn expert_shard(&self, expert_data: u64) -> u64 {
        let replicas = self.size(Axis::Replica);
        // Only where no state is sharded do they not divide.
        if expert_data.is_multiple_of(replicas) { expert_data / replicas } else { expert_data }
    }

    fn expert_group(&self, kind: Group, rank: u64) -> Vec<u64> {
        let stage = self.group(Group::Stage, rank);
        let place = stage.iter().position(|&member| member == rank).unwrap_or_default() as u64;
        let (inside, experts) = (self.expert_tensor, self.expert);
        let run = inside * experts;
        let holders = stage.len() as u64 / run;
        let shard = self.expert_shard(holders);
        let (first, count, step) = match kind {
            Group::ExpertTensor => (place - place % inside, inside, 1),
            Group::Expert => (place - place % run + place % inside, experts, inside),
            Group::ExpertShard => {
                let holder = place / run;
                ((holder - holder % shard) * run + place % run, shard, run)
            }
            Group::ExpertReplica => (place / run % shard * run + place % run, holders / shard, shard * run),
            _ => (place % run, holders, run),
        };
        (0..count).map(|member| stage[(first + member * step) as usize]).collect()
    }
}

/// How many points of a grid of (size, stride) axes lie below `limit`.
fn below(grid: &[(u64, u64)], limit: u64) -> u64 {
    let Some((&(size, stride), rest)) = grid.split_last() else { return u64::from(limit > 0) };
    let farthest = grid.iter().map(|(size, stride)| (size - 1) * stride).sum::<u64>();
    if farthest < limit {
        return grid.iter().map(|(size, _)| size).product();
    }
    let coordinates = (0..size).take_while(|coordinate| coordinate * stride < limit);
    coordinates.map(|coordinate| below(rest, limit - coordinate * stride)).sum()
}

impl Strategy {
    /// Ranks along `axis`.
    pub const fn size(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Tensor => self.tensor,
            Axis::Context => self.context,
            Axis::Shard => self.shard,
            Axis::Replica => self.replicas(),
            Axis::Pipeline => self.pipeline,
        }
    }
}

#[cfg(test)]
mod tests;
