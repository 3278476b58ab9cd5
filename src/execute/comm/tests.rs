//! Collectives and messages against sums and copies written down naively, and what happens when a rank does not
//! play along.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use half::bf16;
use proptest::prelude::*;

use super::*;
use crate::execute::element::Real;
use crate::lower::Stream;
use crate::ops::Group;

const CHANNEL: Channel = Channel { group: Group::Tensor, stream: Stream::Model };
const TAG: Tag = Tag { message: 3, micro_batch: 1, step: 0 };

/// What each of `ranks` threads returns from `work(its endpoint in a group of all)`.
fn on_all<R: Send>(ranks: usize, work: impl Fn(Endpoint) -> R + Sync) -> Vec<R> {
    let hub = Hub::new(ranks);
    on_ranks(&hub, ranks, |rank| work(endpoint(&hub, rank, CHANNEL, ranks)))
}

fn endpoint(hub: &Hub, rank: usize, channel: Channel, ranks: usize) -> Endpoint {
    hub.endpoint(rank, channel, &(0..ranks).collect::<Vec<_>>()).unwrap()
}

fn on_ranks<R: Send>(_hub: &Hub, ranks: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || work(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Numbers of many magnitudes, so that the order of a sum shows.
fn numbers<T: Element>(seed: usize, elements: usize) -> Vec<T> {
    let number = |place: usize| {
        let mixed = (seed as u64 * 1_000_003 + place as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let unit = (mixed >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        T::narrow(T::Wide::of(unit * 10f64.powi((mixed % 7) as i32 - 3)))
    };
    (0..elements).map(number).collect()
}

fn bf16_of(value: f32) -> f32 {
    bf16::from_f32(value).to_f32()
}

/// The sum over members in order, in T's wide type, everything that travels rounded by `round`.
fn naive<T: Element>(parts: &[Vec<T>], scale: Option<f64>, round: impl Fn(T::Wide) -> T::Wide) -> Vec<T> {
    let sum = |place: usize| {
        let mut sum = round(parts[0][place].wide());
        for part in &parts[1..] {
            sum = sum + round(part[place].wide());
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
    fn blocks_and_slices_go_where_they_should(ranks in 1usize..7, block in 0usize..40, root in 0usize..7) {
        let root = root % ranks;
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
            let mut data = sent[member].clone();
            group.broadcast(root, &mut data).unwrap();
            assert_eq!(data, sent[root]);
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
    on_ranks(&hub, 4, |rank| {
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
    let sums = on_ranks(&hub, 6, |rank| {
        let members = if rank % 2 == 0 { [4, 0, 2] } else { [1, 3, 5] };
        let mut group = hub.endpoint(rank, CHANNEL, &members).unwrap();
        let mut data = [rank as f64];
        group.all_reduce(&mut data, Reduction::sum(ElementType::Fp64)).unwrap();
        (group.member(), data[0])
    });
    assert_eq!(sums, [(1, 6.0), (0, 9.0), (2, 6.0), (1, 9.0), (0, 6.0), (2, 9.0)]);
}

#[test]
fn members_that_disagree_are_all_told_both_views() {
    let errors = on_all(3, |mut group| {
        let mut data = vec![0.0f32; if group.member() == 2 { 9 } else { 8 }];
        group.barrier().unwrap();
        group.all_reduce(&mut data, Reduction::sum(ElementType::Bf16)).unwrap_err()
    });
    assert!(errors.iter().all(|error| *error == errors[0]));
    let text = errors[0].to_string();
    assert!(text.contains("Tensor group on stream Model"), "{text}");
    assert!(text.contains("rank 2: all-reduce over bf16 of 9 fp32 elements as call 1"), "{text}");
    assert!(text.contains("of 8 fp32 elements"), "{text}");
}

#[test]
fn every_part_of_a_call_must_agree() {
    let differ = |first: fn(&mut Endpoint) -> Result<(), CommError>,
                  second: fn(&mut Endpoint) -> Result<(), CommError>| {
        let results =
            on_all(2, |mut group| if group.member() == 0 { first(&mut group) } else { second(&mut group) });
        assert!(results.iter().all(|result| matches!(result, Err(CommError::Mismatch(_)))), "{results:?}");
    };
    let sum = |group: &mut Endpoint| group.all_reduce(&mut [0.0f32; 4], Reduction::sum(ElementType::Fp32));
    differ(sum, |group| group.all_reduce(&mut [0.0f64; 4], Reduction::sum(ElementType::Fp64)));
    differ(sum, |group| group.all_reduce(&mut [0.0f32; 4], Reduction::sum(ElementType::Bf16)));
    differ(sum, |group| group.all_reduce(&mut [0.0f32; 4], Reduction::scaled(ElementType::Fp32, 0.5)));
    differ(sum, |group| group.reduce_scatter(&mut [0.0f32; 4], Reduction::sum(ElementType::Fp32)));
    differ(sum, Endpoint::barrier);
    differ(|group| group.broadcast(0, &mut [0.0f32; 4]), |group| group.broadcast(1, &mut [0.0f32; 4]));
}

#[test]
fn slices_of_a_wrong_length_are_refused_before_anybody_waits() {
    let hub = Hub::new(2);
    let mut group = endpoint(&hub, 0, CHANNEL, 2);
    let refused = group.all_gather_from(&[1.0f32; 2], &mut [0.0; 5]).unwrap_err();
    assert_eq!(refused.to_string(), "all-gather: the shard has 2 elements; 3 would do");
    let refused = group.all_to_all(&[1.0f32; 5], &mut [0.0; 5]).unwrap_err();
    assert_eq!(refused.to_string(), "all-to-all: what is sent has 5 elements; 6 would do");
    assert!(matches!(group.shift(&[1.0f32; 5], &mut [0.0; 4]), Err(CommError::Length { expected: 5, .. })));
    assert!(matches!(group.broadcast(2, &mut [0.0f32]), Err(CommError::Root { root: 2, members: 2, .. })));
    let refused = group.all_reduce(&mut [0.0f32], Reduction::sum(ElementType::Fp8)).unwrap_err();
    assert_eq!(refused, CommError::Wire { wire: ElementType::Fp8 });
}

#[test]
fn groups_are_well_formed() {
    let hub = Hub::new(4);
    assert!(hub.endpoint(0, CHANNEL, &[0, 1]).is_ok());
    assert!(matches!(hub.endpoint(0, CHANNEL, &[0, 1]), Err(CommError::Taken { rank: 0, .. })));
    assert!(matches!(hub.endpoint(1, CHANNEL, &[1, 2]), Err(CommError::Taken { rank: 1, .. })));
    assert!(matches!(hub.endpoint(1, CHANNEL, &[1, 0]), Err(CommError::Taken { rank: 1, .. })));
    assert!(matches!(hub.endpoint(2, CHANNEL, &[2, 1]), Err(CommError::Taken { rank: 1, .. })));
    assert!(matches!(hub.endpoint(2, CHANNEL, &[3]), Err(CommError::Members { rank: 2, .. })));
    assert!(matches!(hub.endpoint(2, CHANNEL, &[2, 3, 2]), Err(CommError::Members { rank: 2, .. })));
    assert!(matches!(hub.endpoint(2, CHANNEL, &[2, 4]), Err(CommError::Rank { rank: 4, ranks: 4 })));
    assert!(hub.mailbox(4).is_err());
    assert!(hub.endpoint(1, CHANNEL, &[0, 1]).is_ok());
}

#[test]
fn messages_find_their_receivers_whatever_the_order() {
    let hub = Hub::new(3);
    let orders = [[0u32, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]];
    thread::scope(|scope| {
        for (from, to) in [(0, 1), (1, 2), (2, 0), (1, 0)] {
            for micro_batch in 0..4 {
                let mailbox = hub.mailbox(from).unwrap();
                let data: Vec<f32> = numbers(from * 10 + micro_batch, 100 + micro_batch);
                let tag = Tag { message: 7, micro_batch: micro_batch as u32, step: 0 };
                scope.spawn(move || mailbox.send(to, tag, &data).unwrap());
            }
            let mailbox = hub.mailbox(to).unwrap();
            scope.spawn(move || {
                for micro_batch in orders[to] {
                    let mut data = vec![0.0f32; 100 + micro_batch as usize];
                    mailbox.receive(from, Tag { message: 7, micro_batch, step: 0 }, &mut data).unwrap();
                    assert_eq!(data, numbers::<f32>(from * 10 + micro_batch as usize, data.len()));
                }
            });
        }
    });
}

#[test]
fn messages_that_do_not_fit_are_refused_on_both_sides() {
    let hub = Hub::new(2);
    let results = on_ranks(&hub, 2, |rank| {
        let mailbox = hub.mailbox(rank).unwrap();
        match rank {
            0 => mailbox.send(1, TAG, &[0.0f32; 5]),
            _ => mailbox.receive(0, TAG, &mut [0.0f32; 6]),
        }
    });
    assert_eq!(results[0], results[1]);
    assert_eq!(
        results[0].as_ref().unwrap_err().to_string(),
        "message 3 of micro-batch 1, step 0, from rank 0 to 1: ranks disagree: \
         rank 0: message of 5 fp32 elements; rank 1: message of 6 fp32 elements"
    );
}

#[test]
fn a_message_cannot_be_sent_twice_at_once() {
    let hub = Hub::new(2);
    let sender = hub.mailbox(0).unwrap();
    let results = thread::scope(|scope| {
        let first = scope.spawn(|| sender.send(1, TAG, &[1.0f32]));
        let second = scope.spawn(|| sender.send(1, TAG, &[1.0f32]));
        while !first.is_finished() && !second.is_finished() {
            thread::yield_now();
        }
        hub.mailbox(1).unwrap().receive(0, TAG, &mut [0.0f32]).unwrap();
        [first.join().unwrap(), second.join().unwrap()]
    });
    assert!(results.contains(&Ok(())), "{results:?}");
    assert!(results.iter().any(|result| matches!(result, Err(CommError::Duplicate { .. }))), "{results:?}");
}

#[test]
fn an_abort_wakes_all_who_wait_and_refuses_all_who_come() {
    let hub = Hub::new(5);
    let expected = CommError::Aborted { rank: 4, message: "the device is gone".to_owned() };
    let errors = on_ranks(&hub, 5, |rank| {
        let mailbox = hub.mailbox(rank).unwrap();
        match rank {
            0 => mailbox.send(1, TAG, &[1.0f32]).unwrap_err(),
            1 => mailbox.receive(4, TAG, &mut [1.0f32]).unwrap_err(),
            2 | 3 => endpoint(&hub, rank, CHANNEL, 5).barrier().unwrap_err(),
            _ => {
                thread::sleep(Duration::from_millis(30));
                hub.abort(4, "the device is gone");
                hub.abort(3, "a later one");
                assert_eq!(mailbox.send(0, TAG, &[1.0f32]), Err(expected.clone()));
                let later = Channel { group: Group::World, stream: Stream::Host };
                assert_eq!(endpoint(&hub, 4, later, 5).barrier(), Err(expected.clone()));
                endpoint(&hub, rank, CHANNEL, 5).barrier().unwrap_err()
            }
        }
    });
    assert!(errors.iter().all(|error| *error == expected), "{errors:?}");
}

#[test]
fn no_slice_is_given_back_while_another_member_reads_it() {
    let hub = Hub::new(3);
    let readers = AtomicUsize::new(0);
    on_ranks(&hub, 3, |rank| {
        let mut group = endpoint(&hub, rank, CHANNEL, 3);
        let result = group.exchange(&[1.0f32], |_, _| {
            if rank == 0 {
                readers.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
                hub.abort(0, "in the middle");
                thread::sleep(Duration::from_millis(20));
                readers.fetch_sub(1, Ordering::SeqCst);
            }
        });
        assert!(matches!(result, Err(CommError::Aborted { rank: 0, .. })));
        assert_eq!(readers.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn a_rank_that_panics_stops_the_others() {
    let hub = Hub::new(4);
    let results = on_ranks(&hub, 4, |rank| {
        hub.guard(rank, || {
            let mut group = endpoint(&hub, rank, CHANNEL, 4);
            group.barrier()?;
            if rank == 1 {
                panic!("index {} of 3", 7);
            }
            group.barrier()
        })
    });
    let expected = CommError::Aborted { rank: 1, message: "it panicked: index 7 of 3".to_owned() };
    assert!(results.iter().all(|result| *result == Err(expected.clone())), "{results:?}");
}

#[test]
fn a_panic_inside_an_exchange_stops_the_others() {
    let hub = Hub::new(3);
    let results = on_ranks(&hub, 3, |rank| {
        hub.guard(rank, || {
            let data = vec![rank as f32; 100];
            endpoint(&hub, rank, CHANNEL, 3).exchange(&data, |_, _| assert_ne!(rank, 2, "no room"))
        })
    });
    assert!(
        results.iter().all(|result| matches!(result, Err(CommError::Aborted { rank: 2, .. }))),
        "{results:?}"
    );
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
