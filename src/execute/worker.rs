//! A stream of a rank as a thread: performs the stream's instructions in order.

#![expect(unsafe_code, reason = "instructions take the arena's regions that their program gives them alone")]

use std::sync::PoisonError;
use std::time::Instant;

use crate::execute::arena::{Arena, Plain, Region};
use crate::execute::comm::{Endpoint, Mailbox, Reduction, Tag};
use crate::execute::element::Element;
use crate::execute::error::ExecuteError;
use crate::execute::layout::Section;
use crate::execute::placement::Issue;
use crate::execute::pool::Pool;
use crate::execute::rank::{Rank, Unit};
use crate::execute::record::lowered;
use crate::execute::run::Run;
use crate::ops::{Collective, CollectiveKind, Group, Op};
use crate::program::Payload;
use crate::program::instruction::{Holds, Message, Part, Task};
use crate::program::scalars::Scalar;

type Done = Result<(), ExecuteError>;

/// When an instruction ran, in seconds since the step began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    pub start: f64,
    pub end: f64,
}

/// What performs one stream of one rank.
pub struct Worker<'r, T, G> {
    pub(super) run: &'r Run,
    pub(super) rank: &'r Rank,
    ranks: &'r [Rank],
    pub(super) pool: Pool<'r>,
    pub(super) step: u64,
    endpoints: [Option<Endpoint>; Group::COUNT],
    mailbox: Mailbox,
    stream: crate::lower::Stream,
    types: std::marker::PhantomData<(T, G)>,
}

impl<'r, T: Element, G: Element<Wide = T::Wide>> Worker<'r, T, G> {
    /// The worker of `stream` on `rank`.
    pub fn new(
        (run, ranks): (&'r Run, &'r [Rank]),
        rank: &'r Rank,
        stream: crate::lower::Stream,
        pool: Pool<'r>,
        endpoints: [Option<Endpoint>; Group::COUNT],
        mailbox: Mailbox,
    ) -> Self {
        Self { run, rank, ranks, pool, step: 0, endpoints, mailbox, stream, types: std::marker::PhantomData }
    }

    /// Performs the stream's instructions number `part` of step `step`, which began at `began`.
    ///
    /// # Errors
    /// What an instruction could not do.
    pub fn perform(&mut self, step: u64, part: std::ops::Range<usize>, began: Instant) -> Done {
        self.step = step;
        let rank = self.rank;
        let mut spans = rank.spans[self.stream as usize].lock().unwrap_or_else(PoisonError::into_inner);
        if part.start == 0 {
            spans.fill(Span::default());
        }
        for position in part {
            let issue =
                &rank.placement.issues[rank.placement.streams[self.stream as usize][position] as usize];
            if !rank.progress.wait(&issue.waits) {
                return Ok(());
            }
            let start = began.elapsed().as_secs_f64();
            self.one(issue)?;
            spans[position] = Span { start, end: began.elapsed().as_secs_f64() };
            rank.progress.advance(self.stream);
        }
        Ok(())
    }

    fn one(&mut self, issue: &Issue) -> Done {
        if self.run.settings.poison {
            for held in &issue.allocates {
                // SAFETY: just handed out; who used the memory before is done.
                unsafe { self.rank.device.poison(held.region) };
            }
        }
        if issue.starts_gradient
            && let Some(gradient) = issue.gradient
        {
            let unit = self.unit(issue)?;
            self.check_size(unit, gradient, Holds::Gradients, (unit.tensors.trained(), size_of::<G>()))?;
            self.write::<G>(gradient).fill(G::default());
        }
        self.task(issue)?;
        self.look_at(issue)?;
        if self.run.settings.poison {
            for held in &issue.frees {
                // SAFETY: freed here, behind its last user.
                unsafe { self.rank.device.poison(held.region) };
            }
        }
        Ok(())
    }

    fn task(&mut self, issue: &Issue) -> Done {
        match issue.task {
            Task::Nothing | Task::FreeSent => Ok(()),
            Task::Kernel { kernel, layer, adds_gradient, .. } => match issue.op {
                Op::Collective(_) => self.collective(issue, kernel),
                _ => self.kernel(issue, kernel, layer, adds_gradient),
            },
            Task::Send => self.send(issue),
            Task::Receive => self.receive(issue),
            Task::FetchParameters => {
                let from = self.unit(issue)?.state.parameters;
                self.copy_bytes((&self.rank.host, from), (&self.rank.device, issue.writes[0]));
                Ok(())
            }
            Task::GatherParameters(part) => self.gather_parameters(issue, part),
            Task::ReduceGradient(part) => self.reduce_gradient(issue, part),
            Task::KeepGradient { .. } => self.keep_gradient(issue),
            Task::StashActivations | Task::UnstashActivations => {
                let Rank { device, host, .. } = self.rank;
                let mut offset = issue.host.offset;
                for &region in issue.reads.iter().chain(&issue.writes) {
                    let away = Region { offset, bytes: region.bytes };
                    match issue.task {
                        Task::StashActivations => self.copy_bytes((device, region), (host, away)),
                        _ => self.copy_bytes((host, away), (device, region)),
                    }
                    offset += region.bytes;
                }
                Ok(())
            }
            Task::SumReplicas(_) | Task::SumPartial | Task::SumTied => self.finish_gradients(issue.task),
            _ => self.weigh(issue),
        }
    }

