//! Collectives between threads: members read each other's slices where they lie, so there is no scratch and nothing
//! is allocated.
//!
//! Each member works on its own shard of a reduction and writes only to its own slice, at places that no other
//! member reads before the next meeting. Gathering is copying from where it was worked out.
#![expect(unsafe_code, reason = "a member writes parts of its slice while others read the rest of it")]

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use super::absent::{stand_in, sum_of_alike};
use super::error::fits;
use super::rendezvous::{Held, Rendezvous};
use super::sum::{BLOCK, Summation};
use super::{Call, CommError, Operation, Peers, Reduction, shard};
use crate::execute::element::{Element, Real};
use crate::units::ElementType;

/// The collectives of one group of ranks, called from one stream of one of them.
///
/// Every method blocks until this member's part is done.
///
/// # Errors
/// [`CommError::Length`] if slices do not fit; nobody else is told. [`CommError::Mismatch`] if members disagree, and
/// [`CommError::Aborted`] once any rank gave up: the group cannot be used again then.
pub struct Endpoint {
    rendezvous: Arc<Rendezvous>,
    member: usize,
    /// Calls made so far.
    sequence: u64,
}

impl Endpoint {
    pub(super) fn new(rendezvous: Arc<Rendezvous>, member: usize) -> Self {
        Self { rendezvous, member, sequence: 0 }
    }

    /// Meets the others at the start of an operation on `elements` elements of `T`, and shows them `slice`.
    fn enter<T: Element>(
        &mut self,
        operation: Operation,
        elements: usize,
        slice: *mut T,
    ) -> Result<Held<'_>, CommError> {
        let call = Call { sequence: self.sequence, operation, elements, element: T::TYPE };
        self.sequence += 1;
        self.rendezvous.enter(self.member, call, slice)
    }

    fn own(&self, elements: usize) -> Range<usize> {
        shard(elements, self.members().len(), self.member)
    }
}

/// # Safety
/// `base` is the start of a slice that holds `range`, which nobody else reads or writes during `'a`.
unsafe fn part<'a, T>(base: *mut T, range: Range<usize>) -> &'a mut [T] {
    // SAFETY: as the caller vouches.
    unsafe { slice::from_raw_parts_mut(base.add(range.start), range.len()) }
}

/// Writes the sum over `members` members of their `range` to `result`, block by block.
///
/// # Safety
/// Every member published at least `range.end` elements of `T` and writes none of `range` before the next meeting,
/// except that `result` may be where the caller's own `range` lies. `result` has room for `range`, and nobody else
/// reads or writes there.
unsafe fn reduce<T: Element>(
    held: &Held<'_>,
    members: usize,
    range: Range<usize>,
    summation: &Summation,
    result: *mut T,
) {
    let mut total = [T::Wide::ZERO; BLOCK];
    for start in range.clone().step_by(BLOCK) {
        let block = start..range.end.min(start + BLOCK);
        let total = &mut total[..block.len()];
        for member in 0..members {
            // SAFETY: as the caller vouches; the caller's own block is written only below.
            let contribution = unsafe { held.read::<T>(member, block.clone()) };
            summation.add(total, contribution, member == 0);
        }
        let place = start - range.start..block.end - range.start;
        // SAFETY: as the caller vouches; no block that was read is borrowed any more.
        summation.store(total, unsafe { part(result, place) });
    }
}

/// Copies to `base` the shards of all members but `own`, from what those published. Where they are absent, the caller's
/// shard stands in for theirs.
///
/// # Safety
/// `base` and what each member published are slices of `elements` elements of `T`. Before the next meeting no member
/// writes to its own shard, nor does anybody else touch the caller's slice outside of the caller's shard.
unsafe fn gather<T: Element>(held: &Held<'_>, members: usize, own: usize, base: *mut T, elements: usize) {
    for member in (0..members).filter(|member| *member != own) {
        let range = shard(elements, members, member);
        // SAFETY: as the caller vouches.
        unsafe {
            match held.peers() {
                Peers::Present => part(base, range.clone()).copy_from_slice(held.read(member, range)),
                Peers::Absent => {
                    let own = held.read::<T>(own, shard(elements, members, own));
                    stand_in(own, part(base, range));
                }
            }
        };
    }
}

