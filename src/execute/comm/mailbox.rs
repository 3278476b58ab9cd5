//! Messages between threads: the sender fills a slot of the receiver's memory, the receiver empties it. Each kind of
//! message between two ranks has one slot, so a sender waits until its last message of that kind was taken.
//!
//! What lies in the slots of a rank is noted on its shelf. All changes happen under the shelf's lock, and whoever makes
//! one wakes those who sleep there.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Call, CommError, Mismatch, Operation, Peers, Place, Tag, View};
use crate::units::ElementType;

/// The messages that lie in the slots of one rank.
pub(super) struct Shelf {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    letters: Vec<Letter>,
    failure: Option<CommError>,
}

struct Letter {
    from: usize,
    tag: Tag,
    call: Call,
}

/// What one rank sends and receives with, from any of its threads.
#[derive(Clone)]
pub struct Mailbox {
    shelves: Arc<[Shelf]>,
    rank: usize,
    peers: Peers,
}

impl Shelf {
    pub(super) fn new(ranks: usize) -> Self {
        let state = State { letters: Vec::with_capacity(4 * ranks), failure: None };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    pub(super) fn fail(&self, failure: &CommError) {
        self.lock().failure.get_or_insert_with(|| failure.clone());
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `find` finds, as soon as it finds something.
    fn wait<T>(&self, find: impl Fn(&State) -> Option<T>) -> Result<(MutexGuard<'_, State>, T), CommError> {
        let mut state = self.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if let Some(found) = find(&state) {
                return Ok((state, found));
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Mailbox {
    pub(super) const fn new(shelves: Arc<[Shelf]>, rank: usize, peers: Peers) -> Self {
        Self { shelves, rank, peers }
    }

    fn shelf(&self, to: usize) -> Result<&Shelf, CommError> {
        self.shelves.get(to).ok_or(CommError::Rank { rank: to, ranks: self.shelves.len() })
    }

    /// Waits until the slot of `tag`'s kind of message at rank `to` is empty and lets `fill` write `elements` elements to
    /// it. To an absent rank nothing is sent.
    ///
    /// # Errors
    /// If a rank has failed.
    pub fn send(
        &self,
        to: usize,
        tag: Tag,
        (elements, element): (usize, ElementType),
        fill: impl FnOnce(),
    ) -> Result<(), CommError> {
        if self.peers == Peers::Absent {
            return Ok(());
        }
        let shelf = self.shelf(to)?;
        let lies_there = |letter: &Letter| letter.from == self.rank && letter.tag.message == tag.message;
        drop(shelf.wait(|state| (!state.letters.iter().any(lies_there)).then_some(()))?);
        // Nobody else writes to the slot: a kind of message has one sender, and each of its streams one thread.
        fill();
        let mut state = shelf.lock();
        state.letters.push(Letter { from: self.rank, tag, call: message(elements, element) });
        shelf.wake.notify_all();
        Ok(())
    }

    /// Waits for the message of rank `from` with tag `tag`, lets `take` read its slot, and empties it. Of an absent rank
    /// nothing is awaited: `take` reads what lies there.
    ///
    /// # Errors
    /// If a rank has failed, or has sent other elements.
    pub fn receive(
        &self,
        from: usize,
        tag: Tag,
        (elements, element): (usize, ElementType),
        take: impl FnOnce(),
    ) -> Result<(), CommError> {
        if self.peers == Peers::Absent {
            take();
            return Ok(());
        }
        let shelf = self.shelf(self.rank)?;
        self.shelf(from)?;
        let find = |state: &State| {
            let mut letters = state.letters.iter();
            letters.find(|letter| letter.from == from && letter.tag == tag).map(|letter| letter.call)
        };
        let (state, call) = shelf.wait(find)?;
        drop(state);
        let expected = message(elements, element);
        if call != expected {
            let place = Place::Message { from, to: self.rank, tag };
            let (first, second) = (View { rank: from, call }, View { rank: self.rank, call: expected });
            return Err(CommError::Mismatch(Box::new(Mismatch { place, first, second })));
        }
        take();
        let mut state = shelf.lock();
        state.letters.retain(|letter| !(letter.from == from && letter.tag == tag));
        shelf.wake.notify_all();
        Ok(())
    }
}

fn message(elements: usize, element: ElementType) -> Call {
    Call { sequence: 0, operation: Operation::Message, elements, element }
}
