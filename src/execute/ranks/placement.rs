//! A rank's step, laid out: every instruction of its program with the memory that its buffers lie in and the
//! instructions that it waits for. Both are the program's; nothing is added here.

use std::collections::HashMap;
use std::sync::Arc;

use crate::lower::{Category, Stream};
use crate::ops::Op;
use crate::program::instruction::{Cause, Holds, Message, Task};
use crate::program::issue_order::{Clock, Instance, Issued, Waits};
use crate::program::placing::Region;
use crate::program::placing::{Extent, Placing, place};
use crate::program::submission::Submitted;
use crate::program::{BufferId, Persistent, RankProgram};
use crate::simulate::Counters;
use crate::units::Bytes;

/// One instruction of a step in its place.
#[derive(Clone, Debug)]
pub struct Issue {
    pub op: Op,
    pub task: Task,
    pub stream: Stream,
    pub cause: Cause,
    pub unit: Option<u32>,
    pub message: Option<Message>,
    pub micro: u32,
    pub call: u32,
    pub instruction: u32,
    pub waits: Waits,
    pub reads: Box<[Region]>,
    pub writes: Box<[Region]>,
    /// Allocated here: filled before use where the run asks for it.
    pub allocates: Box<[Held]>,
    pub frees: Box<[Held]>,
    /// Whole parameters of its unit.
    pub parameters: Option<Region>,
    /// The gradient of its unit that it adds to or sums.
    pub gradient: Option<Region>,
    /// The gradient was not there before: it starts at zero.
    pub starts_gradient: bool,
    /// Host memory that it copies to or from.
    pub host: Region,
}

/// A buffer in its place, and what its memory is put down to.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub region: Region,
    pub category: Category,
}

/// A persistent buffer in its place.
#[derive(Clone, Copy, Debug)]
pub struct State {
    pub holds: Holds,
    pub unit: Option<u32>,
    pub device: Region,
    pub host: Region,
}

/// A rank's step, laid out.
#[derive(Debug)]
pub struct Placement {
    /// In issue order.
    pub issues: Vec<Issue>,
    /// For each stream, its instructions by index.
    pub streams: [Vec<u32>; Stream::ALL.len()],
    pub states: Vec<State>,
    /// Which unit's instructions are the first to write to the gradient of a table that is lent.
    pub table_starts_with: Option<u32>,
    /// The first instruction behind which gradients are summed up and the optimizer works.
    pub halt: usize,
    pub placing: Placing,
}

impl Placement {
    /// Whether a step that is halted before the optimizer has done what was submitted.
    pub fn is_before_optimizer(&self, submitted: Submitted) -> bool {
        match submitted {
            Submitted::Instruction(number) => (number as usize) < self.halt,
            Submitted::Post { .. } => true,
        }
    }

    /// Lays out `program`.
    pub fn new(program: &RankProgram) -> Self {
        let mut binder = Binder::new(program, place(program, Extent::default()));
        let mut clock = Clock::default();
        for issued in program.issued() {
            let (mut waits, _) = clock.next(&issued);
            waits[issued.instruction.stream as usize] = 0;
            let issue = binder.issue(&issued, waits);
            binder.done.streams[issue.stream as usize].push(binder.done.issues.len() as u32);
            binder.done.issues.push(issue);
        }
        let updates = |issue: &Issue| {
            let task = issue.task;
            matches!(task, Task::GradientSquares | Task::HostGradients(_) | Task::DeviceStep(_))
        };
        let mut done = binder.done;
        done.halt = done.issues.iter().position(updates).unwrap_or(done.issues.len());
        done
    }

    /// By instruction of `stream`, whether another stream waits for its end.
    pub fn awaited(&self, stream: Stream) -> Vec<bool> {
        let mut awaited = vec![false; self.streams[stream as usize].len()];
        for issue in self.issues.iter().filter(|issue| issue.stream != stream) {
            if let Some(last) = issue.waits[stream as usize].checked_sub(1) {
                awaited[last as usize] = true;
            }
        }
        awaited
    }

    /// What a rank holds of device and host memory whose instructions are those that are `performed`.
    pub fn counted(&self, performed: impl Fn(usize) -> bool) -> (Counters, Counters) {
        let (mut device, mut host) = (Counters::default(), Counters::default());
        for state in &self.states {
            device.take(state.holds.category(), memory(state.device));
            host.take(state.holds.category(), memory(state.host));
        }
        device.look(None);
        host.look(None);
        for (index, issue) in self.issues.iter().enumerate().filter(|(index, _)| performed(*index)) {
            issue.allocates.iter().for_each(|held| device.take(held.category, memory(held.region)));
            if issue.task == Task::StashActivations {
                host.take(Category::Activations, memory(issue.host));
            }
            device.look(Some(index));
            host.look(Some(index));
            issue.frees.iter().for_each(|held| device.give(held.category, memory(held.region)));
            if issue.task == Task::UnstashActivations {
                host.give(Category::Activations, memory(issue.host));
            }
        }
        (device, host)
    }

    /// Behind the last byte that the state or an instruction of a step writes to, on device and host.
    pub fn written(&self) -> (usize, usize) {
        let end = |region: Region| region.offset + region.bytes;
        let written = self.issues.iter().flat_map(|issue| issue.writes.iter().copied());
        let device = self.states.iter().map(|state| state.device).chain(written);
        let host =
            self.states.iter().map(|state| state.host).chain(self.issues.iter().map(|issue| issue.host));
        (device.map(end).max().unwrap_or(0), host.map(end).max().unwrap_or(0))
    }

    /// The persistent buffer that holds `holds`, of `unit` if it is a unit's.
    pub fn state(&self, holds: Holds, unit: Option<u32>) -> Option<&State> {
        self.states.iter().find(|state| state.holds == holds && state.unit == unit)
    }
}

