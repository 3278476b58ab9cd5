//! Streams, and the events that order them.

use crate::clock::Clock;
use crate::driver::{Driver, Handle};
use crate::failure::{Answer, Error, refuse};
use crate::work::Operation;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub struct Stream {
    /// In words.
    pub name: String,
    /// The device of its context.
    pub device: usize,
    /// Whether the default stream and this one wait for each other.
    pub blocking: bool,
    pub priority: i32,
    pub lane: usize,
    pub queue: VecDeque<Operation>,
    /// What has happened before its next work.
    pub clock: Clock,
    /// Whether a thread runs a host function of it right now.
    pub busy: bool,
    /// A destroyed stream still does what it was given.
    pub destroyed: bool,
    /// Whether it has ever been given work.
    pub used: bool,
    pub capture: Option<u64>,
}

/// One record of an event.
#[derive(Default)]
pub struct Ticket(OnceLock<Done>);

pub struct Done {
    pub clock: Clock,
    pub at: Instant,
}

impl Ticket {
    pub fn finish(&self, clock: Clock) {
        let _ = self.0.set(Done { clock, at: Instant::now() });
    }

    pub fn done(&self) -> Option<&Done> {
        self.0.get()
    }
}

pub struct Event {
    pub device: usize,
    pub timing: bool,
    pub latest: Option<Recorded>,
}

/// What an event stands for since it was last recorded.
#[derive(Clone)]
pub enum Recorded {
    Ticket(Arc<Ticket>),
    /// In a capture, these nodes.
    Captured {
        capture: u64,
        nodes: Vec<usize>,
    },
}

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

impl Driver {
    pub fn add_stream(&mut self, name: String, device: usize, blocking: bool, priority: i32) -> u64 {
        let (handle, lane) = (self.handle(), self.lane());
        let stream = Stream {
            name,
            device,
            blocking,
            priority,
            lane,
            queue: VecDeque::new(),
            clock: Clock::default(),
            busy: false,
            destroyed: false,
            used: false,
            capture: None,
        };
        self.streams.insert(handle, stream);
        handle
    }

    /// The stream of a handle; the null handle is the default stream of the thread's context.
    pub fn stream(&self, handle: Handle) -> Answer<u64> {
        let number = handle as u64;
        match self.streams.get(&number) {
            _ if number == 0 || number == LEGACY => Ok(self.contexts[self.current()?].default_stream),
            _ if number == PER_THREAD => {
                refuse(Error::CUDA_ERROR_NOT_SUPPORTED, "this driver has no default streams of threads")
            }
            Some(stream) if !stream.destroyed => Ok(number),
            Some(stream) => {
                refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{} has been destroyed", stream.name))
            }
            None => refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{number:#x} is no stream")),
        }
    }

    pub fn stream_mut(&mut self, stream: u64) -> &mut Stream {
        self.streams.get_mut(&stream).expect("a number that `stream` or `add_stream` gave")
    }

    pub fn event(&mut self, handle: Handle) -> Answer<&mut Event> {
        match self.events.get_mut(&(handle as u64)) {
            Some(event) => Ok(event),
            None => refuse(Error::CUDA_ERROR_INVALID_HANDLE, format!("{handle:?} is no event")),
        }
    }
}
