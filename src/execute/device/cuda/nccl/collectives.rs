//! Collectives between ranks that have a GPU each: NCCL's own where they do what is asked for. Where numbers travel as
//! narrower ones, and for sums that must come out the same in any order, members exchange contributions and sum them in
//! member order, as ranks that share a GPU do.

use std::ops::Range;

use super::super::collectives::room;
use super::super::error::CudaError;
use super::super::launch::collectives::{self as launches, Wire};
use super::super::membership::Joined;
use super::super::memory::STAGE;
use super::super::queue::{CudaQueue, Done};
use super::super::work::{Kernel, Span, Work};
use super::communicator::Communicator;
use crate::execute::call::{Exchange, HeadExchange, View};
use crate::execute::comm::{Reduction, shard};
use crate::units::ElementType;

/// Columns of rows, as they lie in memory.
#[derive(Clone, Copy)]
struct Columns {
    at: Span,
    /// Elements from row to row, and before the first column.
    stride: usize,
    first: usize,
}

/// What is summed, all members alike.
#[derive(Clone, Copy)]
struct Summed {
    elements: usize,
    element: ElementType,
    reduction: Reduction,
}

impl Summed {
    fn new(view: View, reduction: Reduction) -> Result<Self, CudaError> {
        let (elements, element) = numbers(view)?;
        Ok(Self { elements, element, reduction })
    }

    /// Whether the library's sum is what is asked for: sums of fp64 are those of squares, which come out the same on any
    /// layout.
    fn is_plain(self) -> bool {
        self.element != ElementType::Fp64 && self.reduction.wire.size() >= self.element.size()
    }

    fn shard(self, members: usize, member: usize) -> Range<usize> {
        shard(self.elements, members, member)
    }
}

fn numbers(view: View) -> Result<(usize, ElementType), CudaError> {
    view.numbers()
        .ok_or_else(|| CudaError::Unsupported(format!("collectives of {} are not done", view.storage)))
}

fn part(span: Span, elements: &Range<usize>, element: ElementType) -> Span {
    let size = element.size();
    span.behind(elements.start as u64 * size).first(elements.len() as u64 * size)
}

