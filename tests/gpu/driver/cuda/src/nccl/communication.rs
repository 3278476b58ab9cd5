//! Communication as work of a stream: it takes many steps, and a step that waits for another member lets others go first.

use super::channel;
use super::collective::{self, Progress, Trouble};
use super::communicator::Communicator;
use super::operation::{Kind, Operation};
use super::{Code, users};
use crate::clock::Clock;
use crate::driver::Driver;
use crate::failure::{Answer, illegal, log};
use crate::perform::Actor;
use crate::submit::Declared;

/// How many operations of a group are named.
const NAMED: usize = 2;

/// What one call or one group asks of a communicator.
#[derive(Clone)]
pub struct Communication {
    pub communicator: u64,
    /// Its place in the order of the communicator's work.
    pub turn: u64,
    pub parts: Vec<Part>,
    /// What it knows, once it has begun.
    clock: Option<Clock>,
}

#[derive(Clone)]
pub struct Part {
    pub operation: Operation,
    pub declared: Declared,
    progress: Progress,
}

impl Part {
    pub fn new(operation: Operation, declared: Declared) -> Part {
        Part { operation, declared, progress: Progress::default() }
    }

    fn is_able(&self, communicator: &Communicator) -> bool {
        if self.operation.is_message() {
            channel::is_able(&self.operation, communicator)
        } else {
            collective::is_able(communicator, self.progress)
        }
    }

    /// Parts of one lane are done in their order: collectives, and messages of one direction between two ranks.
    fn lane(&self) -> (usize, usize) {
        match self.operation.kind {
            Kind::Send => (1, self.operation.other),
            Kind::Receive => (2, self.operation.other),
            _ => (0, 0),
        }
    }
}

impl Communication {
    pub fn new(communicator: u64, parts: Vec<Part>) -> Communication {
        Communication { communicator, turn: 0, parts, clock: None }
    }

    pub fn name(&self) -> String {
        let words = |part: &Part| super::operation::words(part.operation.description());
        let named: Vec<String> = self.parts.iter().take(NAMED).map(words).collect();
        match self.parts.len() - named.len() {
            0 => named.join(" and "),
            others => format!("{} and {others} other operations", named.join(", ")),
        }
    }

    /// The first part of each lane that isn't done.
    fn current(&self) -> Vec<usize> {
        let mut lanes = vec![];
        let mut first = |(index, part): (usize, &Part)| {
            let is_first = !part.progress.done && !lanes.contains(&part.lane());
            if is_first {
                lanes.push(part.lane());
            }
            is_first.then_some(index)
        };
        self.parts.iter().enumerate().filter_map(&mut first).collect()
    }
}

impl Driver {
    /// Whether its next step doesn't wait for anybody.
    pub fn is_able(&self, communication: &Communication) -> bool {
        let Some(communicator) = self.nccl.communicators.get(&communication.communicator) else {
            return true;
        };
        if communicator.has_ended() {
            return true;
        }
        let is_able = |index: usize| communication.parts[index].is_able(communicator);
        communicator.done == communication.turn
            && (communication.clock.is_none() || communication.current().into_iter().any(is_able))
    }

    /// Does a step, of which it's known that it may be done. It says whether that was the last one.
    pub fn go_on(&mut self, communication: &mut Communication, actor: &mut Actor) -> Answer<bool> {
        let what = format!("{} {}", communication.name(), actor.place);
        let key = communication.communicator;
        let ended = self.nccl.communicators.get(&key).is_none_or(Communicator::has_ended);
        if !ended {
            match &communication.clock {
                Some(clock) => actor.clock.join(clock),
                None => {
                    self.begin(communication, actor, &what)?;
                    communication.clock = Some(actor.clock.clone());
                }
            }
            self.advance(communication, &what)?;
        }
        let Some(communicator) = self.nccl.communicators.get_mut(&key) else {
            return Ok(true);
        };
        if communicator.has_ended() || communication.current().is_empty() {
            communicator.done += 1;
            return Ok(true);
        }
        Ok(false)
    }

    /// Looks at all that it touches: nobody else may touch it from now until it's done.
    fn begin(&mut self, communication: &Communication, actor: &mut Actor, what: &str) -> Answer {
        let stamp = actor.clock.tick(actor.lane, what.into());
        let seat = self.nccl.communicators[&communication.communicator].seat;
        for part in &communication.parts {
            let accesses = part.operation.accesses(seat);
            if let Some(ranges) = &part.declared.ranges {
                self.within(&accesses, ranges, what)?;
            }
            for access in accesses {
                self.note(access, &actor.clock, &stamp)?;
            }
        }
        Ok(())
    }

    fn advance(&mut self, communication: &mut Communication, what: &str) -> Answer {
        let Some(communicator) = self.nccl.communicators.get_mut(&communication.communicator) else {
            return Ok(());
        };
        for index in communication.current() {
            let Part { operation, progress, .. } = &mut communication.parts[index];
            let device = &mut self.device.0;
            let is_message = operation.is_message();
            let result = match is_message {
                true if channel::is_able(operation, communicator) => {
                    channel::step(operation, communicator, progress, device)
                }
                false if collective::is_able(communicator, *progress) => {
                    collective::step(operation, communicator, progress, device)
                }
                _ => Ok(()),
            };
            match result {
                Ok(()) => {}
                Err(Trouble::Fault(fault)) => return illegal(format!("{what}: {}", fault.0)),
                Err(Trouble::Mismatch(text)) => {
                    let text = communicator.fail(Code::InvalidUsage, &text);
                    log("NCCL", &text);
                    self.nccl.remember(&text);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Ends what is queued of a communicator, and takes its handle away.
    pub fn leave(&mut self, key: u64) {
        if let Some(communicator) = self.nccl.communicators.get_mut(&key) {
            communicator.go();
        }
        users::forget(key);
    }
}
