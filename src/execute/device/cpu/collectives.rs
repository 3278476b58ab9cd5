//! Collectives and messages between the ranks of this process.

use super::Done;
use super::memory::Memory;
use super::queue::CpuQueue;
use crate::execute::call::{Exchange, HeadExchange, View};
use crate::execute::comm::{Endpoint, Tag};
use crate::execute::element::{Element, Real};
use crate::execute::storage::number;
use crate::ops::Group;
use crate::program::instruction::Message;

impl<T: Element, G: Element<Wide = T::Wide>> CpuQueue<'_, T, G> {
    fn endpoint(&mut self, group: Group) -> &mut Endpoint {
        match &mut self.endpoints[group as usize] {
            Some(endpoint) => endpoint,
            None => {
                unreachable!("every stream has an endpoint in each group that its calls name: {group:?}")
            }
        }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn collective(&mut self, group: Group, exchange: &Exchange) -> Done {
        let memory = self.memory;
        let endpoint = self.endpoint(group);
        // SAFETY: as the caller vouches.
        unsafe {
            match exchange {
                Exchange::AllReduce { data, reduction } => {
                    number!(data, E => endpoint.all_reduce(memory.write::<E>(*data), *reduction)?);
                }
                Exchange::ReduceScatter { whole, own, reduction } => number!(own, E => {
                    let (whole, own) = (memory.read::<E>(*whole), memory.write::<E>(*own));
                    endpoint.reduce_scatter_into(whole, own, *reduction)?;
                }),
                Exchange::ReduceScatterInPlace { whole, reduction } => {
                    number!(whole, E => endpoint.reduce_scatter(memory.write::<E>(*whole), *reduction)?);
                }
                Exchange::AllGather { own, whole } => number!(whole, E => {
                    let (own, whole) = (memory.read::<E>(*own), memory.write::<E>(*whole));
                    endpoint.all_gather_from(own, whole)?;
                }),
                Exchange::AllGatherInPlace { whole } => {
                    number!(whole, E => endpoint.all_gather(memory.write::<E>(*whole))?);
                }
                Exchange::AllToAll { from, to } => number!(to, E => {
                    let (from, to) = (memory.read::<E>(*from), memory.write::<E>(*to));
                    endpoint.all_to_all(from, to)?;
                }),
                Exchange::Shift { from, to } => number!(to, E => {
                    let (from, to) = (memory.read::<E>(*from), memory.write::<E>(*to));
                    endpoint.shift(from, to)?;
                }),
                Exchange::Heads { from, to, layout } => {
                    let (from, to) = (memory.read::<T>(*from), memory.write::<T>(*to));
                    if layout.to_heads {
                        to_heads(endpoint, layout, from, to)?;
                    } else {
                        to_tokens(endpoint, layout, from, to)?;
                    }
                }
                Exchange::SumNeighbours { data, copies, scratch } => {
                    let scratch = memory.write::<T::Wide>(*scratch);
                    sum_neighbours(endpoint, *copies, memory.write::<G>(*data), scratch)?;
                }
            }
        }
        Ok(())
    }

    /// Into the receiver's inbox.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn send(
        &self,
        to: usize,
        (message, micro): (Message, u32),
        from: View,
        inbox: View,
    ) -> Done {
        // SAFETY: the inbox is empty when it is filled, and nobody else fills it.
        let fill = || unsafe {
            let inbox = self.peers[to].write::<u8>(Memory::bytes(inbox));
            inbox.copy_from_slice(self.memory.read(Memory::bytes(from)));
        };
        Ok(self.mailbox.send(to, Tag::new((message, micro), self.step), from.message(), fill)?)
    }

    /// Out of this rank's inbox.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn receive(
        &self,
        from: usize,
        (message, micro): (Message, u32),
        inbox: View,
        to: View,
    ) -> Done {
        // SAFETY: the inbox is full when it is emptied; nobody fills it before.
        let take = || unsafe {
            let to = self.memory.write::<u8>(Memory::bytes(to));
            to.copy_from_slice(self.memory.read(Memory::bytes(inbox)));
        };
        Ok(self.mailbox.receive(from, Tag::new((message, micro), self.step), to.message(), take)?)
    }
}

/// Of a row of one context rank's tokens, the row among all tokens.
const fn row_of(layout: &HeadExchange, row: usize, context: usize) -> usize {
    (row / layout.local * layout.contexts + context) * layout.local + row % layout.local
}

/// From this rank's tokens of all heads to all tokens of its heads.
fn to_heads<T: Element>(endpoint: &mut Endpoint, layout: &HeadExchange, from: &[T], to: &mut [T]) -> Done {
    let own_width = layout.own_width;
    endpoint.exchange(from, |member, theirs| {
        for (row, source) in theirs.chunks_exact(layout.all_width).take(layout.rows).enumerate() {
            let target = &mut to[row_of(layout, row, member) * own_width..][..own_width];
            for run in &layout.runs {
                let first = run.all + layout.context / run.copies * run.width;
                target[run.own..run.own + run.width].copy_from_slice(&source[first..first + run.width]);
            }
        }
    })?;
    Ok(())
}

/// The way back: what ranks share is summed.
fn to_tokens<T: Element>(endpoint: &mut Endpoint, layout: &HeadExchange, from: &[T], to: &mut [T]) -> Done {
    let own_width = layout.own_width;
    to.fill(T::default());
    endpoint.exchange(from, |member, theirs| {
        for (row, target) in to.chunks_exact_mut(layout.all_width).take(layout.rows).enumerate() {
            let source = &theirs[row_of(layout, row, layout.context) * own_width..][..own_width];
            for run in &layout.runs {
                let first = run.all + member / run.copies * run.width;
                for (to, from) in target[first..first + run.width].iter_mut().zip(&source[run.own..]) {
                    *to = T::narrow(to.wide() + from.wide());
                }
            }
        }
    })?;
    Ok(())
}

/// The sum over runs of `copies` neighbours of the group, piece by piece through `scratch`.
fn sum_neighbours<G: Element>(
    endpoint: &mut Endpoint,
    copies: usize,
    data: &mut [G],
    scratch: &mut [G::Wide],
) -> Done {
    let first = endpoint.member() / copies * copies;
    let count = scratch.len().max(1);
    for piece in data.chunks_mut(count) {
        let sums = &mut scratch[..piece.len()];
        sums.fill(G::Wide::ZERO);
        endpoint.exchange(piece, |member, theirs| {
            if (first..first + copies).contains(&member) {
                sums.iter_mut().zip(theirs).for_each(|(sum, value)| *sum += value.wide());
            }
        })?;
        piece.iter_mut().zip(&*sums).for_each(|(value, sum)| *value = G::narrow(*sum));
    }
    Ok(())
}
