//! Which threads are inside NCCL, of which communicator: only one may be, and only one of those of a GPU.

use super::{Code, refuse};
use crate::failure::Answer;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

static INSIDE: Mutex<Vec<Entered>> = Mutex::new(vec![]);
/// The devices of communicators, by their handles.
static DEVICES: Mutex<Vec<(u64, usize)>> = Mutex::new(vec![]);

/// What a call does with its communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It gives the GPU work.
    Launch,
    /// It changes the communicator.
    Change,
    /// It ends it, which another thread's open group doesn't hinder.
    Abort,
}

#[derive(Clone, Copy)]
struct Entered {
    communicator: u64,
    device: Option<usize>,
    what: Use,
    thread: ThreadId,
    /// It has returned, and its group is open.
    held: bool,
}

/// A thread inside a call.
pub struct Inside(Entered);

impl Drop for Inside {
    fn drop(&mut self) {
        let mut all = lock(&INSIDE);
        let Entered { communicator, thread, .. } = self.0;
        let same =
            |other: &Entered| other.communicator == communicator && other.thread == thread && !other.held;
        if let Some(at) = all.iter().rposition(same) {
            all.remove(at);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A communicator has come, on a device.
pub fn know(communicator: u64, device: usize) {
    lock(&DEVICES).push((communicator, device));
}

pub fn forget(communicator: u64) {
    lock(&DEVICES).retain(|known| known.0 != communicator);
    lock(&INSIDE).retain(|entered| entered.communicator != communicator || !entered.held);
}

/// The thread goes into a call; an error if another one is where it may not be.
pub fn enter(communicator: u64, what: Use) -> Answer<Inside> {
    let device = lock(&DEVICES).iter().find(|known| known.0 == communicator).map(|known| known.1);
    let here = std::thread::current().id();
    let mut all = lock(&INSIDE);
    for other in all.iter().filter(|other| other.thread != here) {
        if other.communicator == communicator && (what != Use::Abort || !other.held) {
            return refuse(Code::InvalidUsage, "two threads use one communicator at once");
        }
        let both = [other.what, what] == [Use::Launch; 2];
        if both && device.is_some() && other.device == device {
            return refuse(
                Code::InvalidUsage,
                format!(
                    "two threads use communicators of device {} at once (NCCL_LAUNCH_RACE_FATAL)",
                    device.unwrap_or_default()
                ),
            );
        }
    }
    let entered = Entered { communicator, device, what, thread: here, held: false };
    all.push(entered);
    Ok(Inside(entered))
}

/// The thread stays inside until its group ends.
pub fn hold(inside: &Inside) {
    lock(&INSIDE).push(Entered { held: true, ..inside.0 });
}

/// The thread's group has ended.
pub fn release() {
    let here = std::thread::current().id();
    lock(&INSIDE).retain(|entered| entered.thread != here || !entered.held);
}
