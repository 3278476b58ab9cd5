//! Lays out a rank's step: every instruction with the memory that its buffers get and the instructions that must be
//! done before.
//!
//! Memory is handed out in issue order, so it is the same in every run. What a program leaves open is added here: an
//! instruction also waits for those that used its memory before, or the state that it touches.

use std::collections::HashMap;

use crate::execute::arena::{ALIGNMENT, Region};
use crate::execute::counters::Counters;
use crate::lower::{Category, Stream};
use crate::ops::Op;
use crate::program::instruction::{Cause, Holds, Message, Task};
use crate::program::{BufferId, Instruction, RankProgram};

/// For each stream, how many of its instructions must be done.
pub type Waits = [u32; Stream::ALL.len()];

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
    /// Messages that were sent out of the memory that it takes, with their micro-batches.
    pub retires: Box<[(Message, u32)]>,
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
    pub device_bytes: usize,
    pub host_bytes: usize,
}

impl Placement {
    /// Lays out `program`; `lenders` names units that use the table of another unit of the rank, and which.
    pub fn new(program: &RankProgram, lenders: &[(u32, u32)]) -> Self {
        let mut planner = Planner::new(program, lenders);
        for (index, call) in program.calls.iter().enumerate() {
            planner.call(index as u32, call.template as usize, call.micro);
        }
        let updates = |issue: &Issue| {
            let task = issue.task;
            matches!(task, Task::GradientSquares | Task::HostGradients(_) | Task::DeviceStep(_))
        };
        let issues = &planner.done.issues;
        planner.done.halt = issues.iter().position(updates).unwrap_or(issues.len());
        planner.done.device_bytes = planner.device.end;
        planner.done.host_bytes = planner.host.end;
        planner.done
    }

    /// Host bytes held over the whole run.
    pub fn host_state(&self) -> u64 {
        self.states.iter().map(|state| state.host.bytes as u64).sum()
    }

    /// The persistent buffer that holds `holds`, of `unit` if it is a unit's.
    pub fn state(&self, holds: Holds, unit: Option<u32>) -> Option<&State> {
        self.states.iter().find(|state| state.holds == holds && state.unit == unit)
    }
}

/// A buffer of one micro-batch: frame, micro-batch, index.
type Instance = (u32, u32, BufferId);

/// Who used something so far.
#[derive(Clone, Copy, Debug, Default)]
struct Users {
    all: Waits,
    writers: Waits,
}

