//! Checks a program before anything interprets it: what does not verify is a bug of ours and is never run.
//!
//! Of any two instructions that touch the same memory, one of which writes, one must be known to be done when the other
//! begins: by its stream, by its waits, or by those of instructions between. A buffer is the same memory as all that
//! were freed before it was taken, wherever they come to lie. What only other ranks' messages order counts as
//! unordered.

use std::collections::HashMap;

use crate::lower::Stream;
use crate::ops::Op;
use crate::program::access::{Access, Kept};
use crate::program::fault::{Fault, Place};
use crate::program::instruction::{Message, Program, RankProgram, Task};
use crate::program::issue_order::{Clock, Instance, Issued, Waits};
use crate::program::submission::submissions;
use crate::units::Seconds;

/// Verifies `program`: conflicting instructions are ordered, buffers are allocated before use, written before they are
/// read and freed once, nothing leaks over the step, every message sent is received, and all ranks can submit their work in
/// one order, in which no message stands in the way of another. Collectives of one stage need no check of their own: all
/// members run one rank program, so their order is one by construction.
///
/// # Errors
/// The first fault found.
pub fn verify(program: &Program) -> Result<(), Fault> {
    for rank in &program.ranks {
        Checker::new(rank).check()?;
    }
    check_messages(program)?;
    submissions(program, |_, _| Seconds::ZERO).map(drop)
}

/// By stream, how many instructions have touched something.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    all: Waits,
    writers: Waits,
}

/// What a buffer holds and who used it.
#[derive(Clone, Copy, Debug, Default)]
struct Live {
    uses: Uses,
    written: bool,
}

struct Checker<'a> {
    rank: &'a RankProgram,
    /// By stream and position: what is done for certain when that instruction is.
    done: [Vec<Waits>; Stream::ALL.len()],
    places: [Vec<Place>; Stream::ALL.len()],
    live: HashMap<Instance, Live>,
    stashed: HashMap<(u32, u32, u32), Uses>,
    /// The users of all device and host memory that was freed.
    freed: Waits,
    freed_on_host: Waits,
    kept: HashMap<Kept, Vec<(Access, Uses)>>,
    /// The instructions of all passes, and the first of the step.
    passes: Waits,
    /// Kernels issued so far.
    computed: u32,
    /// The last receive of the present call, if kernels wait for it in their queue.
    received: u32,
}

fn join(waits: &mut Waits, others: &Waits) {
    for (wait, other) in waits.iter_mut().zip(others) {
        *wait = (*wait).max(*other);
    }
}

impl<'a> Checker<'a> {
    fn new(rank: &'a RankProgram) -> Self {
        Self {
            rank,
            done: Default::default(),
            places: Default::default(),
            live: HashMap::new(),
            stashed: HashMap::new(),
            freed: Waits::default(),
            freed_on_host: Waits::default(),
            kept: HashMap::new(),
            passes: Waits::default(),
            computed: 0,
            received: 0,
        }
    }

    fn check(mut self) -> Result<(), Fault> {
        let mut clock = Clock::default();
        for issued in self.rank.issued() {
            let Issued { call, index, instruction, .. } = issued;
            let at = Place { rank: self.rank.stage, call, index, task: instruction.task };
            if let Some(&waits) = instruction.waits.iter().find(|&&wait| wait >= index) {
                return Err(Fault::WaitsForward { at, waits });
            }
            let (waits, position) = clock.next(&issued);
            let mut before = waits;
            for (stream, &count) in waits.iter().enumerate() {
                if let Some(last) = (count as usize).checked_sub(1) {
                    join(&mut before, &self.done[stream][last]);
                }
            }
            self.one(&issued, at, &before, position)?;
            before[instruction.stream as usize] = position + 1;
            self.done[instruction.stream as usize].push(before);
            self.places[instruction.stream as usize].push(at);
        }
        match self.live.keys().min() {
            Some(&Instance { frame, buffer, .. }) => Err(Fault::Leak {
                rank: self.rank.stage,
                count: self.live.len(),
                buffer: self.rank.frames[frame as usize].buffers[buffer as usize].name,
            }),
            None => Ok(()),
        }
    }

