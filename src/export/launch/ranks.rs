//! Which rank of the engine runs on which device, where the plan's mesh is not in the engine's order.

use crate::strategy::{Axis, MeshOrder, Strategy};

/// The axes of a mesh.
const AXES: [Axis; 5] = [Axis::Tensor, Axis::Context, Axis::Shard, Axis::Replica, Axis::Pipeline];

/// The engine's rank on each device, devices in the order of nodes; none where each has its own number. The engine
/// numbers its ranks in `order`, the plan lays its mesh in the strategy's.
pub fn ranks(strategy: &Strategy, order: MeshOrder) -> Option<Vec<u64>> {
    let size = |axis| strategy.size(axis);
    if strategy.order.normalised(size) == order.normalised(size) {
        return None;
    }
    Some(placed(&AXES.map(size), strategy.order, order))
}

/// The rank in `theirs` of each rank in `ours`, for axes of these sizes (in the order of [`AXES`]).
fn placed(sizes: &[u64; 5], ours: MeshOrder, theirs: MeshOrder) -> Vec<u64> {
    let size = |axis: Axis| sizes[axis as usize];
    let rank = |device: u64| {
        let mut left = device;
        let mut coordinates = [0; 5];
        for axis in ours.0 {
            coordinates[axis as usize] = left % size(axis);
            left /= size(axis);
        }
        let mut stride = 1;
        let mut rank = 0;
        for axis in theirs.0 {
            rank += coordinates[axis as usize] * stride;
            stride *= size(axis);
        }
        rank
    };
    (0..sizes.iter().product()).map(rank).collect()
}

/// The mesh order that puts these ranks of the engine on devices in order; none where no order does.
pub fn order_of(sizes: impl Fn(Axis) -> u64, theirs: MeshOrder, ranks: &[u64]) -> Option<MeshOrder> {
    let sizes = AXES.map(sizes);
    orders().into_iter().find(|ours| placed(&sizes, *ours, theirs) == ranks)
}

/// All 120 orders.
fn orders() -> Vec<MeshOrder> {
    let mut orders: Vec<Vec<Axis>> = vec![Vec::new()];
    for axis in AXES {
        orders = orders
            .iter()
            .flat_map(|order| {
                (0..=order.len()).map(move |place| {
                    let mut longer = order.clone();
                    longer.insert(place, axis);
                    longer
                })
            })
            .collect();
    }
    orders.into_iter().filter_map(|order| order.try_into().ok().map(MeshOrder)).collect()
}