    /// A collective between the ranks that share a layer.
    fn collective(&mut self, issue: &Issue, kernel: crate::lower::Kernel) -> Done {
        use crate::lower::Kernel;
        let op = self.collective_of(issue)?;
        let (from, to) = (issue.reads[0], issue.writes[0]);
        match kernel {
            Kernel::ToHeads { packed } => return self.exchange_heads(issue, (true, packed)),
            Kernel::ToTokens { packed } => return self.exchange_heads(issue, (false, packed)),
            Kernel::GatherStatistics => {
                let (from, to) = (self.read::<T::Wide>(from), self.write::<T::Wide>(to));
                return Ok(self.endpoint(op.group).all_gather_from(from, to)?);
            }
            _ => {}
        }
        let to = self.write::<T>(to);
        if op.kind == CollectiveKind::AllReduce {
            return Ok(self.endpoint(op.group).all_reduce(to, Reduction::sum(T::TYPE))?);
        }
        let (from, endpoint) = (self.read::<T>(from), self.endpoint(op.group));
        match op.kind {
            CollectiveKind::AllReduce => {}
            CollectiveKind::AllGather => endpoint.all_gather_from(from, to)?,
            CollectiveKind::ReduceScatter => {
                endpoint.reduce_scatter_into(from, to, Reduction::sum(T::TYPE))?;
            }
            CollectiveKind::AllToAll => endpoint.all_to_all(from, to)?,
            CollectiveKind::RingShift => endpoint.shift(from, to)?,
        }
        Ok(())
    }

    /// Into the receiver's inbox.
    fn send(&mut self, issue: &Issue) -> Done {
        let message = self.need(issue, "its message", issue.message)?;
        let (to, tag) = self.address(message, issue.micro, true);
        let peer = &self.ranks[to];
        let slot =
            self.need(issue, "the inbox of its message", peer.state(Holds::Inbox(message), None))?.device;
        let call = (issue.reads[0].bytes / size_of::<T>(), T::TYPE);
        let fill = || self.copy_bytes((&self.rank.device, issue.reads[0]), (&peer.device, slot));
        Ok(self.mailbox.send(to, tag, call, fill)?)
    }

    /// Out of this rank's inbox.
    fn receive(&mut self, issue: &Issue) -> Done {
        let message = self.need(issue, "its message", issue.message)?;
        let (from, tag) = self.address(message, issue.micro, false);
        let state = self.rank.state(Holds::Inbox(message), None);
        let slot = self.need(issue, "the inbox of its message", state)?.device;
        let call = (issue.writes[0].bytes / size_of::<T>(), T::TYPE);
        let take = || self.copy_bytes((&self.rank.device, slot), (&self.rank.device, issue.writes[0]));
        Ok(self.mailbox.receive(from, tag, call, take)?)
    }

    fn address(&self, message: Message, micro_batch: u32, sends: bool) -> (usize, Tag) {
        let other = if sends { message.to } else { message.from };
        let peer = self.run.rank_at_stage(self.rank.index, self.run.stage_of_chunk(other));
        let payload = match message.payload {
            Payload::Activation => 0,
            Payload::Gradient(loss) => 1 + u32::from(loss),
        };
        let number = (message.from * 64 + payload) * 2 + u32::from(message.to < message.from);
        (peer, Tag { message: number, micro_batch, step: self.step as u32 })
    }

    pub(super) fn endpoint(&mut self, group: Group) -> &mut Endpoint {
        match &mut self.endpoints[group as usize] {
            Some(endpoint) => endpoint,
            None => {
                unreachable!("every stream has an endpoint in each group that its program names: {group:?}")
            }
        }
    }

    /// The group that shards the state of `part`.
    pub(super) const fn state_group(&self, part: Part) -> Group {
        match part {
            Part::Dense => Group::State,
            Part::Expert => Group::ExpertState,
        }
    }

    /// The group that holds the same shards of `part`.
    pub(super) const fn replica_group(&self, part: Part) -> Group {
        match part {
            Part::Dense => Group::Replica,
            Part::Expert => Group::ExpertReplica,
        }
    }

