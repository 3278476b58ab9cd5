//! How operations become work: checked at their call, queued at once or with their group, noted in the log in that order.

use super::communication::{Communication, Part};
use super::communicator::SLOW_QUESTIONS;
use super::operation::{Kind, Operation};
use super::{Code, refuse};
use crate::call::{Session, notify};
use crate::driver::{Driver, Handle};
use crate::failure::Answer;
use crate::spoil::{FAR, Spoil};
use crate::work::Work;
use std::io::Write;

/// An operation of a communicator, not queued yet.
#[derive(Clone)]
pub struct Issue {
    pub stream: u64,
    pub part: Part,
}

impl Session {
    /// Checks a call.
    pub fn prepare(&mut self, handle: Handle, stream: Handle, mut operation: Operation) -> Answer<Issue> {
        if self.broken.is_some() {
            return refuse(Code::UnhandledCudaError, "the context is broken");
        }
        let communicator = self.nccl.communicator(handle)?;
        communicator.allow()?;
        let (seat, name) = (communicator.seat, communicator.name.clone());
        let stream = if stream.is_null() {
            self.contexts[seat.device].default_stream
        } else {
            self.stream(stream).map_err(|failure| self.nccl_failed(failure))?
        };
        let state = &self.streams[&stream];
        if state.device != seat.device {
            let text = format!("communicator {name} of device {} is used on {}", seat.device, state.name);
            return refuse(Code::InvalidArgument, text);
        }
        operation.captured = state.capture.is_some();
        match self.spoil.take_if(|spoil| matches!(spoil, Spoil::Moved | Spoil::More)) {
            Some(Spoil::Moved) => operation.to += FAR,
            Some(_) => operation.count += 1,
            None => {}
        }
        operation.check(self, seat)?;
        let declared = self.declared.remove(&stream).unwrap_or_default();
        Ok(Issue { stream, part: Part::new(operation, declared) })
    }

    /// Queues the operations of a call or of a group, or says that a slow library will.
    pub fn issue(&mut self, key: u64, issues: Vec<Issue>) -> Answer {
        let slow = self.settings.nccl.slow && self.random.below(2) == 0;
        let captured = issues.iter().any(|issue| issue.part.operation.captured);
        let communicator = self.nccl.communicator(key as Handle)?;
        communicator.allow()?;
        if slow && !communicator.blocking && !captured {
            communicator.questions = SLOW_QUESTIONS;
            communicator.late = issues;
            return Ok(());
        }
        self.queue(key, issues)
    }

    /// Queues operations of a communicator, all as one piece of work.
    pub fn queue(&mut self, key: u64, issues: Vec<Issue>) -> Answer {
        let Some(first) = issues.first().map(|issue| issue.stream) else {
            return Ok(());
        };
        let mut others: Vec<u64> = issues.iter().map(|issue| issue.stream).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|stream| *stream != first);
        let captured = issues.iter().any(|issue| issue.part.operation.captured);
        if captured && !others.is_empty() {
            return refuse(Code::InvalidUsage, "a group on several streams is captured");
        }
        self.queue_on(key, first, &others, issues).map_err(|failure| self.nccl_failed(failure))
    }

    /// The work is on the first stream; the others wait for it, and it for them.
    fn queue_on(&mut self, key: u64, first: u64, others: &[u64], issues: Vec<Issue>) -> Answer {
        let mut communication = Communication::new(key, issues.into_iter().map(|issue| issue.part).collect());
        if self.streams[&first].capture.is_none() {
            self.refuse_hidden_capture(first)?;
            for &other in others {
                let ticket = self.mark(other);
                self.submit(first, Work::Wait(ticket))?;
            }
            self.take_turn(&mut communication);
        }
        self.submit(first, Work::Communication(Box::new(communication)))?;
        notify();
        for &other in others {
            let ticket = self.mark(first);
            self.submit(other, Work::Wait(ticket))?;
        }
        Ok(())
    }
}

impl Driver {
    /// Gives a communication its place behind what its communicator has been given, and notes it.
    pub fn take_turn(&mut self, communication: &mut Communication) {
        let log = self.settings.nccl.log.as_ref().map(|folder| folder.join(std::process::id().to_string()));
        let Some(communicator) = self.nccl.communicators.get_mut(&communication.communicator) else {
            return;
        };
        communication.turn = communicator.queued;
        communicator.queued += 1;
        let seat = communicator.seat;
        let mut lines = String::new();
        for Part { operation, .. } in &communication.parts {
            let (number, between) = match operation.kind {
                Kind::Send => (&mut communicator.messages[0][operation.other], (seat.rank, operation.other)),
                Kind::Receive => {
                    (&mut communicator.messages[1][operation.other], (operation.other, seat.rank))
                }
                _ => (&mut communicator.collectives, (0, 0)),
            };
            let sides =
                if operation.is_message() { format!("-{}-{}", between.0, between.1) } else { String::new() };
            let (device, name, what) = (seat.device, &communicator.name, operation.name());
            lines += &format!("{device} {name} {number} {what}{sides} {}\n", operation.count);
            *number += 1;
        }
        if let Some(path) = log {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
            if let Err(error) = file.and_then(|mut file| file.write_all(lines.as_bytes())) {
                eprintln!("fake CUDA driver: FAKE_NCCL_LOG: {}: {error}", path.display());
                std::process::exit(70);
            }
        }
    }
}
