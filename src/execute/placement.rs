//! A rank's step, laid out: every instruction of its program with the memory that its buffers lie in and the
//! instructions that it waits for. Both are the program's; nothing is added here.

use std::collections::HashMap;

use crate::execute::arena::Region;
use crate::execute::counters::Counters;
use crate::lower::{Category, Stream};
use crate::ops::Op;
use crate::program::instruction::{Cause, Holds, Message, Task};
use crate::program::issue_order::{Clock, Instance, Issued, Waits};
use crate::program::placing::{Placing, place};
use crate::program::{BufferId, RankProgram};
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
    pub allocates: Box<[Region]>,
    pub frees: Box<[Region]>,
    /// Whole parameters of its unit.
    pub parameters: Option<Region>,
    /// The gradient of its unit that it adds to or sums.
    pub gradient: Option<Region>,
    /// The gradient was not there before: it starts at zero.
    pub starts_gradient: bool,
    /// Host memory that it copies to or from.
    pub host: Region,
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
    pub device: Counters,
    pub host: Counters,
    /// The first instruction behind which gradients are summed up and the optimizer works.
    pub halt: usize,
    /// Bytes from the first to the last address.
    pub device_extent: Bytes,
    pub host_extent: Bytes,
}

impl Placement {
    /// Lays out `program`.
    pub fn new(program: &RankProgram) -> Self {
        let placing = place(program);
        let mut binder = Binder::new(program, &placing);
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

    /// Host bytes held over the whole run.
    pub fn host_state(&self) -> u64 {
        self.states.iter().map(|state| Bytes(state.host.bytes as u64).aligned().0).sum()
    }

    /// The persistent buffer that holds `holds`, of `unit` if it is a unit's.
    pub fn state(&self, holds: Holds, unit: Option<u32>) -> Option<&State> {
        self.states.iter().find(|state| state.holds == holds && state.unit == unit)
    }
}

struct Binder<'a> {
    program: &'a RankProgram,
    placing: &'a Placing,
    done: Placement,
    /// Buffers taken so far, of the device and of the host.
    taken: [usize; 2],
    live: HashMap<Instance, (Region, Category)>,
    stashed: HashMap<(u32, u32, u32), Region>,
}

impl<'a> Binder<'a> {
    fn new(program: &'a RankProgram, placing: &'a Placing) -> Self {
        let mut done = Placement {
            issues: Vec::with_capacity(program.instruction_count()),
            streams: Default::default(),
            states: Vec::new(),
            device: Counters::default(),
            host: Counters::default(),
            halt: 0,
            device_extent: placing.device.extent,
            host_extent: placing.host.extent,
        };
        let regions = placing.device.kept.iter().zip(&placing.host.kept);
        for (state, (&device, &host)) in program.persistent.iter().zip(regions) {
            let category = state.holds.category();
            done.device.take(category, state.device);
            done.host.take(category, state.host);
            done.states.push(State { holds: state.holds, unit: state.unit, device, host });
        }
        Self { program, placing, done, taken: [0; 2], live: HashMap::new(), stashed: HashMap::new() }
    }

    fn issue(&mut self, issued: &Issued<'_>, waits: Waits) -> Issue {
        let instruction = issued.instruction;
        let buffers = &self.program.frames[issued.frame as usize].buffers;
        let mut allocates = Vec::with_capacity(instruction.allocates.len());
        for &id in &instruction.allocates {
            let buffer = &buffers[id as usize];
            let region = self.placing.device.taken[self.taken[0]];
            self.taken[0] += 1;
            self.done.device.take(buffer.category, buffer.bytes);
            self.live.insert(issued.instance(id), (region, buffer.category));
            allocates.push(region);
        }
        let (host, given_back) = self.stash(issued);
        self.done.device.mark(self.done.issues.len());
        self.done.host.mark(self.done.issues.len());
        self.done.host.give(Category::Activations, given_back);

        let region = |id: &BufferId| {
            let Some((region, _)) = self.live.get(&issued.instance(*id)) else {
                unreachable!("a verified program uses no buffer that is not there")
            };
            *region
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
        let mut frees = Vec::new();
        for instance in self.program.frees(issued) {
            if let Some((region, category)) = self.live.remove(&instance) {
                self.done.device.give(category, Bytes(region.bytes as u64));
                frees.push(region);
            }
        }
        issue.frees = frees.into();
        issue
    }

    /// Finds the parameters and gradients that an instruction works on.
    fn state(&self, issued: &Issued<'_>, issue: &mut Issue) {
        let Some(unit) = issue.unit else { return };
        let units = &self.program.frames[issued.frame as usize].units;
        let Some(buffers) = units.iter().find(|buffers| buffers.unit == unit) else { return };
        let in_frame = |id: Option<BufferId>| {
            id.and_then(|id| self.live.get(&issued.instance(id))).map(|(region, _)| *region)
        };
        let kept = |holds| self.done.state(holds, Some(unit)).map(|state| state.device);
        match issue.task {
            Task::Kernel { adds_gradient, .. } => {
                issue.parameters = in_frame(buffers.gathered)
                    .or_else(|| kept(Holds::GatheredParameters))
                    .or_else(|| in_frame(buffers.fetched))
                    .or_else(|| kept(Holds::Parameters));
                if adds_gradient {
                    issue.gradient = in_frame(buffers.gradient).or_else(|| kept(Holds::Gradients));
                    issue.starts_gradient =
                        buffers.gradient.is_some_and(|id| issued.instruction.allocates.contains(&id));
                }
            }
            Task::AddGradient { .. } => issue.gradient = kept(Holds::Gradients),
            Task::GatherParameters(_) => {
                issue.parameters = in_frame(buffers.gathered).or_else(|| kept(Holds::GatheredParameters));
            }
            Task::ReduceGradient(_) => {
                issue.gradient = in_frame(buffers.gradient).or_else(|| kept(Holds::Gradients));
            }
            Task::KeepGradient => issue.gradient = in_frame(buffers.gradient),
            _ => {}
        }
    }

    /// Host memory of saved activations, taken on their way out and given back on their way in: where it lies, and the
    /// bytes that are given back.
    fn stash(&mut self, issued: &Issued<'_>) -> (Region, Bytes) {
        let Some(unit) = issued.instruction.unit else { return (Region::default(), Bytes::ZERO) };
        let key = (issued.frame, issued.micro, unit);
        match issued.instruction.task {
            Task::StashActivations => {
                let region = self.placing.host.taken[self.taken[1]];
                self.taken[1] += 1;
                self.done.host.take(Category::Activations, Bytes(region.bytes as u64));
                self.stashed.insert(key, region);
                (region, Bytes::ZERO)
            }
            Task::UnstashActivations => {
                let Some(region) = self.stashed.remove(&key) else {
                    unreachable!("a verified program brings back what it took away")
                };
                (region, Bytes(region.bytes as u64))
            }
            _ => (Region::default(), Bytes::ZERO),
        }
    }
}
