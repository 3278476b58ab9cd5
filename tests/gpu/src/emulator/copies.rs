//! Asynchronous copies: the bytes land when the thread waits for their group, and not before.

use std::collections::VecDeque;

/// Bytes on their way into shared memory.
pub struct Copy {
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// The copies of one thread: those of each committed group, then those of none yet.
#[derive(Default)]
pub struct Copies {
    groups: VecDeque<Vec<Copy>>,
    open: Vec<Copy>,
}

impl Copies {
    pub fn start(&mut self, copy: Copy) {
        self.open.push(copy);
    }

    pub fn commit(&mut self) {
        self.groups.push_back(std::mem::take(&mut self.open));
    }

    /// The copies that land so that at most `pending` groups remain.
    pub fn wait(&mut self, pending: usize) -> Vec<Copy> {
        let landing = self.groups.len().saturating_sub(pending);
        self.groups.drain(..landing).flatten().collect()
    }
}