/// Makes the shards of all members but `own` the sum of as many like them as there are members.
///
/// # Safety
/// `base` is a slice of `elements` elements of `T` that the caller alone uses.
unsafe fn sum_alone<T: Element>(base: *mut T, elements: usize, members: usize, own: usize) {
    for member in (0..members).filter(|member| *member != own) {
        // SAFETY: as the caller vouches.
        sum_of_alike(unsafe { part(base, shard(elements, members, member)) }, members);
    }
}

impl Endpoint {
    /// The ranks of the group; a member's index is its place here.
    pub fn members(&self) -> &[usize] {
        &self.rendezvous.members
    }

    /// The index of the caller.
    pub fn member(&self) -> usize {
        self.member
    }

    /// Whether the other members are there.
    pub fn peers(&self) -> Peers {
        self.rendezvous.peers
    }

    /// `data` becomes the sum of all members' `data`.
    pub fn all_reduce<T: Element>(&mut self, data: &mut [T], reduction: Reduction) -> Result<(), CommError> {
        let summation = Summation::of::<T>(reduction)?;
        let (members, member, own) = (self.members().len(), self.member, self.own(data.len()));
        let (base, elements) = (data.as_mut_ptr(), data.len());
        let held = self.enter(Operation::AllReduce(reduction), elements, base)?;
        // SAFETY: all published `elements` of `T`, as calls agree. Until they meet again each member reads and writes
        // one shard, its own number, in all slices and in its own.
        unsafe { reduce(&held, members, own.clone(), &summation, base.add(own.start)) };
        let held = held.meet()?;
        // SAFETY: now each member writes to its slice outside its shard, and others read its shard alone.
        unsafe {
            match held.peers() {
                Peers::Present => gather(&held, members, member, base, elements),
                Peers::Absent => sum_alone(base, elements, members, member),
            }
        };
        held.leave()
    }