    /// Checks one instruction, before which everything in `before` is done.
    fn one(&mut self, issued: &Issued<'_>, at: Place, before: &Waits, position: u32) -> Result<(), Fault> {
        let Issued { instruction, frame, .. } = *issued;
        let stream = instruction.stream as usize;
        let name = |buffer: u32| self.rank.frames[frame as usize].buffers[buffer as usize].name;
        let wrong = |buffer, what| Fault::Buffer { at, buffer: name(buffer), what };
        self.follow_rules(issued, at, before)?;
        for &buffer in &instruction.allocates {
            self.ordered(at, before, &self.freed, || {
                format!("{} may take memory that it has used", name(buffer))
            })?;
            if self.live.insert(issued.instance(buffer), Live::default()).is_some() {
                return Err(wrong(buffer, "allocated twice"));
            }
        }
        let reads = instruction.reads.iter().map(|&buffer| (buffer, false));
        let uses = reads.chain(instruction.writes.iter().map(|&buffer| (buffer, true)));
        for (buffer, writes) in uses.clone() {
            let Some(&live) = self.live.get(&issued.instance(buffer)) else {
                return Err(wrong(buffer, "used while it is not allocated"));
            };
            if !writes && !live.written {
                return Err(wrong(buffer, "read before anything is written to it"));
            }
            let users = if writes { &live.uses.all } else { &live.uses.writers };
            self.ordered(at, before, users, || format!("both use {}", name(buffer)))?;
        }
        for (buffer, writes) in uses {
            if let Some(live) = self.live.get_mut(&issued.instance(buffer)) {
                live.uses.add(stream, position, writes);
                live.written |= writes;
            }
        }
        for instance in self.rank.frees(issued) {
            let name = self.rank.frames[instance.frame as usize].buffers[instance.buffer as usize].name;
            let Some(live) = self.live.remove(&instance) else {
                return Err(Fault::Buffer { at, buffer: name, what: "freed while it is not allocated" });
            };
            let mut users = live.uses.all;
            users[stream] = users[stream].min(position);
            self.ordered(at, before, &users, || format!("it frees {name}"))?;
            self.freed[stream] = self.freed[stream].max(position + 1);
        }
        self.stash(issued, at, before, position)?;
        self.touch_kept(issued, at, before, position)
    }

    /// What an engine orders beside memory: collectives between kernels behind the kernels issued before them; receives
    /// in the queue of the kernels before those issued behind them; the optimizer step behind all passes.
    fn follow_rules(&mut self, issued: &Issued<'_>, at: Place, before: &Waits) -> Result<(), Fault> {
        let mut rule = Waits::default();
        if self.rank.templates[issued.template as usize].pass.is_none() {
            let issued_before = std::array::from_fn(|stream| self.places[stream].len() as u32);
            let first = if issued.index == 0 { issued_before } else { self.passes };
            self.ordered(at, before, &first, || "the step begins behind all passes".to_owned())?;
            if issued.index == 0 {
                self.passes = issued_before;
                self.passes[Stream::Compute as usize] += 1;
            }
        }
        match issued.instruction.stream {
            Stream::Model => {
                rule[Stream::Compute as usize] = self.computed;
                self.ordered(at, before, &rule, || "its stream follows the kernels".to_owned())?;
            }
            Stream::Compute => {
                rule[Stream::Receive as usize] = self.received;
                self.ordered(at, before, &rule, || "receives hold the kernels up".to_owned())?;
                self.computed += 1;
            }
            Stream::Receive if self.rank.sends_from_kernels() => self.received += 1,
            _ => {}
        }
        Ok(())
    }

