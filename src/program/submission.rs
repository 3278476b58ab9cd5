//! The order in which each stage submits what it does: its part of one order of all that happens in a step.
//!
//! Libraries that run collectives on GPUs ask that all ranks submit them in one order, or they may wait for each other
//! for ever. What ranks do together are collectives, also those of several stages, and messages, which the sender sends
//! when the receiver posts room for them. Each of these is one event of the whole step here. Events follow one another as
//! streams, waits and messages ask, and among those that may come next, the one that starts first is next.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use smallvec::SmallVec;

use crate::lower::Stream;
use crate::ops::{Group, Op};
use crate::program::fault::Fault;
use crate::program::instruction::{Message, Program, RankProgram, Task};
use crate::program::issue_order::Clock;
use crate::strategy::mesh::Group as MeshGroup;
use crate::units::Seconds;

/// One thing that a rank submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// Its instruction of this number, in issue order.
    Instruction(u32),
    /// Room for a message of another stage: its inbox, which is free by then.
    Post { message: Message, micro: u32 },
}

/// By stage, what each of its ranks submits, in order. `start` says when an instruction of a stage starts, by its number
/// in issue order.
///
/// # Errors
/// [`Fault::Deadlock`] at the first instruction of a stage that would never be submitted.
pub fn submissions(
    program: &Program,
    start: impl Fn(usize, u32) -> Seconds,
) -> Result<Vec<Vec<Submitted>>, Fault> {
    let mut events = Events::of(program);
    let mut order: Vec<Vec<Submitted>> = program.ranks.iter().map(|_| Vec::new()).collect();
    // Times are not negative, so that their bits are in their order.
    let key = |event: &Event| {
        let starts = event
            .members
            .iter()
            .map(|&(stage, number)| (start(stage as usize, number).0.to_bits(), stage, number));
        starts.max()
    };
    let mut ready: BinaryHeap<_> = (0..events.list.len() as u32)
        .filter(|&event| events.list[event as usize].before == 0)
        .map(|event| Reverse((key(&events.list[event as usize]), event)))
        .collect();
    while let Some(Reverse((_, event))) = ready.pop() {
        let Event { members, post, .. } = &events.list[event as usize];
        for &(stage, number) in members {
            order[stage as usize].push(Submitted::Instruction(number));
        }
        if let Some((stage, message, micro)) = *post {
            order[stage as usize].push(Submitted::Post { message, micro });
        }
        for after in std::mem::take(&mut events.list[event as usize].after) {
            let next = &mut events.list[after as usize];
            next.before -= 1;
            if next.before == 0 {
                ready.push(Reverse((key(next), after)));
            }
        }
    }
    let stuck = events.list.iter().filter(|event| event.before > 0).flat_map(|event| &event.members);
    match stuck.min() {
        Some(&(stage, number)) => Err(deadlock(&program.ranks[stage as usize], number)),
        None => Ok(order),
    }
}

/// Something that happens in a step, on one stage or on several at once.
#[derive(Default)]
struct Event {
    /// Stages, and the numbers of their instructions.
    members: SmallVec<[(u32, u32); 1]>,
    /// The stage that posts room for what it sends.
    post: Option<(u32, Message, u32)>,
    /// The number of events that must come before it.
    before: u32,
    /// The events that must come after it.
    after: SmallVec<[u32; 4]>,
}

#[derive(Default)]
struct Events {
    list: Vec<Event>,
    /// Collectives of several stages: the group, and how many of its own come before.
    shared: HashMap<(Group, u32), u32>,
    /// By message, its stages and the events in which it is sent and received.
    sent: HashMap<(Message, u32), (u32, u32)>,
    received: HashMap<(Message, u32), (u32, u32)>,
}

impl Events {
    fn of(program: &Program) -> Self {
        let mut events = Self::default();
        for (stage, rank) in (0..).zip(&program.ranks) {
            events.add(stage, rank);
        }
        events.join_messages(program);
        events
    }

    /// Adds the instructions of one stage.
    fn add(&mut self, stage: u32, rank: &RankProgram) {
        let mut clock = Clock::default();
        let mut streams: [Vec<u32>; Stream::ALL.len()] = Default::default();
        let mut calls_of = [0_u32; Group::COUNT];
        for (number, issued) in (0..).zip(rank.issued()) {
            let instruction = issued.instruction;
            let event = match &instruction.op {
                // Ranks of one stage submit alike.
                Op::Collective(collective) if MeshGroup::of(collective.group).is_none() => {
                    let calls = &mut calls_of[collective.group as usize];
                    *calls += 1;
                    self.shared_event((collective.group, *calls))
                }
                _ => self.event(),
            };
            self.list[event as usize].members.push((stage, number));
            let (waits, _) = clock.next(&issued);
            for (stream, &count) in streams.iter().zip(&waits) {
                if let Some(last) = (count as usize).checked_sub(1) {
                    self.follow(stream[last], event);
                }
            }
            streams[instruction.stream as usize].push(event);
            match (instruction.task, instruction.message) {
                (Task::Send, Some(message)) => _ = self.sent.insert((message, issued.micro), (stage, event)),
                (Task::Receive, Some(message)) => {
                    self.received.insert((message, issued.micro), (stage, event));
                }
                _ => {}
            }
        }
    }

    /// A message is received after it was sent, and posted when the one before it was received.
    fn join_messages(&mut self, program: &Program) {
        let sent: Vec<_> = self.sent.iter().map(|(&message, &sent)| (message, sent)).collect();
        for ((message, micro), (from, sends)) in sent {
            let Some(&(to, receives)) = self.received.get(&(message, micro)) else { continue };
            self.follow(sends, receives);
            if from != to {
                self.list[sends as usize].post = Some((to, message, micro));
            }
            let before = micro.checked_sub(1).and_then(|before| self.received.get(&(message, before)));
            if let Some(&(_, before)) = before.filter(|_| program.ranks[to as usize].has_inboxes) {
                self.follow(before, sends);
            }
        }
    }

    fn event(&mut self) -> u32 {
        self.list.push(Event::default());
        self.list.len() as u32 - 1
    }

    fn shared_event(&mut self, key: (Group, u32)) -> u32 {
        if let Some(&event) = self.shared.get(&key) {
            return event;
        }
        let event = self.event();
        self.shared.insert(key, event);
        event
    }

    fn follow(&mut self, before: u32, after: u32) {
        self.list[before as usize].after.push(after);
        self.list[after as usize].before += 1;
    }
}

/// The fault that instruction `number` of `rank` never comes.
fn deadlock(rank: &RankProgram, number: u32) -> Fault {
    let (call, index) =
        rank.issued().nth(number as usize).map_or((0, 0), |issued| (issued.call, issued.index));
    Fault::Deadlock { rank: rank.stage, call, index }
}
