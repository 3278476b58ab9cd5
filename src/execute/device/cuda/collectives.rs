//! Collectives between ranks that share a GPU: each rank's stream copies from the memory of the others, and sums what it
//! copied with a kernel.
//!
//! The streams of a group meet where a member may touch what another has made, or may no longer touch it: each records
//! an event, the threads show one another their events, and each stream waits for all. Threads wait for threads and
//! streams for streams, so the host does not wait for the GPU here.

#![expect(unsafe_code, reason = "members show one another where their memory lies")]

use std::ops::Range;

use super::encode::collectives::source_of_sum;
use super::error::CudaError;
use super::launch::collectives::{self as launches, Wire};
use super::launch::gradient_norm::{self, BINS};
use super::membership::{Membership, Shared};
use super::memory::STAGE;
use super::queue::{CudaQueue, Done};
use super::stream::Event;
use super::work::{Kernel, Span, Work};
use crate::execute::call::{Exchange, HeadExchange, View};
use crate::execute::comm::{Operation, Peers, Reduction, shard};
use crate::execute::error::ExecuteError;
use crate::execute::storage::Storage;
use crate::ops;
use crate::units::ElementType;

/// What a member shows to the others.
struct Shown {
    address: u64,
    event: *const Event,
}

// SAFETY: an event may be waited for from any thread.
unsafe impl Sync for Shown {}

/// What members do, and of what: all must agree.
#[derive(Clone, Copy)]
struct Common {
    operation: Operation,
    elements: usize,
    element: ElementType,
}

impl Common {
    fn new(operation: Operation, view: View) -> Result<Self, CudaError> {
        let (elements, element) = view
            .numbers()
            .ok_or_else(|| CudaError::Unsupported(format!("collectives of {} are not done", view.storage)))?;
        Ok(Self { operation, elements, element })
    }

    fn bytes(&self, range: Range<usize>) -> Range<u64> {
        let size = self.element.size();
        range.start as u64 * size..range.end as u64 * size
    }
}

/// Elements of each of `parts` parts that are summed at a time. The only sums of fp64 are those of squares, in bins.
pub(super) fn room(element: ElementType, parts: usize) -> u64 {
    match element {
        ElementType::Fp64 => u64::from(BINS),
        _ => STAGE as u64 / parts as u64 / element.size() / 8 * 8,
    }
}

fn piece(span: Span, bytes: &Range<u64>) -> Span {
    span.behind(bytes.start).first(bytes.end - bytes.start)
}

