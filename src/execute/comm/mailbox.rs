//! Messages between threads: the sender puts up where its slice lies and waits until the receiver has copied it, or
//! goes on and makes sure of that later.
//!
//! A message lies on the shelf of the rank that it goes to. All changes happen under the shelf's lock, and whoever
//! makes one wakes those who sleep there.
#![expect(unsafe_code, reason = "the receiver reads the sender's slice while the sender waits")]

use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Call, CommError, Mismatch, Operation, Place, PointToPoint, Tag, View};
use crate::execute::element::Element;

/// The messages that go to one rank.
pub(super) struct Shelf {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    /// At most one for each thread that sends to this rank.
    letters: Vec<Letter>,
    failure: Option<CommError>,
}

struct Letter {
    from: usize,
    tag: Tag,
    call: Call,
    /// An atomic only because a plain pointer must not go from thread to thread.
    slice: AtomicPtr<()>,
    /// A copy, where the sender needed its memory before the receiver came.
    copy: Option<Box<[u8]>>,
    /// Nobody waits for the receiver to be done.
    posted: bool,
    progress: Progress,
}

enum Progress {
    Waiting,
    /// The receiver is copying: the sender may not return.
    Copying,
    Done(Result<(), CommError>),
}

/// What one rank sends and receives with, from any of its threads.
#[derive(Clone)]
pub struct Mailbox {
    shelves: Arc<[Shelf]>,
    rank: usize,
}

impl Shelf {
    pub(super) fn new(ranks: usize) -> Self {
        let state = State { letters: Vec::with_capacity(ranks), failure: None };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    pub(super) fn fail(&self, failure: &CommError) {
        self.lock().failure.get_or_insert_with(|| failure.clone());
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.wake.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(&self, from: usize, tag: Tag) -> Option<usize> {
        self.letters.iter().position(|letter| letter.from == from && letter.tag == tag)
    }
}

impl Mailbox {
    pub(super) fn new(shelves: Arc<[Shelf]>, rank: usize) -> Self {
        Self { shelves, rank }
    }

    fn shelf(&self, to: usize) -> Result<&Shelf, CommError> {
        self.shelves.get(to).ok_or(CommError::Rank { rank: to, ranks: self.shelves.len() })
    }
}

impl Mailbox {
    /// Puts up a letter on the shelf of rank `to`.
    fn put_up<T: Element>(
        &self,
        to: usize,
        tag: Tag,
        data: &[T],
        posted: bool,
    ) -> Result<MutexGuard<'_, State>, CommError> {
        let (from, shelf) = (self.rank, self.shelf(to)?);
        let mut state = shelf.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if state.find(from, tag).is_some() {
            return Err(CommError::Duplicate { place: Place::Message { from, to, tag } });
        }
        let slice = AtomicPtr::new(data.as_ptr().cast_mut().cast());
        let (call, progress) = (call::<T>(data.len()), Progress::Waiting);
        state.letters.push(Letter { from, tag, call, slice, copy: None, posted, progress });
        shelf.wake.notify_all();
        Ok(state)
    }

    /// Hands `data` to rank `to` and returns at once, so that the order in which a rank sends need not be that in
    /// which others receive.
    ///
    /// # Safety
    /// The slice stays as it is until [`Self::retire`] returned or the receiver has the message.
    pub unsafe fn post<T: Element>(&self, to: usize, tag: Tag, data: &[T]) -> Result<(), CommError> {
        self.put_up(to, tag, data, true).map(drop)
    }

    /// Makes the memory of a posted message free: if nobody has come for it yet, it is copied.
    pub fn retire(&self, to: usize, tag: Tag) -> Result<(), CommError> {
        let shelf = self.shelf(to)?;
        let mut state = shelf.lock();
        while let Some(place) = state.find(self.rank, tag) {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let letter = &mut state.letters[place];
            if !matches!(letter.progress, Progress::Waiting) {
                state = shelf.wait(state);
                continue;
            }
            let bytes = letter.call.elements * letter.call.element.size() as usize;
            // SAFETY: the sender's slice is still as it was posted, and nobody copies it: the shelf is locked.
            let held =
                unsafe { slice::from_raw_parts(letter.slice.load(Ordering::Relaxed).cast::<u8>(), bytes) };
            // Room for alignment: every element type divides 8.
            let mut copy = vec![0_u8; bytes + 8].into_boxed_slice();
            let skipped = copy.as_ptr().align_offset(8);
            copy[skipped..skipped + bytes].copy_from_slice(held);
            letter.slice = AtomicPtr::new(copy[skipped..].as_mut_ptr().cast());
            letter.copy = Some(copy);
            return Ok(());
        }
        Ok(())
    }
}

fn call<T: Element>(elements: usize) -> Call {
    Call { sequence: 0, operation: Operation::Message, elements, element: T::TYPE }
}

impl PointToPoint for Mailbox {
    fn rank(&self) -> usize {
        self.rank
    }

    fn send<T: Element>(&self, to: usize, tag: Tag, data: &[T]) -> Result<(), CommError> {
        let (from, shelf) = (self.rank, self.shelf(to)?);
        let mut state = self.put_up(to, tag, data, false)?;
        // Only this call takes the letter off the shelf again.
        while let Some(place) = state.find(from, tag) {
            match (&state.letters[place].progress, &state.failure) {
                (Progress::Done(result), _) => {
                    let result = result.clone();
                    state.letters.swap_remove(place);
                    return result;
                }
                (Progress::Waiting, Some(failure)) => {
                    let failure = failure.clone();
                    state.letters.swap_remove(place);
                    return Err(failure);
                }
                _ => state = shelf.wait(state),
            }
        }
        Ok(())
    }

    fn receive<T: Element>(&self, from: usize, tag: Tag, data: &mut [T]) -> Result<(), CommError> {
        let (to, shelf) = (self.rank, self.shelf(self.rank)?);
        self.shelf(from)?;
        let mut state = shelf.lock();
        let place = loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let found = state.find(from, tag);
            match found.filter(|place| matches!(state.letters[*place].progress, Progress::Waiting)) {
                Some(place) => break place,
                None => state = shelf.wait(state),
            }
        };
        let letter = &mut state.letters[place];
        let expected = call::<T>(data.len());
        if letter.call != expected {
            let place = Place::Message { from, to, tag };
            let (first, second) = (View { rank: from, call: letter.call }, View { rank: to, call: expected });
            let error = CommError::Mismatch(Box::new(Mismatch { place, first, second }));
            letter.progress = Progress::Done(Err(error.clone()));
            shelf.wake.notify_all();
            return Err(error);
        }
        letter.progress = Progress::Copying;
        let base = letter.slice.load(Ordering::Relaxed).cast::<T>();
        drop(state);
        // SAFETY: the sender put up `data.len()` elements of `T`, as the calls agree, and waits while its letter
        // says `Copying`; the lock ordered its writes before this.
        data.copy_from_slice(unsafe { slice::from_raw_parts(base, data.len()) });
        let mut state = shelf.lock();
        if let Some(place) = state.find(from, tag) {
            if state.letters[place].posted {
                state.letters.swap_remove(place);
            } else {
                state.letters[place].progress = Progress::Done(Ok(()));
            }
        }
        shelf.wake.notify_all();
        Ok(())
    }
}
