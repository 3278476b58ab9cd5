//! Collectives between ranks that are processes of their own: shards go to their owners, who sum them in member order, so
//! that every sum is bit for bit that of [threads](super::threads).
#![expect(unsafe_code, reason = "slices of any type are sent as bytes")]

use std::ops::Range;
use std::slice;

use super::error::fits;
use super::network::{Received, Sent, Wire};
use super::sum::{BLOCK, Summation};
use super::{CommError, Operation, Reduction, shard};
use crate::execute::element::{Element, Real};

/// Bytes that others send at once, before they are summed.
pub const SCRATCH: usize = 16 << 20;

/// The collectives of one group of processes, called from one stream of one of them.
///
/// Every method blocks until this member's part is done.
///
/// # Errors
/// [`CommError::Length`] if slices do not fit, [`CommError::Network`] if the network fails, and [`CommError::Aborted`]
/// once any rank gave up: the group cannot be used again then.
pub struct ProcessEndpoint {
    wire: Box<dyn Wire>,
    members: Box<[usize]>,
    member: usize,
    /// Contributions of others, aligned for every type of element.
    scratch: Vec<u64>,
    is_broken: bool,
}

impl ProcessEndpoint {
    /// The endpoint of member `member` of the ranks `members`, which `wire` joins.
    pub fn new(wire: Box<dyn Wire>, members: &[usize], member: usize) -> Self {
        Self { wire, members: members.into(), member, scratch: Vec::new(), is_broken: false }
    }

    /// The ranks of the group; a member's index is its place here.
    pub fn members(&self) -> &[usize] {
        &self.members
    }

    /// The index of the caller.
    pub const fn member(&self) -> usize {
        self.member
    }

    fn shards(&self, elements: usize) -> Vec<Range<usize>> {
        let members = self.members.len();
        (0..members).map(|member| shard(elements, members, member)).collect()
    }

    /// `data` becomes the sum of all members' `data`.
    pub fn all_reduce<T: Element>(&mut self, data: &mut [T], reduction: Reduction) -> Result<(), CommError> {
        self.reduce_scatter(data, reduction)?;
        self.all_gather(data)
    }

