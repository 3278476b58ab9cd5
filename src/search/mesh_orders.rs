//! Mesh orders: all ways to lay the axes over the ranks, and those among them that may win.

use crate::cluster::Cluster;
use crate::strategy::mesh::{Group, Mesh};
use crate::strategy::{Axis, MeshOrder, Strategy};

/// Groups that something is sent in.
const GROUPS: [Group; 11] = [
    Group::Tensor,
    Group::Context,
    Group::Pipeline,
    Group::Shard,
    Group::Replica,
    Group::Gradient,
    Group::ExpertTensor,
    Group::Expert,
    Group::ExpertData,
    Group::ExpertShard,
    Group::ExpertReplica,
];

/// The orders of the mesh of `strategy` that no other is as good as: an order that has in every domain of every level
/// as many members of each group, and neighbouring stages no farther apart, takes no longer for anything. The default
/// is among them, or something as good.
pub fn undominated(cluster: &Cluster, strategy: &Strategy) -> Vec<MeshOrder> {
    let mut list: Vec<(MeshOrder, Vec<u64>)> = Vec::new();
    for order in all(strategy) {
        let nearness = nearness(cluster, &Strategy { order, ..strategy.clone() });
        let covers = |one: &[u64], other: &[u64]| one.iter().zip(other).all(|(one, other)| one >= other);
        if list.iter().any(|(_, known)| covers(known, &nearness)) {
            continue;
        }
        list.retain(|(_, known)| !covers(&nearness, known));
        list.push((order, nearness));
    }
    list.into_iter().map(|(order, _)| order).collect()
}

/// All orders, the default first.
pub fn all(strategy: &Strategy) -> Vec<MeshOrder> {
    let mut orders = vec![Vec::new()];
    let active = || MeshOrder::default().0.into_iter().filter(|&axis| strategy.size(axis) > 1);
    for axis in active() {
        orders = orders
            .iter()
            .flat_map(|order: &Vec<Axis>| {
                (0..=order.len()).rev().map(move |place| {
                    let mut longer = order.clone();
                    longer.insert(place, axis);
                    longer
                })
            })
            .collect();
    }
    let whole = |mut order: Vec<Axis>| {
        let rest = MeshOrder::default().0.into_iter().filter(|axis| !order.contains(axis));
        let rest: Vec<Axis> = rest.collect();
        order.extend(rest);
        let order: [Axis; 5] = order.try_into().ok()?;
        Some(MeshOrder(order).normalised(|axis| strategy.size(axis)))
    };
    orders.into_iter().filter_map(whole).collect()
}

/// How near each other the members of groups are: the more, the nearer.
fn nearness(cluster: &Cluster, strategy: &Strategy) -> Vec<u64> {
    let mesh = Mesh::new(strategy);
    let members = |group| cluster.levels.iter().map(move |level| (group, level.span));
    let members = GROUPS.into_iter().flat_map(members).map(|(group, span)| mesh.members_below(group, span));
    members.chain([u64::MAX - mesh.stride(Axis::Pipeline)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Draft;
    use crate::units::ElementType;

    fn strategy(text: &str, devices: u64) -> Strategy {
        let model = crate::model::load("gpt3-175b").expect("built in");
        let engine = crate::profile::engines::engine("megatron-lm").expect("built in");
        let workload = crate::strategy::Workload {
            global_batch: 512,
            seq_len: 2048,
            precision: ElementType::Bf16,
            dropout: 0.0,
            clip: 1.0,
        };
        let draft = Draft::parse(text).expect("legal");
        crate::strategy::resolve(&draft, &model, devices, &workload, engine).expect("legal")
    }

    #[test]
    fn every_order_is_there_once() {
        let wide = strategy("tp=4,pp=4,dp=8,zero=1,shard=4", 128);
        let mut orders = all(&wide);
        assert_eq!((orders[0], orders.len()), (MeshOrder::default(), 24));
        orders.sort_by_key(|order| order.0.map(|axis| axis as usize));
        orders.dedup();
        assert_eq!(orders.len(), 24);
        assert_eq!(all(&strategy("tp=8,pp=16,dp=1", 128)).len(), 2);
    }

    #[test]
    fn an_order_that_only_tears_groups_apart_is_left_out() {
        let cluster = crate::cluster::load("16x8xh100-sxm").expect("built in");
        // One tensor group fills a node: nothing is gained if it is torn apart but a hop between stages.
        let orders = undominated(&cluster, &strategy("tp=8,pp=16,dp=1", 128));
        assert!(orders.contains(&MeshOrder::default()));
        assert!(orders.len() <= 2);
    }
}
