//! Collectives and messages, each rank a thread: what comes out, and what happens when a rank does not play along.

use std::thread;

use super::*;
use crate::execute::element::{Element, Real};
use crate::lower::Stream;
use crate::ops::Group;

mod faults;
mod processes;
mod results;

const CHANNEL: Channel = Channel { group: Group::Tensor, stream: Stream::Model };
const TAG: Tag = Tag { message: 3, micro_batch: 1, step: 0 };

/// What each of `ranks` threads returns from `work(its endpoint in a group of all)`.
fn on_all<R: Send>(ranks: usize, work: impl Fn(Endpoint) -> R + Sync) -> Vec<R> {
    let hub = Hub::new(ranks);
    on_ranks(ranks, |rank| work(endpoint(&hub, rank, CHANNEL, ranks)))
}

fn endpoint(hub: &Hub, rank: usize, channel: Channel, ranks: usize) -> Endpoint {
    hub.endpoint(rank, channel, &(0..ranks).collect::<Vec<_>>()).unwrap()
}

fn on_ranks<R: Send>(ranks: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
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
