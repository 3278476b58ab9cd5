//! Captures: what streams are given becomes the nodes of a graph, ordered by streams and events.

use crate::call::Session;
use crate::driver::Driver;
use crate::failure::{Answer, Error, refuse};
use crate::graph::{Graph, Node};
use crate::stream::Recorded;
use crate::submit::Declared;
use crate::work::Work;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::ThreadId;

/// Whose unsafe calls a capture forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those of all threads.
    Global,
    /// Those of the thread that began it.
    ThreadLocal,
    /// Nobody's.
    Relaxed,
}

pub struct Capture {
    origin: u64,
    mode: Mode,
    thread: ThreadId,
    graph: Graph,
    /// For each stream of the capture, its branch and the nodes that its next work comes after.
    tips: BTreeMap<u64, (usize, Vec<usize>)>,
    /// A call that isn't allowed has spoilt it.
    pub invalid: bool,
}

impl Driver {
    pub fn begin_capture(&mut self, stream: u64, mode: Mode) -> Answer {
        let state = &self.streams[&stream];
        if self.contexts[state.device].default_stream == stream {
            return refuse(
                Error::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "the default stream can't be captured",
            );
        }
        if state.capture.is_some() {
            return refuse(
                Error::CUDA_ERROR_ILLEGAL_STATE,
                format!("{} is being captured already", state.name),
            );
        }
        let number = self.handle();
        let capture = Capture {
            origin: stream,
            mode,
            thread: std::thread::current().id(),
            graph: Graph { nodes: vec![], branches: 1 },
            tips: BTreeMap::from([(stream, (0, vec![]))]),
            invalid: false,
        };
        self.captures.insert(number, capture);
        self.stream_mut(stream).capture = Some(number);
        Ok(())
    }

    /// The capture of a stream.
    pub fn capture(&mut self, stream: u64) -> Answer<&mut Capture> {
        let number = self.streams[&stream].capture;
        match number.and_then(|number| self.captures.get_mut(&number)) {
            Some(capture) if capture.invalid => Err(Error::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.into()),
            Some(capture) => Ok(capture),
            None => Err(Error::CUDA_ERROR_ILLEGAL_STATE.into()),
        }
    }

    /// Work on a stream of a capture becomes a node.
    pub fn capture_work(&mut self, stream: u64, work: Work, declared: Declared) -> Answer {
        if matches!(work, Work::Free(_) | Work::Record(_) | Work::Wait(_) | Work::Graph(_)) {
            return self.spoil(stream, &format!("{} is captured", work.name()));
        }
        let capture = self.capture(stream)?;
        let node = capture.graph.nodes.len();
        let Some((branch, tips)) = capture.tips.get_mut(&stream) else {
            return Err(Error::CUDA_ERROR_ILLEGAL_STATE.into());
        };
        let after = std::mem::replace(tips, vec![node]);
        capture.graph.nodes.push(Node { work, after, branch: *branch, declared });
        Ok(())
    }

    /// What an event stands for that is recorded on a stream of a capture.
    pub fn capture_record(&mut self, stream: u64) -> Answer<Recorded> {
        let number = self.streams[&stream].capture.unwrap_or_default();
        let nodes = self.capture(stream)?.tips.get(&stream).map(|(_, tips)| tips.clone()).unwrap_or_default();
        Ok(Recorded::Captured { capture: number, nodes })
    }

    /// Makes a stream wait for an event, where one of the two is part of a capture.
    pub fn capture_wait(&mut self, stream: u64, recorded: &Recorded) -> Answer {
        let of_stream = self.streams[&stream].capture;
        let Recorded::Captured { capture: number, nodes } = recorded else {
            return self.isolated(stream, "a stream of a capture waits for an event from outside of it");
        };
        let device = self.streams[&stream].device;
        if self.contexts[device].default_stream == stream {
            return refuse(
                Error::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                "the default stream waits for an event of a capture",
            );
        }
        if of_stream.is_some_and(|capture| capture != *number) {
            return self.isolated(stream, "a stream of a capture waits for an event of another one");
        }
        let Some(capture) = self.captures.get_mut(number) else {
            return refuse(Error::CUDA_ERROR_CAPTURED_EVENT, "the event is part of a capture that has ended");
        };
        let branches = &mut capture.graph.branches;
        let (_, tips) = capture.tips.entry(stream).or_insert_with(|| {
            *branches += 1;
            (*branches - 1, vec![])
        });
        tips.extend(nodes.iter().filter(|node| !tips.contains(node)).copied().collect::<Vec<_>>());
        self.stream_mut(stream).capture = Some(*number);
        Ok(())
    }

