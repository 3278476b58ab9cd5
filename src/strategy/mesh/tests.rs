//! Tests of the mesh: published layouts, and that groups partition the ranks.

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

use super::*;
use crate::strategy::sample::{dense, facts, moe};
use crate::strategy::{Draft, Strategy};

const KINDS: [Group; 13] = [
    Group::Tensor,
    Group::Context,
    Group::Pipeline,
    Group::Data,
    Group::Shard,
    Group::Replica,
    Group::Gradient,
    Group::Stage,
    Group::ExpertTensor,
    Group::Expert,
    Group::ExpertData,
    Group::ExpertShard,
    Group::ExpertReplica,
];

fn strategy(text: &str, devices: u64) -> Strategy {
    Draft::parse(text).unwrap().resolve(&facts(&moe(), devices, "embedded")).unwrap()
}

fn mesh(text: &str, devices: u64) -> Mesh {
    Mesh::new(&strategy(text, devices))
}

#[test]
fn sub_groups_of_two_are_neighbours_and_replicas_are_apart() {
    // ColossalAI issue 5521: zero over 4 ranks, sub-groups of 2.
    let mesh = mesh("zero=2,shard=2", 4);
    assert_eq!(mesh.groups(Group::Shard), [[0, 1], [2, 3]]);
    assert_eq!(mesh.groups(Group::Replica), [[0, 2], [1, 3]]);
    assert_eq!((0..4).map(|rank| mesh.data_rank(rank)).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn gemini_has_neighbouring_replicas() {
    // Its mesh is (zero, extra): zero groups are strided.
    let mesh = mesh("zero=3,shard=2,order=tp-cp-replica-shard-pp", 4);
    assert_eq!(mesh.groups(Group::Shard), [[0, 2], [1, 3]]);
    assert_eq!(mesh.groups(Group::Replica), [[0, 1], [2, 3]]);
    assert_eq!(mesh.group(Group::Data, 0), [0, 2, 1, 3]);
    assert_eq!((0..4).map(|rank| mesh.data_rank(rank)).collect::<Vec<_>>(), [0, 2, 1, 3]);
}

#[test]
fn the_default_order_is_megatrons() {
    // Megatron-LM, parallel_state.py, documented example: 16 devices, tp 2, pp 4.
    let mesh = mesh("tp=2,pp=4", 16);
    let expected = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11], [12, 13], [14, 15]];
    assert_eq!(mesh.groups(Group::Tensor), expected);
    let expected = [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9, 11], [12, 14], [13, 15]];
    assert_eq!(mesh.groups(Group::Data), expected);
    let expected = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]];
    assert_eq!(mesh.groups(Group::Pipeline), expected);
}

