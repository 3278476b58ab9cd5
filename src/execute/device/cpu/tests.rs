//! Queues of ranks on threads, small enough for Miri.

use std::thread;
use std::time::Instant;

use crate::execute::call::{Call, Exchange, Lists, Space, View};
use crate::execute::comm::Peers;
use crate::execute::comm::Reduction;
use crate::execute::device::cpu::Cpu;
use crate::execute::device::{Device, Need, Queue, Tracing};
use crate::execute::storage::{Storage, Types};
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::issue_order::Waits;
use crate::program::placing::Region;
use crate::units::{Bytes, ElementType};

const COUNT: usize = 16;
const RANKS: usize = 2;

/// The `place`-th run of [`COUNT`] numbers.
fn view(space: Space, place: usize) -> View {
    let bytes = COUNT * 4;
    View {
        space,
        region: Region { offset: place * bytes, bytes },
        storage: Storage::Number(ElementType::Fp32),
    }
}

fn device() -> Cpu {
    let types = Types::new(ElementType::Fp32, ElementType::Fp32);
    let mut cpu = Cpu::new(types, 1).unwrap();
    let need = |rank| Need {
        rank,
        peers: Peers::Present,
        device: Bytes(256),
        host: Bytes(64),
        lists: Lists::default(),
        workspace: view(Space::Device, 0),
        channels: Vec::new(),
        sends_to: Vec::new(),
        receives_from: Vec::new(),
    };
    cpu.allocate((0..RANKS).map(need).collect()).unwrap();
    cpu
}

fn numbers(cpu: &Cpu, rank: usize, view: View) -> Vec<f32> {
    let mut bytes = vec![0; view.region.bytes];
    // SAFETY: no queue is at work.
    unsafe { cpu.download(rank, view, &mut bytes) };
    bytes.chunks_exact(4).map(|four| f32::from_ne_bytes(four.try_into().unwrap())).collect()
}

/// Submits instructions: what each waits for, and its call.
fn submit(queue: &mut dyn Queue, began: Instant, instructions: &[(&[(Stream, u32)], Call)]) {
    queue.begin(1, began, Tracing::On);
    for (mark, (waits, call)) in instructions.iter().enumerate() {
        let mut counts = Waits::default();
        waits.iter().for_each(|&(stream, count)| counts[stream as usize] = count);
        assert!(queue.wait(&counts));
        // SAFETY: the instructions of each test wait for what conflicts with them.
        unsafe { queue.submit(call) }.unwrap();
        queue.record(mark);
        queue.advance();
    }
    queue.finish().unwrap();
}

/// A copy to the host on a stream of its own reads a sum over ranks before the next kernel overwrites it.
#[test]
fn streams_and_ranks_see_what_they_waited_for() {
    let cpu = device();
    let [own, sum] = [0, 1].map(|place| view(Space::Device, place));
    let out = view(Space::Host, 0);
    for rank in 0..RANKS {
        let values: Vec<u8> = (0..COUNT).flat_map(|at| ((at + 100 * rank) as f32).to_ne_bytes()).collect();
        // SAFETY: no queue is open.
        unsafe { cpu.upload(rank, own, &values) };
    }
    let reduction = Reduction::sum(ElementType::Fp32);
    let exchange = Exchange::AllReduce { data: sum, reduction };
    let compute: [(&[(Stream, u32)], Call); 3] = [
        (&[], Call::Copy { from: own, to: sum }),
        (&[(Stream::CopyOut, 1)], Call::Zero { to: sum }),
        (&[], Call::Add { from: own, to: sum }),
    ];
    let data: [(&[(Stream, u32)], Call); 1] =
        [(&[(Stream::Compute, 1)], Call::Collective { group: Group::World, exchange })];
    let copy: [(&[(Stream, u32)], Call); 1] = [(&[(Stream::Data, 1)], Call::Copy { from: sum, to: out })];
    let members: Vec<usize> = (0..RANKS).collect();
    for _ in 0..2 {
        let queues = cpu.open().unwrap();
        queues.restart();
        let began = Instant::now();
        thread::scope(|scope| {
            for rank in 0..RANKS {
                for (stream, list) in
                    [(Stream::Compute, &compute[..]), (Stream::Data, &data), (Stream::CopyOut, &copy)]
                {
                    let world = [(Group::World, &members[..])];
                    let groups = if stream == Stream::Data { &world[..] } else { &[] };
                    let mut queue = queues.queue(rank, stream, groups).unwrap();
                    scope.spawn(move || {
                        submit(&mut *queue, began, list);
                        let times: Vec<f64> =
                            (0..list.len()).map(|mark| queue.elapsed(mark).unwrap()).collect();
                        assert!(times.is_sorted());
                    });
                }
            }
        });
        for rank in 0..RANKS {
            let summed: Vec<f32> = (0..COUNT).map(|at| (2 * at + 100) as f32).collect();
            assert_eq!(numbers(&cpu, rank, out), summed);
            let alone: Vec<f32> = (0..COUNT).map(|at| (at + 100 * rank) as f32).collect();
            assert_eq!(numbers(&cpu, rank, sum), alone);
        }
    }
}

#[test]
fn a_queue_whose_rank_failed_does_not_wait_for_ever() {
    let cpu = device();
    let queues = cpu.open().unwrap();
    let failed = queues.guard(0, &mut || {
        let message = "it broke".to_owned();
        Err(crate::execute::error::ExecuteError::Rank { rank: 0, message })
    });
    assert!(failed.is_err());
    let mut queue = queues.queue(0, Stream::Compute, &[]).unwrap();
    let mut waits = Waits::default();
    waits[Stream::Data as usize] = 1;
    assert!(!queue.wait(&waits));
}

#[test]
#[should_panic(expected = "lies outside")]
fn a_call_outside_of_its_memory_is_found() {
    let cpu = device();
    let queues = cpu.open().unwrap();
    let mut queue = queues.queue(0, Stream::Compute, &[]).unwrap();
    // SAFETY: nobody else is at work.
    let _ = unsafe { queue.submit(&Call::Zero { to: view(Space::Device, 4) }) };
}