    pub fn end_capture(&mut self, stream: u64) -> Answer<Graph> {
        let number = self.streams[&stream].capture;
        let Some((number, capture)) = number.and_then(|number| Some((number, self.captures.get(&number)?)))
        else {
            return refuse(Error::CUDA_ERROR_ILLEGAL_STATE, "the stream isn't being captured");
        };
        if capture.origin != stream {
            return refuse(
                Error::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                "the capture has begun on another stream",
            );
        }
        if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
            return refuse(
                Error::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                "the capture has begun on another thread",
            );
        }
        let capture = self.captures.remove(&number).expect("it was found above");
        for state in self.streams.values_mut().filter(|state| state.capture == Some(number)) {
            state.capture = None;
        }
        if capture.invalid {
            return Err(Error::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.into());
        }
        let mut joined: BTreeSet<usize> = BTreeSet::new();
        let mut left = capture.tips[&stream].1.clone();
        while let Some(node) = left.pop() {
            if joined.insert(node) {
                left.extend(&capture.graph.nodes[node].after);
            }
        }
        match (0..capture.graph.nodes.len()).find(|node| !joined.contains(node)) {
            None => Ok(capture.graph),
            Some(node) => refuse(
                Error::CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                format!(
                    "{} is on a stream that the capture's first never waits for",
                    capture.graph.nodes[node].work.name()
                ),
            ),
        }
    }

    /// A call that may not be made while streams are captured spoils the captures that forbid it.
    pub fn refuse_unsafe_call(&mut self) -> Answer {
        let here = std::thread::current().id();
        let mut forbidden = false;
        for capture in self.captures.values_mut() {
            let forbids = match capture.mode {
                Mode::Global => true,
                Mode::ThreadLocal => capture.thread == here,
                Mode::Relaxed => false,
            };
            capture.invalid |= forbids;
            forbidden |= forbids;
        }
        if forbidden {
            return refuse(
                Error::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                "the call isn't allowed during a capture",
            );
        }
        Ok(())
    }

    /// A wait for all streams spoils every capture, whichever thread began it and in whatever mode.
    pub fn refuse_wait_for_all(&mut self) -> Answer {
        if self.captures.is_empty() {
            return Ok(());
        }
        self.captures.values_mut().for_each(|capture| capture.invalid = true);
        refuse(Error::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "a stream is being captured")
    }

    /// A call that isn't allowed on this stream as long as it's captured.
    pub fn refuse_captured(&mut self, stream: u64, what: &str) -> Answer {
        if self.streams[&stream].capture.is_some() { self.spoil(stream, what) } else { Ok(()) }
    }

    fn spoil(&mut self, stream: u64, what: &str) -> Answer {
        if let Ok(capture) = self.capture(stream) {
            capture.invalid = true;
        }
        refuse(Error::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, what)
    }

    fn isolated(&mut self, stream: u64, what: &str) -> Answer {
        if let Ok(capture) = self.capture(stream) {
            capture.invalid = true;
        }
        refuse(Error::CUDA_ERROR_STREAM_CAPTURE_ISOLATION, what)
    }
}

impl Session {
    /// The default stream would wait for the blocking streams, which it can't while one of them is captured.
    pub fn refuse_hidden_capture(&mut self, stream: u64) -> Answer {
        let device = self.streams[&stream].device;
        let waits = self.contexts[device].default_stream == stream;
        let captured = self
            .streams
            .values()
            .any(|other| other.device == device && other.blocking && other.capture.is_some());
        if waits && captured {
            return refuse(
                Error::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                "the default stream is used while a blocking stream is captured",
            );
        }
        Ok(())
    }
}