    /// The caller's [`shard`] of `data` becomes the sum of all members' `data` there; the rest stays as it was.
    pub fn reduce_scatter<T: Element>(
        &mut self,
        data: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CommError> {
        let own = shard(data.len(), self.members.len(), self.member);
        let result = data[own].as_mut_ptr();
        // SAFETY: the result lies where the caller's own contribution does.
        unsafe { self.reduce(data.as_ptr(), data.len(), result, reduction) }
    }

    /// `own` becomes the caller's [`shard`] of the sum of all members' `whole`.
    pub fn reduce_scatter_into<T: Element>(
        &mut self,
        whole: &[T],
        own: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CommError> {
        let range = shard(whole.len(), self.members.len(), self.member);
        fits(Operation::ReduceScatter(reduction), "the shard", own.len(), range.len())?;
        // SAFETY: the two slices are apart.
        unsafe { self.reduce(whole.as_ptr(), whole.len(), own.as_mut_ptr(), reduction) }
    }

    /// Writes the sum of the caller's shard of all members' slices to `result`, piece by piece through the scratch.
    ///
    /// # Safety
    /// `data` are `elements` elements. `result` has room for the caller's shard of them and is the caller's alone; it lies
    /// where that shard does, or apart from the slice.
    unsafe fn reduce<T: Element>(
        &mut self,
        data: *const T,
        elements: usize,
        result: *mut T,
        reduction: Reduction,
    ) -> Result<(), CommError> {
        let summation = Summation::of::<T>(reduction)?;
        let (shards, own) = (self.shards(elements), self.member);
        let members = shards.len();
        let most = (SCRATCH / (members * size_of::<T>())).max(1);
        for first in (0..shards[0].len()).step_by(most) {
            let piece = |member: usize| {
                let Range { start, end } = shards[member];
                (start + first).min(end)..(start + first + most).min(end)
            };
            let mine = piece(own);
            let scratch = self.scratch::<T>(members * mine.len());
            let others = || (0..members).filter(|member| *member != own);
            let sent = others().map(|member| {
                let part = piece(member);
                // SAFETY: a part of the slice.
                Sent {
                    member,
                    from: unsafe { data.add(part.start) }.cast(),
                    bytes: part.len() * size_of::<T>(),
                }
            });
            let received = others().map(|member| {
                // SAFETY: the scratch has a place of this length for each member.
                let to = unsafe { scratch.add(member * mine.len()) }.cast();
                Received { member, to, bytes: mine.len() * size_of::<T>() }
            });
            let (sent, received): (Vec<_>, Vec<_>) = (sent.collect(), received.collect());
            // SAFETY: the slice is the caller's while this lasts, and nobody else has the scratch.
            unsafe { self.exchange(&sent, &received)? };
            let mut total = [T::Wide::ZERO; BLOCK];
            for start in (0..mine.len()).step_by(BLOCK) {
                let length = BLOCK.min(mine.len() - start);
                let total = &mut total[..length];
                for member in 0..members {
                    let theirs = if member == own {
                        // SAFETY: inside the caller's shard; this block of it is written below only.
                        unsafe { data.add(mine.start + start) }
                    } else {
                        // SAFETY: inside the member's place of the scratch.
                        unsafe { scratch.add(member * mine.len() + start) }
                    };
                    // SAFETY: both hold `length` elements from there on, which nobody writes meanwhile.
                    summation.add(total, unsafe { slice::from_raw_parts(theirs, length) }, member == 0);
                }
                // SAFETY: the result has room for the whole shard, and no slice of this block is alive.
                let result = unsafe { slice::from_raw_parts_mut(result.add(first + start), length) };
                summation.store(total, result);
            }
        }
        Ok(())
    }

    /// Each member's [`shard`] of `data` is copied to all members' `data`.
    pub fn all_gather<T: Element>(&mut self, data: &mut [T]) -> Result<(), CommError> {
        let shards = self.shards(data.len());
        let base = data.as_mut_ptr();
        let own = shards[self.member].clone();
        let others = || (0..shards.len()).filter(|member| *member != self.member);
        let sent = others().map(|member| {
            // SAFETY: the caller's shard of the slice.
            Sent { member, from: unsafe { base.add(own.start) }.cast(), bytes: own.len() * size_of::<T>() }
        });
        let received = others().map(|member| {
            let shard = &shards[member];
            // SAFETY: another's shard of the slice.
            let to = unsafe { base.add(shard.start) }.cast();
            Received { member, to, bytes: shard.len() * size_of::<T>() }
        });
        let (sent, received): (Vec<_>, Vec<_>) = (sent.collect(), received.collect());
        // SAFETY: the slice is borrowed by the caller alone; what is sent and what is received are apart.
        unsafe { self.exchange(&sent, &received) }
    }

    /// `whole` becomes all members' `own`, each at its [`shard`].
    pub fn all_gather_from<T: Element>(&mut self, own: &[T], whole: &mut [T]) -> Result<(), CommError> {
        let range = shard(whole.len(), self.members.len(), self.member);
        fits(Operation::AllGather, "the shard", own.len(), range.len())?;
        whole[range].copy_from_slice(own);
        self.all_gather(whole)
    }

    /// Block j of member i's `send` becomes block i of member j's `receive`, blocks being equal.
    pub fn all_to_all<T: Element>(&mut self, send: &[T], receive: &mut [T]) -> Result<(), CommError> {
        let members = self.members.len();
        fits(Operation::AllToAll, "what is received", receive.len(), send.len())?;
        fits(Operation::AllToAll, "what is sent", send.len(), send.len().next_multiple_of(members))?;
        let block = send.len() / members;
        let own = self.member * block..(self.member + 1) * block;
        receive[own.clone()].copy_from_slice(&send[own]);
        let bytes = block * size_of::<T>();
        let others = (0..members).filter(|member| *member != self.member);
        let (sent, received): (Vec<_>, Vec<_>) = others
            .map(|member| {
                let (from, to) = (&send[member * block..][..block], &mut receive[member * block..][..block]);
                (
                    Sent { member, from: from.as_ptr().cast(), bytes },
                    Received { member, to: to.as_mut_ptr().cast(), bytes },
                )
            })
            .unzip();
        // SAFETY: both slices are borrowed.
        unsafe { self.exchange(&sent, &received) }
    }

    /// `receive` becomes the `send` of the member before; the first comes after the last.
    pub fn shift<T: Element>(&mut self, send: &[T], receive: &mut [T]) -> Result<(), CommError> {
        fits(Operation::RingShift, "what is received", receive.len(), send.len())?;
        let members = self.members.len();
        if members == 1 {
            receive.copy_from_slice(send);
            return Ok(());
        }
        let (before, after) = ((self.member + members - 1) % members, (self.member + 1) % members);
        let bytes = size_of_val(send);
        let sent = [Sent { member: after, from: send.as_ptr().cast(), bytes }];
        let received = [Received { member: before, to: receive.as_mut_ptr().cast(), bytes }];
        // SAFETY: both slices are borrowed.
        unsafe { self.exchange(&sent, &received) }
    }

    /// `data` becomes the sum over the run of `copies` neighbours that the caller is in.
    pub fn sum_neighbours<T: Element>(&mut self, copies: usize, data: &mut [T]) -> Result<(), CommError> {
        let first = self.member / copies * copies;
        let own = self.member;
        let most = (SCRATCH / (copies * size_of::<T>())).max(1);
        for piece in data.chunks_mut(most) {
            let scratch = self.scratch::<T>(copies * piece.len());
            let bytes = size_of_val(piece);
            let others = (first..first + copies).filter(|member| *member != own);
            let (sent, received): (Vec<_>, Vec<_>) = others
                .map(|member| {
                    // SAFETY: the scratch has a place of this length for each neighbour.
                    let to = unsafe { scratch.add((member - first) * piece.len()) }.cast();
                    (Sent { member, from: piece.as_ptr().cast(), bytes }, Received { member, to, bytes })
                })
                .unzip();
            // SAFETY: the piece is borrowed, and nobody else has the scratch.
            unsafe { self.exchange(&sent, &received)? };
            let length = piece.len();
            for (place, value) in piece.iter_mut().enumerate() {
                let mut sum = T::Wide::ZERO;
                for member in first..first + copies {
                    let theirs = if member == own {
                        *value
                    } else {
                        // SAFETY: what came from this neighbour.
                        unsafe { *scratch.add((member - first) * length + place) }
                    };
                    sum += theirs.wide();
                }
                *value = T::narrow(sum);
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Wire::exchange`].
    unsafe fn exchange(&mut self, sent: &[Sent], received: &[Received]) -> Result<(), CommError> {
        let used = |bytes: &usize| *bytes > 0;
        let sent: Vec<_> = sent.iter().copied().filter(|sent| used(&sent.bytes)).collect();
        let received: Vec<_> = received.iter().copied().filter(|received| used(&received.bytes)).collect();
        // SAFETY: as the caller vouches.
        let done = unsafe { self.wire.exchange(&sent, &received) };
        self.is_broken |= done.is_err();
        done
    }

    /// Room for `elements` elements, whatever lies there.
    fn scratch<T: Element>(&mut self, elements: usize) -> *mut T {
        let words = (elements * size_of::<T>()).div_ceil(size_of::<u64>());
        if self.scratch.len() < words {
            self.scratch.resize(words, 0);
        }
        self.scratch.as_mut_ptr().cast()
    }
}

impl Drop for ProcessEndpoint {
    /// After a failure the network may still write to the scratch.
    fn drop(&mut self) {
        if self.is_broken {
            std::mem::forget(std::mem::take(&mut self.scratch));
        }
    }
}
