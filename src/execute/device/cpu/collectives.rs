//! Collectives and messages between ranks.

use super::members::Members;
use super::memory::Memory;
use super::messages::Messages;
use super::queue::CpuQueue;
use super::{Done, heads};
use crate::execute::call::{Call, Exchange, View};
use crate::execute::comm::{Endpoint, Tag};
use crate::execute::device::Upcoming;
use crate::execute::element::{Element, Real};
use crate::execute::storage::number;
use crate::ops::Group;
use crate::program::instruction::Message;

impl<T: Element, G: Element<Wide = T::Wide>> CpuQueue<'_, T, G> {
    fn members(&mut self, group: Group) -> &mut Members {
        match &mut self.members[group as usize] {
            Some(members) => members,
            None => {
                unreachable!("every stream reaches each group that its calls name: {group:?}")
            }
        }
    }

    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn collective(&mut self, group: Group, exchange: &Exchange) -> Done {
        let memory = self.memory;
        let members = self.members(group);
        // SAFETY: as the caller vouches.
        unsafe {
            match exchange {
                Exchange::AllReduce { data, reduction } => {
                    number!(data, E => members.all_reduce(memory.write::<E>(*data), *reduction)?);
                }
                Exchange::ReduceScatter { whole, own, reduction } => number!(own, E => {
                    let (whole, own) = (memory.read::<E>(*whole), memory.write::<E>(*own));
                    members.reduce_scatter_into(whole, own, *reduction)?;
                }),
                Exchange::ReduceScatterInPlace { whole, reduction } => {
                    number!(whole, E => members.reduce_scatter(memory.write::<E>(*whole), *reduction)?);
                }
                Exchange::AllGather { own, whole } => number!(whole, E => {
                    let (own, whole) = (memory.read::<E>(*own), memory.write::<E>(*whole));
                    members.all_gather_from(own, whole)?;
                }),
                Exchange::AllGatherInPlace { whole } => {
                    number!(whole, E => members.all_gather(memory.write::<E>(*whole))?);
                }
                Exchange::AllToAll { from, to } => number!(to, E => {
                    let (from, to) = (memory.read::<E>(*from), memory.write::<E>(*to));
                    members.all_to_all(from, to)?;
                }),
                Exchange::Shift { from, to } => number!(to, E => {
                    let (from, to) = (memory.read::<E>(*from), memory.write::<E>(*to));
                    members.shift(from, to)?;
                }),
                Exchange::Heads { from, to, layout } => {
                    heads::exchange(members, layout, memory.read::<T>(*from), memory.write::<T>(*to))?;
                }
                Exchange::SumNeighbours { data, copies, scratch } => {
                    let data = memory.write::<G>(*data);
                    match members {
                        Members::Threads(endpoint) => {
                            sum_neighbours(endpoint, *copies, data, memory.write::<T::Wide>(*scratch))?;
                        }
                        Members::Processes(endpoint) => endpoint.sum_neighbours(*copies, data)?,
                    }
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
        &mut self,
        to: usize,
        (message, micro): (Message, u32),
        from: View,
        inbox: View,
    ) -> Done {
        let tag = Tag::new((message, micro), self.step);
        match &mut self.messages {
            Messages::Threads { mailbox, peers } => {
                // SAFETY: the inbox is empty when it is filled, and nobody else fills it.
                let fill = || unsafe {
                    let inbox = peers[to].write::<u8>(Memory::bytes(inbox));
                    inbox.copy_from_slice(self.memory.read(Memory::bytes(from)));
                };
                mailbox.send(to, tag, from.message(), fill)?;
            }
            Messages::Processes(post) => {
                // SAFETY: as the caller vouches.
                unsafe { post.send(to, tag.message, self.memory.read(Memory::bytes(from)))? };
            }
        }
        Ok(())
    }

    /// Out of this rank's inbox.
    ///
    /// # Safety
    /// As for [`crate::execute::device::Queue::submit`].
    pub(super) unsafe fn receive(
        &mut self,
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
        let tag = Tag::new((message, micro), self.step);
        match &mut self.messages {
            Messages::Threads { mailbox, .. } => mailbox.receive(from, tag, to.message(), take)?,
            Messages::Processes(post) => {
                post.receive(from, tag.message)?;
                take();
                // SAFETY: what was in the inbox is taken, and nobody but the post uses it until the next receive.
                unsafe { post.open(from, tag.message, self.memory.write(Memory::bytes(inbox)))? };
            }
        }
        Ok(())
    }

    /// Opens the inboxes of the messages that `instructions` receive, for the first message of each kind.
    pub(super) fn open_inboxes(&mut self, instructions: &[Upcoming<'_>]) -> Done {
        let Messages::Processes(post) = &mut self.messages else { return Ok(()) };
        let mut opened = Vec::new();
        for call in instructions.iter().flat_map(|instruction| instruction.calls) {
            let Call::Receive { from, message, micro, inbox, .. } = *call else { continue };
            let kind = Tag::new((message, micro), 0).message;
            if !opened.contains(&(from, kind)) {
                opened.push((from, kind));
                // SAFETY: nobody but the post uses an inbox until its message is received.
                unsafe { post.open(from, kind, self.memory.write(Memory::bytes(inbox)))? };
            }
        }
        Ok(())
    }
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