    /// The unit that an instruction works for.
    pub(super) fn unit(&self, issue: &Issue) -> Result<&'r Unit, ExecuteError> {
        let place = issue.unit.and_then(|unit| self.rank.place_of(unit));
        Ok(&self.rank.units[self.need(issue, "its unit on this rank", place)?])
    }

    /// A buffer of a unit has `own` elements of `size` bytes, and those of a borrowed table behind them or not.
    pub(super) fn check_size(
        &self,
        unit: &Unit,
        region: Region,
        holds: Holds,
        (own, size): (usize, usize),
    ) -> Result<(), ExecuteError> {
        let needed = own * size;
        if region.bytes == needed || region.bytes == needed + unit.tensors.borrowed * size {
            return Ok(());
        }
        let (rank, found) = (self.rank.index, region.bytes);
        Err(ExecuteError::State { rank, unit: unit.index, holds, found, needed })
    }

    /// The collective that an instruction is.
    pub(super) fn collective_of(&self, issue: &Issue) -> Result<Collective, ExecuteError> {
        match issue.op {
            Op::Collective(op) => Ok(op),
            _ => Err(self.missing(issue, "its collective")),
        }
    }

    /// What was `found`: an instruction of a verified program never lacks it.
    pub(super) fn need<V>(&self, issue: &Issue, what: &str, found: Option<V>) -> Result<V, ExecuteError> {
        found.ok_or_else(|| self.missing(issue, what))
    }

    pub(super) fn missing(&self, issue: &Issue, what: &str) -> ExecuteError {
        let (rank, what) = (self.rank.index, what.to_owned());
        ExecuteError::Missing { rank, task: lowered(&format!("{:?}", issue.task)), unit: issue.unit, what }
    }

    /// Whether `issue` belongs to the last micro-batch of the step.
    pub(super) const fn is_last_micro(&self, issue: &Issue) -> bool {
        issue.micro as u64 + 1 == self.run.strategy.accumulation
    }

    /// Whether what `issue` adds to the gradient of `section` of `unit`, which is kept over the step, replaces what is
    /// there.
    pub(super) fn replaces(&self, issue: &Issue, unit: &Unit, section: Section) -> bool {
        let starts = match issue.task {
            Task::Kernel { starts, .. }
            | Task::KeepGradient { starts }
            | Task::AddGradient { starts, .. } => starts,
            _ => false,
        };
        // A table that is lent is started by one of those that share it.
        let is_lent = section == Section::Table
            && self.rank.units.iter().any(|other| {
                other.borrows_from.is_some_and(|place| self.rank.units[place].index == unit.index)
            });
        starts && issue.micro == 0 && (!is_lent || self.rank.placement.table_starts_with == issue.unit)
    }

    /// What a device region holds.
    pub(super) fn read<E: Plain>(&self, region: Region) -> &'r [E] {
        // SAFETY: the instruction reads this region; who writes to it is waited for, or waits.
        unsafe { self.rank.device.read(region) }
    }

    /// A device region that the instruction writes.
    pub(super) fn write<E: Plain>(&self, region: Region) -> &'r mut [E] {
        // SAFETY: the instruction writes this region; all other users are waited for, or wait.
        unsafe { self.rank.device.write(region) }
    }

    /// Numbers of the step.
    pub(super) fn scalar(&self, scalar: Scalar) -> &'r [f64] {
        self.read(self.rank.scalar(scalar))
    }

    /// Numbers of the step that the instruction writes.
    pub(super) fn scalar_mut(&self, scalar: Scalar) -> &'r mut [f64] {
        self.write(self.rank.scalar(scalar))
    }

    /// What a region of `arena`, device or host, holds.
    pub(super) fn read_in<E: Plain>(&self, (arena, region): (&'r Arena, Region)) -> &'r [E] {
        // SAFETY: as for `read`.
        unsafe { arena.read(region) }
    }

    #[expect(
        clippy::mut_from_ref,
        reason = "regions are kept apart by the program, not by the borrow checker"
    )]
    pub(super) fn write_in<E: Plain>(&self, (arena, region): (&'r Arena, Region)) -> &'r mut [E] {
        // SAFETY: as for `write`.
        unsafe { arena.write(region) }
    }

    /// How many of the stream's instructions stand before the optimizer's own work, and how many there are.
    pub fn parts(&self) -> (usize, usize) {
        let stream = &self.rank.placement.streams[self.stream as usize];
        let halt = stream.partition_point(|&issue| (issue as usize) < self.rank.placement.halt);
        (halt, stream.len())
    }

    pub(super) fn copy_bytes(&self, (source, from): (&Arena, Region), (target, to): (&Arena, Region)) {
        // SAFETY: the instruction reads one and writes the other; all other users are waited for, or wait.
        unsafe { target.copy_from(source, from, to) };
    }
}