impl CudaQueue<'_> {
    /// What the members of `joined` do together.
    pub(in super::super) fn exchange_joined(&self, joined: &Joined, exchange: &Exchange) -> Done {
        let (memory, communicator) = (self.encoder.memory, &*joined.communicator);
        let (members, member) = (communicator.members, communicator.member);
        match exchange {
            Exchange::AllReduce { data, reduction } => {
                let (at, summed) = (memory.at(*data), Summed::new(*data, *reduction)?);
                if summed.element == ElementType::Fp64 {
                    self.sum_run(joined, *data, 0..members)
                } else if summed.is_plain() {
                    communicator.all_reduce(&self.on, at, (summed.elements, summed.element))?;
                    self.scale(at, summed)
                } else {
                    let own = summed.shard(members, member);
                    self.sum_shard(joined, summed, at, part(at, &own, summed.element))?;
                    self.gather_shards(communicator, at, (summed.elements, summed.element))
                }
            }
            Exchange::ReduceScatter { whole, own, reduction } => {
                let summed = Summed::new(*whole, *reduction)?;
                self.reduce_scatter(joined, summed, memory.at(*whole), memory.at(*own))
            }
            Exchange::ReduceScatterInPlace { whole, reduction } => {
                let (at, summed) = (memory.at(*whole), Summed::new(*whole, *reduction)?);
                let own = part(at, &summed.shard(members, member), summed.element);
                self.reduce_scatter(joined, summed, at, own)
            }
            Exchange::AllGather { own, whole } => {
                let (at, (elements, element)) = (memory.at(*whole), numbers(*whole)?);
                let own = memory.at(*own);
                if elements.is_multiple_of(members) {
                    return communicator.all_gather(&self.on, own, at);
                }
                self.copy(own, part(at, &shard(elements, members, member), element))?;
                self.gather_shards(communicator, at, (elements, element))
            }
            Exchange::AllGatherInPlace { whole } => {
                self.gather_shards(communicator, memory.at(*whole), numbers(*whole)?)
            }
            Exchange::AllToAll { from, to } => {
                let (from, to) = (memory.at(*from), memory.at(*to));
                let bytes = from.bytes / members as u64;
                let block = |span: Span, member: usize| span.behind(member as u64 * bytes).first(bytes);
                self.copy(block(from, member), block(to, member))?;
                communicator.together("an all-to-all", |group| {
                    others(communicator).try_for_each(|other| {
                        group.send(&self.on, other, block(from, other))?;
                        group.receive(&self.on, other, block(to, other))
                    })
                })
            }
            Exchange::Shift { from, to } => {
                let (from, to) = (memory.at(*from), memory.at(*to));
                communicator.together("a ring shift", |group| {
                    group.send(&self.on, (member + 1) % members, from)?;
                    group.receive(&self.on, (member + members - 1) % members, to)
                })
            }
            Exchange::Heads { from, to, layout } => {
                self.exchange_heads(joined, layout, memory.at(*from), memory.at(*to))
            }
            Exchange::SumNeighbours { data, copies, .. } => {
                let first = member / copies * copies;
                self.sum_run(joined, *data, first..first + copies)
            }
        }
    }

    /// `own` becomes this member's shard of the sum of all members' `whole`.
    fn reduce_scatter(&self, joined: &Joined, summed: Summed, whole: Span, own: Span) -> Done {
        let communicator = &*joined.communicator;
        let (members, member, element) = (communicator.members, communicator.member, summed.element);
        if !summed.is_plain() {
            return self.sum_shard(joined, summed, whole, own);
        }
        if summed.elements.is_multiple_of(members) {
            let shard = (summed.elements / members, element);
            communicator.reduce_scatter(&self.on, (whole, own), shard)?;
        } else {
            // Shards of several lengths: each is a sum of its own.
            communicator.together("a reduce-scatter", |group| {
                (0..members).try_for_each(|owner| {
                    let range = summed.shard(members, owner);
                    let from = part(whole, &range, element);
                    let to = if owner == member { own } else { from };
                    match range.len() {
                        0 => Ok(()),
                        count => group.reduce(&self.on, owner, (from, to), (count, element)),
                    }
                })
            })?;
        }
        self.scale(own, Summed { elements: summed.shard(members, member).len(), ..summed })
    }

    /// Multiplies a sum by the reduction's factor, if it has one.
    fn scale(&self, at: Span, summed: Summed) -> Done {
        let count = summed.elements as u64;
        if summed.reduction.scale.is_none() || count == 0 {
            return Ok(());
        }
        Ok(self.sum_staged(summed.element, summed.reduction, (at, count, 1), count, at)?)
    }

    /// Each member's shard of `whole` comes to all members' `whole`.
    fn gather_shards(
        &self,
        communicator: &Communicator,
        whole: Span,
        (elements, element): (usize, ElementType),
    ) -> Done {
        let (members, member) = (communicator.members, communicator.member);
        let of = |owner| part(whole, &shard(elements, members, owner), element);
        if elements.is_multiple_of(members) {
            return communicator.all_gather(&self.on, of(member), whole);
        }
        // Shards of several lengths: each goes out by itself.
        communicator.together("an all-gather", |group| {
            let filled = (0..members).filter(|owner| of(*owner).bytes > 0);
            filled.into_iter().try_for_each(|owner| group.broadcast(&self.on, owner, of(owner)))
        })
    }

    /// The sum over all members of this member's shard of `whole`, in member order, to `to`: pieces of all shards are
    /// exchanged at a time.
    fn sum_shard(&self, joined: &Joined, summed: Summed, whole: Span, to: Span) -> Done {
        let communicator = &*joined.communicator;
        let (members, member, element) = (communicator.members, communicator.member, summed.element);
        let room = STAGE / members / element.size() as usize / 8 * 8;
        let mut done = 0;
        while done < summed.shard(members, 0).len() {
            let piece = |owner| {
                let Range { start, end } = summed.shard(members, owner);
                (start + done).min(end)..(start + done + room).min(end)
            };
            let own = piece(member);
            let slot = |other: usize| {
                let start = other * room;
                part(joined.stage, &(start..start + own.len()), element)
            };
            self.copy(part(whole, &own, element), slot(member))?;
            communicator.together("a reduce-scatter", |group| {
                others(communicator).try_for_each(|other| {
                    let theirs = part(whole, &piece(other), element);
                    if theirs.bytes > 0 {
                        group.send(&self.on, other, theirs)?;
                    }
                    if own.is_empty() { Ok(()) } else { group.receive(&self.on, other, slot(other)) }
                })
            })?;
            if !own.is_empty() {
                let to = part(to, &(done..done + own.len()), element);
                let stage = (joined.stage, room as u64, members);
                self.sum_staged(element, summed.reduction, stage, own.len() as u64, to)?;
            }
            done += room;
        }
        Ok(())
    }

    /// `data` becomes the sum of that of the members `run`, of which this is one, in their order.
    fn sum_run(&self, joined: &Joined, data: View, run: Range<usize>) -> Done {
        let communicator = &*joined.communicator;
        let (elements, element) = numbers(data)?;
        let at = self.encoder.memory.at(data);
        let room = room(element, run.len()) as usize;
        let mut done = 0;
        while done < elements {
            let count = room.min(elements - done);
            let piece = part(at, &(done..done + count), element);
            let slot = |other: usize| {
                let start = (other - run.start) * room;
                part(joined.stage, &(start..start + count), element)
            };
            self.copy(piece, slot(communicator.member))?;
            communicator.together("a sum of neighbours", |group| {
                others(communicator).filter(|other| run.contains(other)).try_for_each(|other| {
                    group.send(&self.on, other, piece)?;
                    group.receive(&self.on, other, slot(other))
                })
            })?;
            let stage = (joined.stage, room as u64, run.len());
            self.sum_staged(element, Reduction::sum(element), stage, count as u64, piece)?;
            done += count;
        }
        Ok(())
    }

    /// Does what `layout` says with `from` and `to`: blocks of rows for each member lie side by side on their way.
    fn exchange_heads(&self, joined: &Joined, layout: &HeadExchange, from: Span, to: Span) -> Done {
        let communicator = &*joined.communicator;
        let packed: usize = layout.runs.iter().map(|run| run.width).sum();
        let width = if layout.to_heads { packed } else { layout.own_width };
        let size = self.encoder.types.bytes() as usize;
        let block = STAGE / 2 / layout.contexts / size;
        let most = (block / width.max(1)).min(layout.local).max(1);
        if width * most > block {
            return Err(CudaError::Size { what: "a row of heads", count: width }.into());
        }
        if !layout.to_heads {
            self.perform_now(Work::Fill { to, value: 0 })?;
        }
        // Rows of one sequence at a time, so that they lie one after another on both sides.
        let sequences = layout.rows / layout.local;
        for (sequence, start) in (0..sequences)
            .flat_map(|sequence| (0..layout.local).step_by(most).map(move |start| (sequence, start)))
        {
            let rows = most.min(layout.local - start);
            let bytes = (rows * width * size) as u64;
            let slot = |half: usize, other: usize| {
                joined.stage.behind(((half * layout.contexts + other) * block * size) as u64).first(bytes)
            };
            let own_rows = sequence * layout.local + start;
            let rows_of = |context: usize| (sequence * layout.contexts + context) * layout.local + start;
            for other in 0..layout.contexts {
                self.pack(layout, (from, slot(0, other)), (other, rows), (own_rows, rows_of(other)))?;
            }
            self.copy(slot(0, layout.context), slot(1, layout.context))?;
            communicator.together("an exchange of heads", |group| {
                others(communicator).try_for_each(|other| {
                    group.send(&self.on, other, slot(0, other))?;
                    group.receive(&self.on, other, slot(1, other))
                })
            })?;
            for other in 0..layout.contexts {
                self.unpack(layout, (slot(1, other), to), (other, rows), (own_rows, rows_of(other)))?;
            }
        }
        Ok(())
    }

    /// What goes to context rank `other`, of `rows` rows: from this rank's own row `own`, or from its row among all.
    fn pack(
        &self,
        layout: &HeadExchange,
        (from, to): (Span, Span),
        (other, rows): (usize, usize),
        (own, among_all): (usize, usize),
    ) -> Done {
        if !layout.to_heads {
            let from = Columns {
                at: self.row(from, among_all, layout.own_width),
                stride: layout.own_width,
                first: 0,
            };
            let to = Columns { at: to, stride: layout.own_width, first: 0 };
            return self.copy_columns(from, to, (rows, layout.own_width));
        }
        let stride: usize = layout.runs.iter().map(|run| run.width).sum();
        let mut first = 0;
        for run in &layout.runs {
            let all = run.all + other / run.copies * run.width;
            let at = self.row(from, own, layout.all_width);
            let from = Columns { at, stride: layout.all_width, first: all };
            self.copy_columns(from, Columns { at: to, stride, first }, (rows, run.width))?;
            first += run.width;
        }
        Ok(())
    }

    /// Puts what came from context rank `other` where it belongs; what ranks share is added up.
    fn unpack(
        &self,
        layout: &HeadExchange,
        (from, to): (Span, Span),
        (other, rows): (usize, usize),
        (own, among_all): (usize, usize),
    ) -> Done {
        let packed: usize = layout.runs.iter().map(|run| run.width).sum();
        let mut first = 0;
        for run in &layout.runs {
            if layout.to_heads {
                let at = self.row(to, among_all, layout.own_width);
                let to = Columns { at, stride: layout.own_width, first: run.own };
                self.copy_columns(Columns { at: from, stride: packed, first }, to, (rows, run.width))?;
            } else {
                let all = run.all + other / run.copies * run.width;
                let at = self.row(to, own, layout.all_width);
                let to = Columns { at, stride: layout.all_width, first: all };
                let from = Columns { at: from, stride: layout.own_width, first: run.own };
                self.columns(from, to, (rows, run.width), launches::to_tokens)?;
            }
            first += run.width;
        }
        Ok(())
    }

    /// Memory from row `row` on, rows being of `width` elements.
    fn row(&self, span: Span, row: usize, width: usize) -> Span {
        span.behind(row as u64 * width as u64 * self.encoder.types.bytes())
    }

    fn copy_columns(&self, from: Columns, to: Columns, size: (usize, usize)) -> Done {
        self.columns(from, to, size, launches::to_heads)
    }

    /// Copies columns of rows, or adds them, as the kernel of `launch` does, each row to the row of its own number.
    fn columns(
        &self,
        from: Columns,
        to: Columns,
        (rows, width): (usize, usize),
        launch: fn(u32, u32) -> super::super::launch::Launch,
    ) -> Done {
        let small = |count: usize| {
            u32::try_from(count).map_err(|_| CudaError::Size { what: "columns of heads", count })
        };
        if rows == 0 || width == 0 {
            return Ok(());
        }
        let source = launches::source(self.encoder.types, Wire::Exact);
        let (rows, width) = (small(rows)?, small(width)?);
        let strides = [from.stride, from.first, to.stride, to.first].map(small);
        let [from_stride, from_first, to_stride, to_first] = strides;
        // One context rank, all of whose rows are of one sequence: rows are where they are.
        let (local, contexts, context) = (rows, 1, 0);
        let kernel = Kernel::new((source, launch(rows, width)))
            .reads(from.at)
            .updates(to.at)
            .numbers([rows, width, from_stride?, from_first?, to_stride?, to_first?])
            .numbers([local, contexts, context]);
        Ok(self.perform_now(Work::Kernel(Box::new(kernel)))?)
    }
}

/// The members of `communicator` but this one.
fn others(communicator: &Communicator) -> impl Iterator<Item = usize> + use<> {
    let own = communicator.member;
    (0..communicator.members).filter(move |member| *member != own)
}