impl CudaQueue<'_> {
    pub(super) fn collective(&mut self, group: ops::Group, exchange: &Exchange) -> Done {
        let Some(mut members) = self.groups[group as usize].take() else {
            unreachable!("every stream has a place in each group that its calls name: {group:?}")
        };
        let done = match &mut members {
            Membership::Shared(shared) => self.exchange(shared, exchange),
            Membership::Joined(joined) => self.exchange_joined(joined, exchange),
        };
        self.groups[group as usize] = Some(members);
        done
    }

    /// All members' streams come here. Where each of them has what this one said it has at `address`.
    fn meet(&self, group: &mut Shared, common: Common, address: u64) -> Result<Vec<u64>, ExecuteError> {
        group.event.record(&self.on)?;
        let shown = Shown { address, event: &raw const group.event };
        let Common { operation, elements, element } = common;
        let (own, mut found, mut waited) = (group.endpoint.member(), Vec::new(), Ok(()));
        group.endpoint.show(operation, (elements, element), &shown, |member, theirs| {
            found.push(theirs.address);
            if member != own && waited.is_ok() {
                // SAFETY: the member's event is a field of its group, which stays where it is while it shows it.
                waited = self.on.wait(unsafe { &*theirs.event });
            }
        })?;
        waited?;
        Ok(found)
    }

    pub(super) fn copy(&self, from: Span, to: Span) -> Result<(), CudaError> {
        if from.address == to.address || to.bytes == 0 {
            return Ok(());
        }
        self.perform_now(Work::Copy { from, to })
    }

    fn exchange(&self, group: &mut Shared, exchange: &Exchange) -> Done {
        let (memory, member, members) = (self.encoder.memory, group.endpoint.member(), group.members());
        match exchange {
            // Squares of gradients: less than a shard a member.
            Exchange::AllReduce { data, .. } if data.storage == Storage::Number(ElementType::Fp64) => {
                self.sum_neighbours(group, *data, members)?;
            }
            Exchange::AllReduce { data, reduction } => {
                let common = Common::new(Operation::AllReduce(*reduction), *data)?;
                let at = memory.at(*data);
                let theirs = self.meet(group, common, at.address)?;
                // Each member sums its shard, which nobody else reads of the others' memory.
                let own = shard(common.elements, members, member);
                let to = piece(at, &common.bytes(own.clone()));
                self.sum(group, common, *reduction, (at, &theirs), own, to)?;
                let theirs = self.meet(group, common, at.address)?;
                self.gather(group, common, &theirs, at)?;
                self.meet(group, common, at.address)?;
            }
            Exchange::ReduceScatter { whole, own, reduction } => {
                let common = Common::new(Operation::ReduceScatter(*reduction), *whole)?;
                let range = shard(common.elements, members, member);
                let (at, to) = (memory.at(*whole), memory.at(*own));
                let theirs = self.meet(group, common, at.address)?;
                self.sum(group, common, *reduction, (at, &theirs), range, to)?;
                self.meet(group, common, at.address)?;
            }
            Exchange::ReduceScatterInPlace { whole, reduction } => {
                let common = Common::new(Operation::ReduceScatter(*reduction), *whole)?;
                let range = shard(common.elements, members, member);
                let at = memory.at(*whole);
                let theirs = self.meet(group, common, at.address)?;
                let to = piece(at, &common.bytes(range.clone()));
                self.sum(group, common, *reduction, (at, &theirs), range, to)?;
                self.meet(group, common, at.address)?;
            }
            Exchange::AllGather { own, whole } => {
                let common = Common::new(Operation::AllGather, *whole)?;
                let at = memory.at(*whole);
                let range = common.bytes(shard(common.elements, members, member));
                self.copy(memory.at(*own), piece(at, &range))?;
                let theirs = self.meet(group, common, at.address)?;
                self.gather(group, common, &theirs, at)?;
                self.meet(group, common, at.address)?;
            }
            Exchange::AllGatherInPlace { whole } => {
                let common = Common::new(Operation::AllGather, *whole)?;
                let at = memory.at(*whole);
                let theirs = self.meet(group, common, at.address)?;
                self.gather(group, common, &theirs, at)?;
                self.meet(group, common, at.address)?;
            }
            Exchange::AllToAll { from, to } => {
                let common = Common::new(Operation::AllToAll, *from)?;
                let (from, to) = (memory.at(*from), memory.at(*to));
                let block = from.bytes / members as u64;
                let theirs = self.meet(group, common, from.address)?;
                for (other, address) in (0u64..).zip(theirs) {
                    let source = from.moved(address).behind(member as u64 * block).first(block);
                    self.copy(source, to.behind(other * block).first(block))?;
                }
                self.meet(group, common, from.address)?;
            }
            Exchange::Shift { from, to } => {
                let common = Common::new(Operation::RingShift, *from)?;
                let (from, to) = (memory.at(*from), memory.at(*to));
                let theirs = self.meet(group, common, from.address)?;
                let before = theirs[(member + members - 1) % members];
                self.copy(from.moved(before), to)?;
                self.meet(group, common, from.address)?;
            }
            Exchange::Heads { from, to, layout } => {
                let common = Common::new(Operation::Exchange, *from)?;
                let (from_at, to_at) = (memory.at(*from), memory.at(*to));
                let theirs = self.meet(group, common, from_at.address)?;
                if !layout.to_heads {
                    self.perform_now(Work::Fill { to: to_at, value: 0 })?;
                }
                for (other, address) in theirs.into_iter().enumerate() {
                    let source = from_at.moved(address);
                    self.heads(layout, (other, source), to_at)?;
                }
                self.meet(group, common, from_at.address)?;
            }
            Exchange::SumNeighbours { data, copies, .. } => self.sum_neighbours(group, *data, *copies)?,
        }
        Ok(())
    }

    /// The sum over all members of their `range`, to `to`.
    fn sum(
        &self,
        group: &Shared,
        common: Common,
        reduction: Reduction,
        (own, theirs): (Span, &[u64]),
        range: Range<usize>,
        to: Span,
    ) -> Result<(), CudaError> {
        let size = common.element.size();
        let room = room(common.element, theirs.len());
        let (mut at, mut to) = (range.start as u64, to);
        while at < range.end as u64 {
            let count = room.min(range.end as u64 - at);
            self.stage(group, own, theirs, at * size..(at + count) * size, room * size)?;
            let stage = (group.stage, room, theirs.len());
            self.sum_staged(common.element, reduction, stage, count, to.first(count * size))?;
            (at, to) = (at + count, to.behind(count * size));
        }
        Ok(())
    }

    /// Copies `bytes` of what all have where this member has `own` to the stage, `step` bytes apart.
    fn stage(
        &self,
        group: &Shared,
        own: Span,
        theirs: &[u64],
        bytes: Range<u64>,
        step: u64,
    ) -> Result<(), CudaError> {
        let length = bytes.end - bytes.start;
        for (place, address) in (0u64..).zip(theirs) {
            let to = group.stage.behind(place * step).first(length);
            self.copy(piece(own.moved(*address), &bytes), to)?;
        }
        Ok(())
    }

    /// The sum of `parts` parts of `count` elements each, which lie `step` elements apart in `stage`.
    pub(super) fn sum_staged(
        &self,
        element: ElementType,
        reduction: Reduction,
        (stage, step, parts): (Span, u64, usize),
        count: u64,
        to: Span,
    ) -> Result<(), CudaError> {
        let source = source_of_sum(element, reduction)?;
        if element == ElementType::Fp64 {
            debug_assert_eq!(count, u64::from(BINS), "numbers of fp64 are squares, in bins");
            let kernel = Kernel::new((source, gradient_norm::sum()));
            let kernel = kernel.reads(stage).writes(to).number(parts as u32);
            return self.perform_now(Work::Kernel(Box::new(kernel)));
        }
        let kernel = Kernel::new((source, launches::sum(count)))
            .reads(stage)
            .writes(to)
            .number(count)
            .number(step)
            .number(parts as u32)
            .number(reduction.scale.unwrap_or(1.0) as f32);
        self.perform_now(Work::Kernel(Box::new(kernel)))
    }

    /// Copies to `base` the shards of all other members. Where they are absent, the own shard stands in for theirs.
    fn gather(&self, group: &Shared, common: Common, theirs: &[u64], base: Span) -> Result<(), CudaError> {
        let own = group.endpoint.member();
        let bytes_of = |member| common.bytes(shard(common.elements, theirs.len(), member));
        for (member, address) in theirs.iter().enumerate().filter(|(member, _)| *member != own) {
            let to = piece(base, &bytes_of(member));
            match group.endpoint.peers() {
                Peers::Present => self.copy(piece(base.moved(*address), &bytes_of(member)), to)?,
                Peers::Absent => self.stand_in(piece(base, &bytes_of(own)), to)?,
            }
        }
        Ok(())
    }

    /// What an absent member would have put to `to`: `own` again and again, zeros where that is empty.
    fn stand_in(&self, own: Span, to: Span) -> Result<(), CudaError> {
        if own.bytes == 0 {
            return self.perform_now(Work::Fill { to, value: 0 });
        }
        for start in (0..to.bytes).step_by(own.bytes as usize) {
            let to = to.behind(start).first(own.bytes);
            self.copy(own.first(to.bytes), to)?;
        }
        Ok(())
    }

    /// Runs of columns of `source`, which is member `other`'s, to this rank's.
    fn heads(
        &self,
        layout: &HeadExchange,
        (other, source): (usize, Span),
        to: Span,
    ) -> Result<(), CudaError> {
        let small = |count: usize| {
            u32::try_from(count).map_err(|_| CudaError::Size { what: "columns of heads", count })
        };
        let (rows, local) = (small(layout.rows)?, small(layout.local)?);
        let contexts = small(layout.contexts)?;
        for run in &layout.runs {
            let width = small(run.width)?;
            if rows == 0 || width == 0 {
                continue;
            }
            let all = |context: usize| small(run.all + context / run.copies * run.width);
            let (own, own_width, all_width) =
                (small(run.own)?, small(layout.own_width)?, small(layout.all_width)?);
            let source_of = launches::source(self.encoder.types, Wire::Exact);
            let kernel = if layout.to_heads {
                Kernel::new((source_of, launches::to_heads(rows, width)))
                    .reads(source)
                    .updates(to)
                    .numbers([rows, width, all_width, all(layout.context)?, own_width, own])
                    .numbers([local, contexts, small(other)?])
            } else {
                Kernel::new((source_of, launches::to_tokens(rows, width)))
                    .reads(source)
                    .updates(to)
                    .numbers([rows, width, own_width, own, all_width, all(other)?])
                    .numbers([local, contexts, small(layout.context)?])
            };
            self.perform_now(Work::Kernel(Box::new(kernel)))?;
        }
        Ok(())
    }

    /// The sum over runs of `copies` neighbours, in place: all copy a piece before any of them replaces it.
    fn sum_neighbours(&self, group: &mut Shared, data: View, copies: usize) -> Done {
        let common = Common::new(Operation::Exchange, data)?;
        let at = self.encoder.memory.at(data);
        let first = group.endpoint.member() / copies * copies;
        let size = common.element.size();
        let room = room(common.element, copies);
        let mut theirs = self.meet(group, common, at.address)?;
        let mut done = 0;
        while done < common.elements as u64 {
            let count = room.min(common.elements as u64 - done);
            let bytes = done * size..(done + count) * size;
            self.stage(group, at, &theirs[first..first + copies], bytes.clone(), room * size)?;
            theirs = self.meet(group, common, at.address)?;
            let stage = (group.stage, room, copies);
            let plain = Reduction::sum(common.element);
            self.sum_staged(common.element, plain, stage, count, piece(at, &bytes))?;
            done += count;
        }
        Ok(())
    }
}