#[test]
fn shards_and_replicas_stand_in_two_places() {
    let mesh = mesh("tp=2,zero=3,shard=2,order=shard-tp-cp-replica-pp", 8);
    assert_eq!(mesh.groups(Group::Shard), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(mesh.groups(Group::Tensor), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(mesh.groups(Group::Replica), [[0, 4], [1, 5], [2, 6], [3, 7]]);
}

#[test]
fn context_ranks_shard_state_with_the_shard_group() {
    let mesh = mesh("cp=2,zero=1", 8);
    assert_eq!(mesh.groups(Group::Shard), [[0, 1, 2, 3, 4, 5, 6, 7]]);
    assert_eq!(mesh.groups(Group::Context), [[0, 1], [2, 3], [4, 5], [6, 7]]);
}

#[test]
fn experts_are_runs_of_neighbours_with_their_tensor_group_fastest() {
    let mesh = mesh("tp=2,ep=2,etp=2", 8);
    assert_eq!(mesh.groups(Group::ExpertTensor), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(mesh.groups(Group::Expert), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(mesh.groups(Group::ExpertData), [[0, 4], [1, 5], [2, 6], [3, 7]]);
}

#[test]
fn experts_of_a_strided_stage_are_neighbours_in_it() {
    let mesh = mesh("pp=2,ep=2,order=pp-tp-cp-dp", 8);
    assert_eq!(mesh.groups(Group::Stage), [[0, 2, 4, 6], [1, 3, 5, 7]]);
    assert_eq!(mesh.groups(Group::Expert), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(mesh.groups(Group::ExpertData), [[0, 4], [1, 5], [2, 6], [3, 7]]);
}

#[test]
fn expert_state_is_sharded_inside_a_replica() {
    let mesh = mesh("ep=2,zero=1,shard=4", 8);
    assert_eq!(mesh.groups(Group::ExpertData), [[0, 2, 4, 6], [1, 3, 5, 7]]);
    assert_eq!(mesh.groups(Group::ExpertShard), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(mesh.groups(Group::ExpertReplica), [[0, 4], [1, 5], [2, 6], [3, 7]]);
}

#[test]
fn groups_inside_a_node_are_told_from_those_across() {
    let mesh = mesh("tp=4,pp=2", 16);
    assert!(mesh.is_inside(Group::Tensor, 4) && mesh.is_inside(Group::Tensor, 8));
    assert!(!mesh.is_inside(Group::Tensor, 2) && !mesh.is_inside(Group::Tensor, 6));
    assert!(mesh.is_inside(Group::Stage, 8) && !mesh.is_inside(Group::Pipeline, 8));
}

#[test]
fn axes_of_size_one_return_to_their_place() {
    let normalised = |text| strategy(text, 8).order.to_string();
    assert_eq!(normalised("order=pp-dp-tp-cp"), "tp-cp-dp-pp");
    assert_eq!(normalised("tp=2,zero=1,order=pp-replica-tp-cp-shard"), "tp-cp-dp-pp");
    assert_eq!(normalised("tp=2,pp=2,order=cp-pp-tp-dp"), "pp-tp-cp-dp");
    assert_eq!(normalised("tp=2,zero=1,shard=1,order=shard-tp-cp-replica-pp"), "tp-cp-dp-pp");
    assert_eq!(normalised("tp=2,zero=1,shard=2,order=replica-tp-shard-cp-pp"), "replica-tp-cp-shard-pp");
}

/// Legal strategies over up to 64 ranks with any order.
fn layouts() -> impl Generator<Value = Strategy> {
    let order = Just(AXES).prop_shuffle();
    let sizes = (0u32..3, 0u32..3, 0u32..3, 0u32..4, 0u32..4);
    (sizes, 0u32..4, any::<bool>(), order).prop_filter_map("legal", |((t, c, p, d, s), e, inside, order)| {
        let [tensor, context, pipeline, data, shard] = [t, c, p, d, s.min(d)].map(|power| 1 << power);
        let draft = Draft {
            tensor: Some(tensor),
            context: Some(context),
            pipeline: Some(pipeline),
            expert: Some(1 << e),
            expert_tensor: Some(if inside { tensor } else { 1 }),
            zero: Some(1),
            shard: Some(shard),
            order: Some(MeshOrder(order)),
            ..Draft::default()
        };
        draft.resolve(&facts(&moe(), tensor * context * pipeline * data, "embedded")).ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn groups_of_every_kind_partition_the_ranks(strategy in layouts()) {
        let mesh = Mesh::new(&strategy);
        for kind in KINDS {
            let groups = mesh.groups(kind);
            prop_assert!(groups.iter().all(|group| group.len() as u64 == mesh.group_size(kind)), "{:?}", kind);
            let mut ranks = groups.concat();
            ranks.sort_unstable();
            prop_assert_eq!(ranks, (0..strategy.devices()).collect::<Vec<_>>(), "{:?}", kind);
            for group in groups {
                for &member in &group {
                    prop_assert_eq!(mesh.group(kind, member), group.clone(), "{:?}", kind);
                }
            }
        }
    }

    #[test]
    fn ranks_and_coordinates_are_inverse(strategy in layouts()) {
        let mesh = Mesh::new(&strategy);
        for rank in 0..mesh.ranks() {
            prop_assert_eq!(mesh.rank(&AXES.map(|axis| (axis, mesh.coordinate(rank, axis)))), rank);
        }
    }

    #[test]
    fn normalised_orders_place_every_rank_as_before(strategy in layouts(), order in Just(AXES).prop_shuffle()) {
        let mut written = strategy.clone();
        written.order = MeshOrder(order);
        let mut normalised = written.clone();
        normalised.order = written.order.normalised(|axis| written.size(axis));
        let (written, normalised) = (Mesh::new(&written), Mesh::new(&normalised));
        for rank in 0..written.ranks() {
            for axis in AXES {
                prop_assert_eq!(written.coordinate(rank, axis), normalised.coordinate(rank, axis));
            }
        }
    }
}

#[test]
fn dense_models_have_meshes_too() {
    let strategy = Draft::parse("tp=2").unwrap().resolve(&facts(&dense(), 4, "embedded")).unwrap();
    assert_eq!(Mesh::new(&strategy).ranks(), 4);
}

#[test]
fn members_are_counted_without_listing_them() {
    let sizes =
        [(2, 2, 2, 2, 4, 2), (8, 1, 3, 2, 2, 8), (1, 2, 4, 1, 2, 1), (3, 1, 2, 2, 2, 3), (2, 1, 8, 4, 1, 2)];
    let orders = [
        MeshOrder::default(),
        MeshOrder([Axis::Pipeline, Axis::Tensor, Axis::Context, Axis::Shard, Axis::Replica]),
        MeshOrder([Axis::Tensor, Axis::Shard, Axis::Pipeline, Axis::Replica, Axis::Context]),
    ];
    for (tensor, context, shard, replicas, pipeline, expert) in sizes {
        for order in orders {
            let mesh = Mesh {
                sizes: [tensor, context, shard, replicas, pipeline],
                strides: [1; 5],
                expert_tensor: 1,
                expert,
            };
            let mut strides = [1; 5];
            let mut stride = 1;
            for axis in order.0 {
                strides[axis as usize] = stride;
                stride *= mesh.sizes[axis as usize];
            }
            let mesh = Mesh { strides, ..mesh };
            for kind in KINDS {
                let group = mesh.group(kind, 0);
                for limit in [1, 2, 4, 8, 12, mesh.ranks()] {
                    let listed = group.iter().filter(|&&rank| rank < limit).count() as u64;
                    assert_eq!(mesh.members_below(kind, limit), listed, "{kind:?} below {limit} of {mesh:?}");
                }
            }
        }
    }
}