impl Users {
    fn add(&mut self, stream: Stream, position: u32, writes: bool) {
        self.all[stream as usize] = position + 1;
        if writes {
            self.writers[stream as usize] = position + 1;
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Live {
    region: Region,
    category: Category,
    users: Users,
}

struct Planner<'a> {
    program: &'a RankProgram,
    done: Placement,
    live: HashMap<Instance, Live>,
    stashed: HashMap<(u32, u32, u32), Live>,
    state_users: Vec<Users>,
    sent: Vec<(Instance, Message)>,
    device: Space,
    host: Space,
    /// Units that use the table of another, and whose.
    lenders: &'a [(u32, u32)],
}

impl<'a> Planner<'a> {
    fn new(program: &'a RankProgram, lenders: &'a [(u32, u32)]) -> Self {
        let (mut device, mut host) = (Space::default(), Space::default());
        let mut done = Placement {
            issues: Vec::with_capacity(program.instruction_count()),
            streams: Default::default(),
            states: Vec::new(),
            device: Counters::default(),
            host: Counters::default(),
            halt: 0,
            device_bytes: 0,
            host_bytes: 0,
        };
        for state in &program.persistent {
            let category = state.holds.category();
            let region = |space: &mut Space, counters: &mut Counters, bytes: u64| {
                counters.take(category, bytes);
                space.take(bytes as usize).0
            };
            done.states.push(State {
                holds: state.holds,
                unit: state.unit,
                device: region(&mut device, &mut done.device, state.device.0),
                host: region(&mut host, &mut done.host, state.host.0),
            });
        }
        let state_users = vec![Users::default(); done.states.len()];
        Self {
            program,
            done,
            live: HashMap::new(),
            stashed: HashMap::new(),
            state_users,
            sent: Vec::new(),
            device,
            host,
            lenders,
        }
    }

    fn call(&mut self, call: u32, template: usize, micro: u32) {
        let template = &self.program.templates[template];
        let mut events: Vec<(Stream, u32)> = Vec::with_capacity(template.instructions.len());
        for (index, instruction) in template.instructions.iter().enumerate() {
            let stream = instruction.stream;
            let position = self.done.streams[stream as usize].len() as u32;
            let mut waits = Waits::default();
            for &before in &instruction.waits {
                let (stream, position) = events[before as usize];
                waits[stream as usize] = waits[stream as usize].max(position + 1);
            }
            if instruction.joins {
                for (wait, issued) in waits.iter_mut().zip(&self.done.streams) {
                    *wait = (*wait).max(issued.len() as u32);
                }
            }
            let mut issue = self.issue(instruction, template.frame, micro, position, &mut waits);
            waits[stream as usize] = 0;
            (issue.waits, issue.call, issue.instruction) = (waits, call, index as u32);
            events.push((stream, position));
            self.done.streams[stream as usize].push(self.done.issues.len() as u32);
            self.done.issues.push(issue);
        }
        let sends = template.instructions.iter().filter(|instruction| instruction.task == Task::Send);
        let sent = sends
            .filter_map(|send| Some(((template.frame, micro, *send.reads.first()?), send.message?)))
            .collect();
        for (instance, message) in std::mem::replace(&mut self.sent, sent) {
            if let Some(live) = self.live.remove(&instance) {
                self.done.device.give(live.category, live.region.bytes as u64);
                let messages = vec![(message, instance.1)];
                self.device.give(live.region, Used { waits: live.users.all, messages });
            }
        }
    }

    fn issue(
        &mut self,
        instruction: &Instruction,
        frame: u32,
        micro: u32,
        position: u32,
        waits: &mut Waits,
    ) -> Issue {
        let stream = instruction.stream;
        let buffers = &self.program.frames[frame as usize].buffers;
        let mut allocates = Vec::with_capacity(instruction.allocates.len());
        let mut retires = Vec::new();
        for &id in &instruction.allocates {
            let buffer = &buffers[id as usize];
            let (region, used) = self.device.take(buffer.bytes.0 as usize);
            join(waits, &used.waits);
            retires.extend(used.messages);
            self.done.device.take(buffer.category, buffer.bytes.0);
            let live = Live { region, category: buffer.category, users: Users::default() };
            self.live.insert((frame, micro, id), live);
            allocates.push(region);
        }
        let host = self.stash(instruction, frame, micro, position, waits);
        self.done.device.mark(self.done.issues.len());
        self.done.host.mark(self.done.issues.len());

        let mut touch = |ids: &[BufferId], writes: bool| -> Box<[Region]> {
            ids.iter()
                .map(|&id| {
                    let Some(live) = self.live.get_mut(&(frame, micro, id)) else {
                        unreachable!("a verified program uses no buffer that is not there")
                    };
                    join(waits, if writes { &live.users.all } else { &live.users.writers });
                    live.users.add(stream, position, writes);
                    live.region
                })
                .collect()
        };
        let reads = touch(&instruction.reads, false);
        let writes = touch(&instruction.writes, true);
        let _ = touch(&instruction.frees, true);
        let mut frees = Vec::with_capacity(instruction.frees.len());
        for &id in &instruction.frees {
            let Some(live) = self.live.remove(&(frame, micro, id)) else { continue };
            self.done.device.give(live.category, live.region.bytes as u64);
            let mut users = live.users.all;
            users[stream as usize] = position + 1;
            self.device.give(live.region, Used { waits: users, messages: Vec::new() });
            frees.push(live.region);
        }

        let mut issue = Issue {
            op: instruction.op,
            task: instruction.task,
            stream,
            cause: instruction.cause,
            unit: instruction.unit,
            message: instruction.message,
            micro,
            call: 0,
            instruction: 0,
            waits: Waits::default(),
            reads,
            writes,
            allocates: allocates.into(),
            frees: frees.into(),
            retires: retires.into(),
            parameters: None,
            gradient: None,
            starts_gradient: false,
            host,
        };
        self.state(instruction, frame, micro, position, &mut issue, waits);
        issue
    }

    /// Finds the parameters and gradients that an instruction works on, and who used them before. Those of the
    /// optimizer step are ordered by its own waits.
    fn state(
        &mut self,
        instruction: &Instruction,
        frame: u32,
        micro: u32,
        position: u32,
        issue: &mut Issue,
        waits: &mut Waits,
    ) {
        let Some(unit) = instruction.unit else { return };
        let units = &self.program.frames[frame as usize].units;
        let Some(buffers) = units.iter().find(|buffers| buffers.unit == unit) else { return };
        let in_frame = |id: Option<BufferId>| {
            id.and_then(|id| self.live.get(&(frame, micro, id))).map(|live| live.region)
        };
        let place = |holds| {
            let is_it = |state: &State| state.holds == holds && state.unit == Some(unit);
            self.done.states.iter().position(is_it)
        };
        let region = |place: Option<usize>| place.map(|place| self.done.states[place].device);
        let lender = self.lenders.iter().find(|(borrower, _)| *borrower == unit).map(|(_, lender)| *lender);
        let lent = |holds| {
            let is_it = |state: &State| state.holds == holds && state.unit == lender;
            lender.and_then(|_| self.done.states.iter().position(is_it))
        };
        let gathered = place(Holds::GatheredParameters);
        let stored = place(Holds::Parameters);
        let whole = place(Holds::Gradients);
        let kept = place(Holds::GradientShards);
        let mut touched: Vec<(usize, bool)> = Vec::new();
        match instruction.task {
            Task::Kernel { adds_gradient, .. } => {
                issue.parameters = in_frame(buffers.gathered)
                    .or_else(|| region(gathered))
                    .or_else(|| in_frame(buffers.fetched))
                    .or_else(|| region(stored));
                touched.extend(gathered.or(stored).map(|place| (place, false)));
                let lends = lent(Holds::GatheredParameters).or_else(|| lent(Holds::Parameters));
                touched.extend(lends.map(|place| (place, false)));
                if adds_gradient {
                    let own = in_frame(buffers.gradient);
                    issue.gradient = own.or_else(|| region(whole));
                    issue.starts_gradient =
                        buffers.gradient.is_some_and(|id| instruction.allocates.contains(&id));
                    if own.is_none() {
                        touched.extend(whole.map(|place| (place, true)));
                        touched.extend(lent(Holds::Gradients).map(|place| (place, true)));
                    }
                }
            }
            Task::AddGradient { .. } => {
                issue.gradient = region(whole);
                touched.extend(whole.map(|place| (place, true)));
                touched.extend(lent(Holds::Gradients).map(|place| (place, true)));
            }
            Task::GatherParameters(_) => {
                issue.parameters = in_frame(buffers.gathered).or_else(|| region(gathered));
                touched.extend(gathered.map(|place| (place, true)));
            }
            Task::ReduceGradient(_) => {
                issue.gradient = in_frame(buffers.gradient).or_else(|| region(whole));
                touched.extend(whole.map(|place| (place, true)));
            }
            Task::KeepGradient => {
                issue.gradient = in_frame(buffers.gradient);
                touched.extend(kept.map(|place| (place, true)));
            }
            _ => {}
        }
        for (place, writes) in touched {
            let users = &mut self.state_users[place];
            join(waits, if writes { &users.all } else { &users.writers });
            users.add(instruction.stream, position, writes);
        }
    }

    /// Host memory of saved activations: taken on their way out, given back on their way in.
    fn stash(
        &mut self,
        instruction: &Instruction,
        frame: u32,
        micro: u32,
        position: u32,
        waits: &mut Waits,
    ) -> Region {
        let Some(unit) = instruction.unit else { return Region::default() };
        let key = (frame, micro, unit);
        match instruction.task {
            Task::StashActivations => {
                let bytes = instruction.host.unsigned_abs();
                let (region, used) = self.host.take(bytes as usize);
                join(waits, &used.waits);
                self.done.host.take(Category::Activations, bytes);
                let mut users = Users::default();
                users.add(instruction.stream, position, true);
                self.stashed.insert(key, Live { region, category: Category::Activations, users });
                region
            }
            Task::UnstashActivations => {
                let Some(live) = self.stashed.remove(&key) else {
                    unreachable!("a verified program brings back what it took away")
                };
                join(waits, &live.users.all);
                self.done.host.give(live.category, live.region.bytes as u64);
                let mut users = live.users.all;
                users[instruction.stream as usize] = position + 1;
                self.host.give(live.region, Used { waits: users, messages: Vec::new() });
                live.region
            }
            _ => Region::default(),
        }
    }
}

fn join(waits: &mut Waits, others: &Waits) {
    for (wait, other) in waits.iter_mut().zip(others) {
        *wait = (*wait).max(*other);
    }
}

/// Addresses of one arena: the smallest hole that is large enough, else its end.
#[derive(Debug, Default)]
struct Space {
    /// Holes by their start.
    holes: std::collections::BTreeMap<usize, usize>,
    end: usize,
    /// Memory that was used before, and by whom.
    used: Vec<(Region, Used)>,
}

/// Who used memory before: instructions, and messages that may not have been taken out of it yet.
#[derive(Clone, Debug, Default)]
struct Used {
    waits: Waits,
    messages: Vec<(Message, u32)>,
}

impl Space {
    /// A region of `bytes` bytes and who must be done with it.
    fn take(&mut self, bytes: usize) -> (Region, Used) {
        let need = bytes.next_multiple_of(ALIGNMENT);
        let hole =
            self.holes.iter().filter(|(_, length)| **length >= need).min_by_key(|(_, length)| **length);
        let offset = match hole.map(|(&start, &length)| (start, length)) {
            _ if need == 0 => return (Region::default(), Used::default()),
            Some((start, length)) => {
                self.holes.remove(&start);
                if length > need {
                    self.holes.insert(start + need, length - need);
                }
                start
            }
            None => {
                // The last hole, where it ends the space, is extended.
                let last = self.holes.last_key_value().map(|(&start, &length)| (start, length));
                let start = match last.filter(|(start, length)| start + length == self.end) {
                    Some((start, _)) => {
                        self.holes.remove(&start);
                        start
                    }
                    None => self.end,
                };
                self.end = start + need;
                start
            }
        };
        let padded = Region { offset, bytes: need };
        let mut before = Used::default();
        self.used.retain(|(region, used)| {
            if region.overlaps(padded) {
                join(&mut before.waits, &used.waits);
                before.messages.extend(used.messages.iter().copied());
            }
            let is_inside = region.offset >= offset && region.offset + region.bytes <= offset + need;
            !is_inside
        });
        (Region { offset, bytes }, before)
    }

    fn give(&mut self, region: Region, used: Used) {
        let need = region.bytes.next_multiple_of(ALIGNMENT);
        if need == 0 {
            return;
        }
        self.used.push((Region { offset: region.offset, bytes: need }, used));
        let (mut start, mut length) = (region.offset, need);
        if let Some((&before, &size)) = self.holes.range(..start).next_back()
            && before + size == start
        {
            self.holes.remove(&before);
            (start, length) = (before, size + length);
        }
        if let Some(size) = self.holes.remove(&(start + length)) {
            length += size;
        }
        self.holes.insert(start, length);
    }
}