    /// Saved activations on the host: taken on their way out, given back on their way in.
    fn stash(&mut self, issued: &Issued<'_>, at: Place, before: &Waits, position: u32) -> Result<(), Fault> {
        let Issued { instruction, frame, micro, .. } = *issued;
        let Some(unit) = instruction.unit else { return Ok(()) };
        let key = (frame, micro, unit);
        match instruction.task {
            Task::StashActivations => {
                self.ordered(at, before, &self.freed_on_host, || {
                    "host memory that it has used may be taken".to_owned()
                })?;
                let mut uses = Uses::default();
                uses.add(instruction.stream as usize, position, true);
                self.stashed.insert(key, uses);
            }
            Task::UnstashActivations => {
                let Some(uses) = self.stashed.remove(&key) else {
                    let what = "brought back before they are there";
                    return Err(Fault::Buffer { at, buffer: "saved activations", what });
                };
                self.ordered(at, before, &uses.writers, || {
                    "activations leave before they return".to_owned()
                })?;
                let slot = &mut self.freed_on_host[instruction.stream as usize];
                *slot = (*slot).max(position + 1);
            }
            _ => {}
        }
        Ok(())
    }

    fn touch_kept(
        &mut self,
        issued: &Issued<'_>,
        at: Place,
        before: &Waits,
        position: u32,
    ) -> Result<(), Fault> {
        let accesses = self.rank.standing(issued.template as usize).accesses(issued.instruction);
        for access in &accesses {
            for (other, uses) in self.kept.get(&access.kept).into_iter().flatten() {
                if access.conflicts(&Access { writes: true, ..*other }) {
                    let users = if access.writes { &uses.all } else { &uses.writers };
                    self.ordered(at, before, users, || format!("both use {:?}", access.kept))?;
                }
            }
        }
        for access in accesses {
            let known = self.kept.entry(access.kept).or_default();
            let same =
                |(other, _): &&mut (Access, Uses)| (other.unit, other.owned) == (access.unit, access.owned);
            let stream = issued.instruction.stream as usize;
            match known.iter_mut().find(same) {
                Some((_, uses)) => uses.add(stream, position, access.writes),
                None => {
                    let mut uses = Uses::default();
                    uses.add(stream, position, access.writes);
                    known.push((access, uses));
                }
            }
        }
        Ok(())
    }

    /// Whether all `users` are in `before`.
    fn ordered(
        &self,
        later: Place,
        before: &Waits,
        users: &Waits,
        why: impl FnOnce() -> String,
    ) -> Result<(), Fault> {
        let Some(stream) = (0..users.len()).find(|&stream| users[stream] > before[stream]) else {
            return Ok(());
        };
        let earlier = self.places[stream][users[stream] as usize - 1];
        Err(Fault::Unordered { earlier: Box::new(earlier), later: Box::new(later), why: why() })
    }
}

impl Uses {
    fn add(&mut self, stream: usize, position: u32, writes: bool) {
        self.all[stream] = position + 1;
        if writes {
            self.writers[stream] = position + 1;
        }
    }
}

impl RankProgram {
    /// Whether messages stand in the queue of the kernels.
    fn sends_from_kernels(&self) -> bool {
        let mut instructions = self.templates.iter().flat_map(|template| &template.instructions);
        instructions.any(|one| one.task == Task::Send && one.stream == Stream::Compute)
    }
}

/// Of every message of a micro-batch, the rank that sends it and the rank that receives it.
fn check_messages(program: &Program) -> Result<(), Fault> {
    let mut ends: HashMap<(Message, u32), [Option<u32>; 2]> = HashMap::new();
    for rank in &program.ranks {
        for Issued { instruction, micro, .. } in rank.issued() {
            let Some(message) = instruction.message else { continue };
            let is_send = matches!(instruction.op, Op::Send(_));
            let end = &mut ends.entry((message, micro)).or_default()[usize::from(!is_send)];
            if end.replace(rank.stage).is_some() {
                return Err(Fault::Unreceived { rank: rank.stage, message, micro });
            }
        }
    }
    for ((message, micro), ends) in ends {
        match ends {
            [Some(rank), None] => return Err(Fault::Unreceived { rank, message, micro }),
            [None, Some(rank)] => return Err(Fault::Unsent { rank, message, micro }),
            _ => {}
        }
    }
    Ok(())
}
