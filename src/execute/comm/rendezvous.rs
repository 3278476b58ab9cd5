//! Where the members of one group meet: a barrier at which they show their calls and their slices.
//!
//! A collective is two meetings or more. At the first, [`Rendezvous::enter`], each member publishes a slice and all
//! calls are compared. From then until the last, [`Held::leave`], every published slice stays where it is. That
//! holds for failures too: a member whose call fails returns only when no member is at work between two meetings.
//! All changes happen under one lock, and whoever changes what another waits for wakes it, so no wake-up is lost.
#![expect(unsafe_code, reason = "members read each other's slices between meetings")]

use std::hint;
use std::mem;
use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Call, Channel, CommError, Mismatch, Peers, Place, View};

pub(super) struct Rendezvous {
    pub(super) channel: Channel,
    /// The ranks of the group.
    pub(super) members: Box<[usize]>,
    pub(super) peers: Peers,
    /// What each member published; valid from `enter` to `leave`.
    slices: Box<[AtomicPtr<()>]>,
    /// Meetings that all members came to.
    meetings: AtomicU64,
    state: Mutex<State>,
    wake: Condvar,
    /// Looks at `meetings` before a member sleeps.
    spins: u32,
}

#[derive(Default)]
struct State {
    /// Members at the current meeting.
    arrived: usize,
    /// Members between two meetings of a collective.
    working: usize,
    /// Members asleep.
    asleep: usize,
    /// The call of the first member to enter.
    first: Option<View>,
    failure: Option<CommError>,
}

/// A member between two meetings of a collective. Dropping it, which only a panic does, fails the group and waits
/// until nobody can read the member's slice.
pub(super) struct Held<'a> {
    rendezvous: &'a Rendezvous,
    member: usize,
}

impl Rendezvous {
    pub(super) fn new(
        channel: Channel,
        (members, peers): (&[usize], Peers),
        spins: u32,
        failure: Option<CommError>,
    ) -> Self {
        Self {
            channel,
            members: members.into(),
            peers,
            slices: members.iter().map(|_| AtomicPtr::default()).collect(),
            meetings: AtomicU64::new(0),
            state: Mutex::new(State { failure, ..State::default() }),
            wake: Condvar::new(),
            spins,
        }
    }

    /// Publishes `slice` and waits until all members have entered with the same call.
    pub(super) fn enter<T>(&self, member: usize, call: Call, slice: *mut T) -> Result<Held<'_>, CommError> {
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let own = View { rank: self.members[member], call };
        let first = *state.first.get_or_insert(own);
        if first.call != call {
            let place = Place::Channel(self.channel);
            let failure = CommError::Mismatch(Box::new(Mismatch { place, first, second: own }));
            return Err(self.fail_locked(&mut state, failure));
        }
        // The lock orders this store before every other member's loads.
        self.slices[member].store(slice.cast(), Ordering::Relaxed);
        self.arrive(state, self.present())?;
        Ok(Held { rendezvous: self, member })
    }

    /// Members that come to meetings.
    fn present(&self) -> usize {
        match self.peers {
            Peers::Present => self.members.len(),
            Peers::Absent => 1,
        }
    }

    /// Makes all calls that wait, and all later ones, return `failure`, or the failure that came first.
    pub(super) fn fail(&self, failure: CommError) {
        self.fail_locked(&mut self.lock(), failure);
    }

    fn fail_locked(&self, state: &mut State, failure: CommError) -> CommError {
        self.wake.notify_all();
        state.failure.get_or_insert(failure).clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Comes to the meeting and returns once all are there; `working` members then go on to work.
    fn arrive<'a>(&'a self, mut state: MutexGuard<'a, State>, working: usize) -> Result<(), CommError> {
        let meeting = self.meetings.load(Ordering::Relaxed);
        state.arrived += 1;
        if state.failure.is_none() && state.arrived == self.present() {
            state.arrived = 0;
            state.working = working;
            state.first = None;
            // Pairs with the loads of those who spin and have not the lock.
            self.meetings.store(meeting + 1, Ordering::Release);
            if state.asleep > 0 {
                self.wake.notify_all();
            }
            return Ok(());
        }
        if state.failure.is_none() {
            drop(state);
            for look in 1..=self.spins {
                if self.meetings.load(Ordering::Acquire) != meeting {
                    return Ok(());
                }
                // The one waited for may be on this very core.
                if look % 64 == 0 { thread::yield_now() } else { hint::spin_loop() }
            }
            state = self.lock();
        }
        loop {
            if self.meetings.load(Ordering::Relaxed) != meeting {
                return Ok(());
            }
            if let (0, Some(failure)) = (state.working, &state.failure) {
                return Err(failure.clone());
            }
            state.asleep += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep -= 1;
        }
    }
}

impl Held<'_> {
    /// Whether the others are there.
    pub(super) const fn peers(&self) -> Peers {
        self.rendezvous.peers
    }

    /// The part `range` of what `member` published; of what the caller did where its peers are absent.
    ///
    /// # Safety
    /// `member` published a slice of at least `range.end` elements of `T`, and nobody writes to this part of it
    /// before the next meeting.
    pub(super) unsafe fn read<T>(&self, member: usize, range: Range<usize>) -> &[T] {
        let holder = match self.peers() {
            Peers::Present => member,
            Peers::Absent => self.member,
        };
        let base = self.rendezvous.slices[holder].load(Ordering::Relaxed).cast::<T>();
        // SAFETY: the caller vouches for type, length and stillness; `member` cannot leave while `self` exists, so
        // its slice is alive. The lock of the last meeting orders its writes before this.
        unsafe { slice::from_raw_parts(base.add(range.start), range.len()) }
    }

    /// Waits until all members have come so far.
    pub(super) fn meet(self) -> Result<Self, CommError> {
        let Self { rendezvous, member } = self;
        self.arrive(rendezvous.present())?;
        Ok(Self { rendezvous, member })
    }

    /// Waits until no member needs another's slice any more.
    pub(super) fn leave(self) -> Result<(), CommError> {
        self.arrive(0)
    }

    fn arrive(self, working: usize) -> Result<(), CommError> {
        let rendezvous = self.rendezvous;
        mem::forget(self);
        rendezvous.arrive(rendezvous.stop_working(), working)
    }
}

impl Rendezvous {
    /// One member less is at work; those who may now return with a failure are woken.
    fn stop_working(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.working -= 1;
        if state.working == 0 && state.failure.is_some() {
            self.wake.notify_all();
        }
        state
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let rank = self.rendezvous.members[self.member];
        let mut state = self.rendezvous.stop_working();
        let message = "it panicked inside a collective".to_owned();
        self.rendezvous.fail_locked(&mut state, CommError::Aborted { rank, message });
        // The failure is set, so this waits for those at work and returns it.
        let _ = self.rendezvous.arrive(state, 0);
    }
}
