//! The mesh of MaxText: of each axis a part inside a node (ICI) and a part between nodes (DCN).

use crate::strategy::{Axis, MeshOrder, Strategy};

/// The axes in the order of [`Axis`].
pub const AXES: [Axis; 5] = [Axis::Tensor, Axis::Context, Axis::Shard, Axis::Replica, Axis::Pipeline];

/// How much of each axis lies inside a node, and how much between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub inside: [u64; 5],
    pub between: [u64; 5],
}

impl Parts {
    /// The parts of the axes of `strategy`, laid over nodes in its order; none where an axis does not split at the
    /// node's edge.
    pub fn of(strategy: &Strategy, devices_per_node: u64) -> Option<Self> {
        let mut parts = Self { inside: [1; 5], between: [1; 5] };
        let mut room = devices_per_node;
        for axis in strategy.order.0 {
            let size = strategy.size(axis);
            if size == 0 {
                return None;
            } else if room.is_multiple_of(size) {
                parts.inside[axis as usize] = size;
                room /= size;
            } else if size.is_multiple_of(room) {
                parts.inside[axis as usize] = room;
                parts.between[axis as usize] = size / room;
                room = 1;
            } else {
                return None;
            }
        }
        (room == 1).then_some(parts)
    }

    /// The order of axes that these parts mean; none where no order does. Nodes are numbered as the mesh of JAX has them:
    /// tensor fastest, then context, FSDP, stage, data (e591f30cb `configs/base.yml:531`; `create_hybrid_device_mesh`).
    /// Inside a node all devices are alike, so the default order stands there. Without FSDP the shard group is MaxText's
    /// data axis.
    pub fn order(&self, has_fsdp: bool) -> Option<MeshOrder> {
        let nodes = match has_fsdp {
            true => [Axis::Tensor, Axis::Context, Axis::Shard, Axis::Pipeline, Axis::Replica],
            false => [Axis::Tensor, Axis::Context, Axis::Pipeline, Axis::Shard, Axis::Replica],
        };
        let inside = |axis: &Axis| self.inside[*axis as usize] > 1;
        let between = |axis: &Axis| self.between[*axis as usize] > 1;
        let mut order: Vec<Axis> = AXES.into_iter().filter(|axis| inside(axis) && !between(axis)).collect();
        let mut split = AXES.into_iter().filter(|axis| inside(axis) && between(axis));
        let slow: Vec<Axis> = nodes.into_iter().filter(between).collect();
        match (split.next(), split.next()) {
            (_, Some(_)) => return None,
            // What is cut at the node's edge has one number only if it is the first between nodes.
            (Some(cut), None) if slow.first() != Some(&cut) => return None,
            _ => {}
        }
        order.extend(slow);
        let rest: Vec<Axis> = AXES.into_iter().filter(|axis| !order.contains(axis)).collect();
        order.extend(rest);
        order.try_into().ok().map(MeshOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_that_is_cut_at_the_edge_of_a_node_is_the_first_between_nodes() {
        let parts = |inside, between| Parts { inside, between };
        // tp 2 and FSDP inside, FSDP and stages between.
        let order = parts([2, 1, 4, 1, 1], [1, 1, 2, 1, 2]).order(true).unwrap();
        assert_eq!(order.0[..3], [Axis::Tensor, Axis::Shard, Axis::Pipeline]);
        // Data inside and between, but FSDP is nearer between: no order of axes says it.
        assert_eq!(parts([1, 1, 1, 2, 1], [1, 1, 2, 2, 1]).order(true), None);
        // Two axes are cut.
        assert_eq!(parts([2, 1, 2, 1, 1], [2, 1, 2, 1, 1]).order(true), None);
    }
}