    /// The caller's [`shard`] of `data` becomes the sum of all members' `data` there; the rest stays as it was.
    pub fn reduce_scatter<T: Element>(
        &mut self,
        data: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CommError> {
        let summation = Summation::of::<T>(reduction)?;
        let (members, own) = (self.members().len(), self.own(data.len()));
        let (base, elements) = (data.as_mut_ptr(), data.len());
        let held = self.enter(Operation::ReduceScatter(reduction), elements, base)?;
        // SAFETY: as in the first part of `all_reduce`; a member of `reduce_scatter_into` writes to none of these.
        unsafe { reduce(&held, members, own.clone(), &summation, base.add(own.start)) };
        held.leave()
    }

    /// `own` becomes the caller's [`shard`] of the sum of all members' `whole`.
    pub fn reduce_scatter_into<T: Element>(
        &mut self,
        whole: &[T],
        own: &mut [T],
        reduction: Reduction,
    ) -> Result<(), CommError> {
        let (operation, range) = (Operation::ReduceScatter(reduction), self.own(whole.len()));
        let summation = Summation::of::<T>(reduction)?;
        fits(operation, "the shard", own.len(), range.len())?;
        let members = self.members().len();
        let held = self.enter(operation, whole.len(), whole.as_ptr().cast_mut())?;
        // SAFETY: all published as many elements of `T`; the caller reads its shard of each, which only it could
        // write to; `own` is borrowed by the caller alone.
        unsafe { reduce(&held, members, range, &summation, own.as_mut_ptr()) };
        held.leave()
    }

    /// Each member's [`shard`] of `data` is copied to all members' `data`.
    pub fn all_gather<T: Element>(&mut self, data: &mut [T]) -> Result<(), CommError> {
        let (members, member) = (self.members().len(), self.member);
        let (base, elements) = (data.as_mut_ptr(), data.len());
        let held = self.enter(Operation::AllGather, elements, base)?;
        // SAFETY: all published `elements` of `T`, or (below) a slice that stands as if they had; each writes to
        // its own outside its shard, and others read its shard alone.
        unsafe { gather(&held, members, member, base, elements) };
        held.leave()
    }

    /// `whole` becomes all members' `own`, each at its [`shard`].
    pub fn all_gather_from<T: Element>(&mut self, own: &[T], whole: &mut [T]) -> Result<(), CommError> {
        let range = self.own(whole.len());
        fits(Operation::AllGather, "the shard", own.len(), range.len())?;
        whole[range].copy_from_slice(own);
        self.all_gather(whole)
    }

    /// Block j of member i's `send` becomes block i of member j's `receive`, blocks being equal.
    pub fn all_to_all<T: Element>(&mut self, send: &[T], receive: &mut [T]) -> Result<(), CommError> {
        let (members, member) = (self.members().len(), self.member);
        fits(Operation::AllToAll, "what is received", receive.len(), send.len())?;
        fits(Operation::AllToAll, "what is sent", send.len(), send.len().next_multiple_of(members))?;
        let block = send.len() / members;
        let held = self.enter(Operation::AllToAll, send.len(), send.as_ptr().cast_mut())?;
        for other in 0..members {
            // SAFETY: all published as many elements of `T`, and nobody writes to what it published.
            let theirs = unsafe { held.read(other, member * block..(member + 1) * block) };
            receive[other * block..(other + 1) * block].copy_from_slice(theirs);
        }
        held.leave()
    }

    /// `receive` becomes the `send` of the member before; the first comes after the last.
    pub fn shift<T: Element>(&mut self, send: &[T], receive: &mut [T]) -> Result<(), CommError> {
        fits(Operation::RingShift, "what is received", receive.len(), send.len())?;
        let before = (self.member + self.members().len() - 1) % self.members().len();
        let held = self.enter(Operation::RingShift, send.len(), send.as_ptr().cast_mut())?;
        // SAFETY: all published as many elements of `T`, and nobody writes to what it published.
        receive.copy_from_slice(unsafe { held.read(before, 0..send.len()) });
        held.leave()
    }

    /// Nobody returns before all have called.
    pub fn barrier(&mut self) -> Result<(), CommError> {
        self.enter::<f32>(Operation::Barrier, 0, std::ptr::null_mut())?.leave()
    }

    /// Calls `take(member, what it shows)` for every member in order while all of it holds still. Members agree on an
    /// operation on `elements` elements, which is done elsewhere. `take` must not communicate.
    pub fn show<T: Sync>(
        &mut self,
        operation: Operation,
        (elements, element): (usize, ElementType),
        shown: &T,
        mut take: impl FnMut(usize, &T),
    ) -> Result<(), CommError> {
        let call = Call { sequence: self.sequence, operation, elements, element };
        self.sequence += 1;
        let held = self.rendezvous.enter(self.member, call, std::ptr::from_ref(shown).cast_mut())?;
        for member in 0..self.rendezvous.members.len() {
            // SAFETY: every member of this operation published one `T`, and nobody writes to it.
            take(member, &unsafe { held.read(member, 0..1) }[0]);
        }
        held.leave()
    }

    /// Calls `take(member, its send)` for every member in order while all slices hold still. `take` must not
    /// communicate.
    pub fn exchange<T: Element>(
        &mut self,
        send: &[T],
        mut take: impl FnMut(usize, &[T]),
    ) -> Result<(), CommError> {
        let members = self.members().len();
        let held = self.enter(Operation::Exchange, send.len(), send.as_ptr().cast_mut())?;
        for member in 0..members {
            // SAFETY: all published as many elements of `T`, and nobody writes to what it published.
            take(member, unsafe { held.read(member, 0..send.len()) });
        }
        held.leave()
    }
}