/// Stages whose step is laid out.
#[derive(Clone, Copy)]
pub enum Stages<'a> {
    All(&'a [Arc<Placement>]),
    /// That of a rank whose peers are other processes: what they have is theirs to know.
    Own(&'a Arc<Placement>),
}

impl<'a> Stages<'a> {
    /// The step of `stage`, which the rank in question is of.
    pub const fn own(self, stage: usize) -> &'a Arc<Placement> {
        match self {
            Self::All(all) => &all[stage],
            Self::Own(own) => own,
        }
    }
}

/// What a region takes of its space.
fn memory(region: Region) -> Bytes {
    Bytes(region.bytes as u64).aligned()
}

struct Binder<'a> {
    program: &'a RankProgram,
    done: Placement,
    /// Buffers taken so far, of the device and of the host.
    taken: [usize; 2],
    live: HashMap<Instance, Held>,
    stashed: HashMap<(u32, u32, u32), Region>,
}

impl<'a> Binder<'a> {
    fn new(program: &'a RankProgram, placing: Placing) -> Self {
        let mut done = Placement {
            issues: Vec::with_capacity(program.instruction_count()),
            streams: Default::default(),
            states: Vec::new(),
            table_starts_with: program.table_starts_with,
            halt: 0,
            placing,
        };
        let regions = done.placing.device.kept.iter().zip(&done.placing.host.kept);
        let place = |(state, (&device, &host)): (&Persistent, (&Region, &Region))| State {
            holds: state.holds,
            unit: state.unit,
            device,
            host,
        };
        done.states = program.persistent.iter().zip(regions).map(place).collect();
        Self { program, done, taken: [0; 2], live: HashMap::new(), stashed: HashMap::new() }
    }

    fn issue(&mut self, issued: &Issued<'_>, waits: Waits) -> Issue {
        let instruction = issued.instruction;
        let buffers = &self.program.frames[issued.frame as usize].buffers;
        let mut allocates = Vec::with_capacity(instruction.allocates.len());
        for &id in &instruction.allocates {
            let buffer = &buffers[id as usize];
            let region = self.done.placing.device.taken[self.taken[0]];
            self.taken[0] += 1;
            let held = Held { region, category: buffer.category };
            self.live.insert(issued.instance(id), held);
            allocates.push(held);
        }
        let host = self.stash(issued);
        let region = |id: &BufferId| {
            let Some(held) = self.live.get(&issued.instance(*id)) else {
                unreachable!("a verified program uses no buffer that is not there")
            };
            held.region
        };
        let mut issue = Issue {
            op: instruction.op,
            task: instruction.task,
            stream: instruction.stream,
            cause: instruction.cause,
            unit: instruction.unit,
            message: instruction.message,
            micro: issued.micro,
            call: issued.call,
            instruction: issued.index,
            waits,
            reads: instruction.reads.iter().map(region).collect(),
            writes: instruction.writes.iter().map(region).collect(),
            allocates: allocates.into(),
            frees: Box::default(),
            parameters: None,
            gradient: None,
            starts_gradient: false,
            host,
        };
        self.state(issued, &mut issue);
        let freed = self.program.frees(issued).filter_map(|instance| self.live.remove(&instance));
        issue.frees = freed.collect();
        issue
    }

    /// Finds the parameters and gradients that an instruction works on.
    fn state(&self, issued: &Issued<'_>, issue: &mut Issue) {
        let Some(unit) = issue.unit else { return };
        let units = &self.program.frames[issued.frame as usize].units;
        let Some(buffers) = units.iter().find(|buffers| buffers.unit == unit) else { return };
        let in_frame = |id: Option<BufferId>| {
            id.and_then(|id| self.live.get(&issued.instance(id))).map(|held| held.region)
        };
        let kept = |holds| self.done.state(holds, Some(unit)).map(|state| state.device);
        match issue.task {
            Task::Kernel { adds_gradient, .. } => {
                issue.parameters = in_frame(buffers.gathered)
                    .or_else(|| kept(Holds::GatheredParameters))
                    .or_else(|| in_frame(buffers.fetched))
                    .or_else(|| kept(Holds::Parameters));
                if adds_gradient {
                    issue.gradient = in_frame(buffers.own_gradient()).or_else(|| kept(Holds::Gradients));
                    issue.starts_gradient =
                        buffers.own_gradient().is_some_and(|id| issued.instruction.allocates.contains(&id));
                }
            }
            Task::AddGradient { .. } => issue.gradient = kept(Holds::Gradients),
            Task::GatherParameters(_) => {
                issue.parameters = in_frame(buffers.gathered).or_else(|| kept(Holds::GatheredParameters));
            }
            Task::ReduceGradient(_) => {
                issue.gradient = in_frame(buffers.own_gradient()).or_else(|| kept(Holds::Gradients));
            }
            Task::KeepGradient { .. } => issue.gradient = in_frame(buffers.own_gradient()),
            _ => {}
        }
    }

    /// Where saved activations lie on the host.
    fn stash(&mut self, issued: &Issued<'_>) -> Region {
        let Some(unit) = issued.instruction.unit else { return Region::default() };
        let key = (issued.frame, issued.micro, unit);
        match issued.instruction.task {
            Task::StashActivations => {
                let region = self.done.placing.host.taken[self.taken[1]];
                self.taken[1] += 1;
                self.stashed.insert(key, region);
                region
            }
            Task::UnstashActivations => {
                let Some(region) = self.stashed.remove(&key) else {
                    unreachable!("a verified program brings back what it took away")
                };
                region
            }
            _ => Region::default(),
        }
    }
}
