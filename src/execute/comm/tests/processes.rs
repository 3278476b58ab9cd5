//! Collectives between processes, over a network of queues, against sums and copies written down naively.

#![expect(unsafe_code, reason = "the network is given memory by its address")]

use std::collections::HashMap;
use std::collections::VecDeque;
use std::slice;
use std::sync::{Arc, Condvar, Mutex};

use half::bf16;
use proptest::prelude::*;

use super::results::naive;
use super::*;

type Queue = VecDeque<Vec<u8>>;

/// Bytes on their way, by who sends and who receives.
#[derive(Default)]
struct Queues {
    bytes: Mutex<HashMap<(usize, usize), Queue>>,
    moved: Condvar,
}

struct QueueWire {
    queues: Arc<Queues>,
    member: usize,
}

impl Wire for QueueWire {
    unsafe fn exchange(&mut self, sent: &[Sent], received: &[Received]) -> Result<(), CommError> {
        for &Sent { member, from, bytes } in sent {
            // SAFETY: as the caller vouches.
            let bytes = unsafe { slice::from_raw_parts(from, bytes) }.to_vec();
            let mut queues = self.queues.bytes.lock().unwrap();
            queues.entry((self.member, member)).or_default().push_back(bytes);
            self.queues.moved.notify_all();
        }
        for &Received { member, to, bytes } in received {
            let mut queues = self.queues.bytes.lock().unwrap();
            let came = loop {
                if let Some(came) = queues.entry((member, self.member)).or_default().pop_front() {
                    break came;
                }
                queues = self.queues.moved.wait(queues).unwrap();
            };
            assert_eq!(came.len(), bytes, "from {member} to {}", self.member);
            // SAFETY: as the caller vouches.
            unsafe { slice::from_raw_parts_mut(to, bytes) }.copy_from_slice(&came);
        }
        Ok(())
    }
}

/// What each of `ranks` threads returns from `work(its endpoint in a group of all)`.
fn on_all_processes<R: Send>(ranks: usize, work: impl Fn(ProcessEndpoint) -> R + Sync) -> Vec<R> {
    let queues = Arc::<Queues>::default();
    let members: Vec<usize> = (0..ranks).collect();
    on_ranks(ranks, |member| {
        let wire = Box::new(QueueWire { queues: queues.clone(), member });
        work(ProcessEndpoint::new(wire, &members, member))
    })
}

/// All forms of reducing and gathering agree with `naive`.
fn reductions_agree<T: Element>(
    ranks: usize,
    elements: usize,
    reduction: Reduction,
    round: impl Fn(T::Wide) -> T::Wide,
) {
    let parts: Vec<Vec<T>> = (0..ranks).map(|rank| numbers(rank, elements)).collect();
    let expected = naive(&parts, reduction.scale, round);
    on_all_processes(ranks, |mut group| {
        let own = shard(elements, ranks, group.member());
        let mine = &parts[group.member()];
        let mut all = mine.clone();
        group.all_reduce(&mut all, reduction).unwrap();
        assert_eq!(all, expected);
        let mut inside = mine.clone();
        group.reduce_scatter(&mut inside, reduction).unwrap();
        assert_eq!(inside[own.clone()], expected[own.clone()]);
        assert_eq!((&inside[..own.start], &inside[own.end..]), (&mine[..own.start], &mine[own.end..]));
        let mut apart = vec![T::default(); own.len()];
        group.reduce_scatter_into(mine, &mut apart, reduction).unwrap();
        assert_eq!(apart, expected[own]);
        let mut whole = vec![T::default(); elements];
        group.all_gather_from(&apart, &mut whole).unwrap();
        assert_eq!(whole, expected);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_the_naive_ones(ranks in 1usize..7, elements in 0usize..5000, scaled in any::<bool>()) {
        let scale = scaled.then_some(1.0 / 3.0);
        let over = |wire| Reduction { wire, scale };
        reductions_agree::<f64>(ranks, elements, over(ElementType::Fp64), |value| value);
        reductions_agree::<f32>(ranks, elements, over(ElementType::Bf16), |value| bf16::from_f32(value).to_f32());
        reductions_agree::<bf16>(ranks, elements, over(ElementType::Fp32), |value| value);
    }

    #[test]
    fn blocks_go_where_they_should(ranks in 1usize..7, block in 0usize..40) {
        let sent: Vec<Vec<f32>> = (0..ranks).map(|rank| numbers(rank, ranks * block)).collect();
        on_all_processes(ranks, |mut group| {
            let member = group.member();
            let mut received = vec![0.0; ranks * block];
            group.all_to_all(&sent[member], &mut received).unwrap();
            for (other, sent) in sent.iter().enumerate() {
                assert_eq!(received[other * block..][..block], sent[member * block..][..block]);
            }
            group.shift(&sent[member], &mut received).unwrap();
            assert_eq!(received, sent[(member + ranks - 1) % ranks]);
        });
    }

    #[test]
    fn neighbours_are_summed(runs in 1usize..4, copies in 1usize..4, elements in 0usize..300) {
        let ranks = runs * copies;
        let parts: Vec<Vec<f32>> = (0..ranks).map(|rank| numbers(rank, elements)).collect();
        on_all_processes(ranks, |mut group| {
            let first = group.member() / copies * copies;
            let mut data = parts[group.member()].clone();
            group.sum_neighbours(copies, &mut data).unwrap();
            let sum = |place: usize| parts[first..first + copies].iter().fold(0.0, |sum, part| sum + part[place]);
            assert_eq!(data, (0..elements).map(sum).collect::<Vec<f32>>());
        });
    }
}

/// More than the scratch holds comes in pieces.
#[test]
fn what_is_larger_than_the_scratch_is_summed_too() {
    let elements = 2 * SCRATCH / size_of::<f32>() + 5;
    let sums = on_all_processes(3, |mut group| {
        let mut data = vec![1.0 + group.member() as f32; elements];
        group.all_reduce(&mut data, Reduction::sum(ElementType::Fp32)).unwrap();
        data.iter().all(|value| *value == 6.0)
    });
    assert_eq!(sums, [true; 3]);
}

#[test]
fn slices_that_do_not_fit_are_refused() {
    let wire = Box::new(QueueWire { queues: Arc::default(), member: 0 });
    let mut group = ProcessEndpoint::new(wire, &[0, 1], 0);
    let error = group.all_to_all(&[1.0_f32; 3], &mut [0.0; 3]).unwrap_err();
    assert!(matches!(error, CommError::Length { expected: 4, .. }), "{error}");
    let error = group.reduce_scatter_into(&[1.0_f32; 4], &mut [0.0; 3], Reduction::sum(ElementType::Fp32));
    assert!(matches!(error, Err(CommError::Length { expected: 2, .. })));
}
