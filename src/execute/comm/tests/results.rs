//! Collectives and messages against sums and copies written down naively.

use half::bf16;
use proptest::prelude::*;
use std::sync::Mutex;

use super::*;

fn bf16_of(value: f32) -> f32 {
    bf16::from_f32(value).to_f32()
}

/// The sum over members in order, in T's wide type, everything that travels rounded by `round`.
pub fn naive<T: Element>(parts: &[Vec<T>], scale: Option<f64>, round: impl Fn(T::Wide) -> T::Wide) -> Vec<T> {
    let sum = |place: usize| {
        let mut sum = round(parts[0][place].wide());
        for part in &parts[1..] {
            sum += round(part[place].wide());
        }
        T::narrow(round(scale.map_or(sum, |scale| sum * T::Wide::of(scale))))
    };
    (0..parts[0].len()).map(sum).collect()
}

/// All forms of reducing and gathering agree with `naive` and with each other.
fn reductions_agree<T: Element>(
    ranks: usize,
    elements: usize,
    reduction: Reduction,
    round: impl Fn(T::Wide) -> T::Wide,
) {
    let parts: Vec<Vec<T>> = (0..ranks).map(|rank| numbers(rank, elements)).collect();
    let expected = naive(&parts, reduction.scale, round);
    on_all(ranks, |mut group| {
        let own = shard(elements, ranks, group.member());
        let mine = &parts[group.member()];

        let mut all = mine.clone();
        group.all_reduce(&mut all, reduction).unwrap();
        assert_eq!(all, expected);

        let mut inside = mine.clone();
        group.reduce_scatter(&mut inside, reduction).unwrap();
        assert_eq!(inside[own.clone()], expected[own.clone()]);
        assert_eq!(inside[..own.start], mine[..own.start]);
        assert_eq!(inside[own.end..], mine[own.end..]);

        let mut apart = vec![T::default(); own.len()];
        group.reduce_scatter_into(mine, &mut apart, reduction).unwrap();
        assert_eq!(apart, expected[own]);

        group.all_gather(&mut inside).unwrap();
        assert_eq!(inside, expected);
        let mut whole = vec![T::default(); elements];
        group.all_gather_from(&apart, &mut whole).unwrap();
        assert_eq!(whole, expected);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_the_naive_ones(ranks in 1usize..7, elements in 0usize..5000, small in any::<bool>(), scaled in any::<bool>()) {
        let elements = if small { elements % 12 } else { elements };
        let scale = scaled.then_some(1.0 / 3.0);
        let over = |wire| Reduction { wire, scale };
        reductions_agree::<f64>(ranks, elements, over(ElementType::Fp64), |value| value);
        reductions_agree::<f32>(ranks, elements, over(ElementType::Fp32), |value| value);
        reductions_agree::<f32>(ranks, elements, over(ElementType::Bf16), bf16_of);
        reductions_agree::<f32>(ranks, elements, over(ElementType::Fp16), |value| half::f16::from_f32(value).to_f32());
        reductions_agree::<bf16>(ranks, elements, over(ElementType::Bf16), |value| value);
        reductions_agree::<bf16>(ranks, elements, over(ElementType::Fp32), |value| value);
    }

    #[test]
    fn blocks_and_slices_go_where_they_should(ranks in 1usize..7, block in 0usize..40) {
        let sent: Vec<Vec<f32>> = (0..ranks).map(|rank| numbers(rank, ranks * block)).collect();
        on_all(ranks, |mut group| {
            let member = group.member();
            let mut received = vec![0.0; ranks * block];
            group.all_to_all(&sent[member], &mut received).unwrap();
            for (other, sent) in sent.iter().enumerate() {
                assert_eq!(received[other * block..][..block], sent[member * block..][..block]);
            }
            group.shift(&sent[member], &mut received).unwrap();
            assert_eq!(received, sent[(member + ranks - 1) % ranks]);
            let mut seen = Vec::new();
            group.exchange(&sent[member], |other, theirs| seen.push((other, theirs.to_vec()))).unwrap();
            assert_eq!(seen, sent.iter().cloned().enumerate().collect::<Vec<_>>());
        });
    }

    #[test]
    fn shards_are_equal_and_cover_everything(elements in 0usize..1000, members in 1usize..20) {
        let mut next = 0;
        for member in 0..members {
            let range = shard(elements, members, member);
            prop_assert_eq!(range.start, next);
            prop_assert!(range.len() <= elements.div_ceil(members));
            next = range.end;
        }
        prop_assert_eq!(next, elements);
    }
}

#[test]
fn sums_start_with_the_first_member_and_round_what_travels() {
    // In bf16, 256 + 1 is 256: had the sum been kept in bf16, nothing would have been added.
    let parts = [vec![256.0f32], vec![1.0], vec![1.0]];
    let sums = on_all(3, |mut group| {
        let mut data = parts[group.member()].clone();
        group.all_reduce(&mut data, Reduction::sum(ElementType::Bf16)).unwrap();
        data[0]
    });
    assert_eq!(sums, [258.0; 3]);
    let zeros = on_all(2, |mut group| {
        let mut data = [-0.0f32];
        group.all_reduce(&mut data, Reduction::sum(ElementType::Fp32)).unwrap();
        data[0].is_sign_negative()
    });
    assert_eq!(zeros, [true; 2]);
}

#[test]
fn two_channels_of_the_same_members_do_not_mix() {
    let hub = Hub::new(4);
    on_ranks(4, |rank| {
        thread::scope(|scope| {
            for (stream, factor) in [(Stream::Model, 1.0f32), (Stream::Data, 1000.0)] {
                let mut group = endpoint(&hub, rank, Channel { group: Group::State, stream }, 4);
                scope.spawn(move || {
                    for round in 0..300 {
                        let mut data = vec![factor * (rank + round) as f32; 1 + round % 9];
                        group.all_reduce(&mut data, Reduction::sum(ElementType::Fp32)).unwrap();
                        assert!(data.iter().all(|value| *value == factor * (6 + 4 * round) as f32));
                    }
                });
            }
        });
    });
}

#[test]
fn groups_of_one_channel_work_side_by_side() {
    let hub = Hub::new(6);
    let sums = on_ranks(6, |rank| {
        let members = if rank % 2 == 0 { [4, 0, 2] } else { [1, 3, 5] };
        let mut group = hub.endpoint(rank, CHANNEL, &members).unwrap();
        let mut data = [rank as f64];
        group.all_reduce(&mut data, Reduction::sum(ElementType::Fp64)).unwrap();
        (group.member(), data[0])
    });
    assert_eq!(sums, [(1, 6.0), (0, 9.0), (2, 6.0), (1, 9.0), (0, 6.0), (2, 9.0)]);
}

#[test]
fn messages_find_their_receivers_whatever_the_order() {
    let hub = Hub::new(3);
    let orders = [[0u32, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]];
    let pairs = [(0, 1), (1, 2), (2, 0), (1, 0)];
    let slots: Vec<Mutex<Vec<f32>>> = (0..4 * pairs.len()).map(|_| Mutex::default()).collect();
    thread::scope(|scope| {
        for ((from, to), slots) in pairs.into_iter().zip(slots.chunks(4)) {
            let tag = |micro_batch: usize| Tag {
                message: micro_batch as u32,
                micro_batch: micro_batch as u32,
                step: 0,
            };
            for (micro_batch, slot) in slots.iter().enumerate() {
                let mailbox = hub.mailbox(from).unwrap();
                let data: Vec<f32> = numbers(from * 10 + micro_batch, 100 + micro_batch);
                scope.spawn(move || {
                    let fill = || *slot.lock().unwrap() = data.clone();
                    mailbox.send(to, tag(micro_batch), (data.len(), ElementType::Fp32), fill).unwrap();
                });
            }
            let mailbox = hub.mailbox(to).unwrap();
            scope.spawn(move || {
                for micro_batch in orders[to].map(|micro_batch| micro_batch as usize) {
                    let mut data = Vec::new();
                    let take = || data = std::mem::take(&mut *slots[micro_batch].lock().unwrap());
                    let call = (100 + micro_batch, ElementType::Fp32);
                    mailbox.receive(from, tag(micro_batch), call, take).unwrap();
                    assert_eq!(data, numbers::<f32>(from * 10 + micro_batch, 100 + micro_batch));
                }
            });
        }
    });
}

#[test]
fn many_small_meetings_do_not_hang() {
    on_all(2, |mut group| (0..100_000).for_each(|_| group.barrier().unwrap()));
    on_all(16, |mut group| {
        for _ in 0..1000 {
            let mut data = [1.0f32; 3];
            group.all_reduce(&mut data, Reduction::sum(ElementType::Fp32)).unwrap();
            assert_eq!(data, [16.0; 3]);
        }
    });
}
