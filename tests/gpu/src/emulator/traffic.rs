//! How many bytes of buffers a launch moves, and how many it would with each byte moved once.

use super::access;

/// Bytes of global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Traffic {
    /// What loads, asynchronous copies and atomic updates ask for, each time.
    pub read: u64,
    /// What stores and atomic updates ask for, each time.
    pub written: u64,
    /// Bytes of which the value before the launch is read, each once.
    pub read_once: u64,
    /// Bytes that are written, each once.
    pub written_once: u64,
}

const READ: u8 = 1;
const WRITTEN: u8 = 2;

impl Traffic {
    /// Counts an access to bytes; `seen` says what the launch has done to each of them.
    pub fn add(&mut self, seen: &mut [u8], flags: u32) {
        let atomic = flags & access::ATOMIC != 0;
        if atomic || flags & access::READ != 0 {
            self.read += seen.len() as u64;
            for byte in seen.iter_mut().filter(|byte| **byte == 0) {
                *byte |= READ;
                self.read_once += 1;
            }
        }
        if atomic || flags & access::WRITE != 0 {
            self.written += seen.len() as u64;
            for byte in seen.iter_mut().filter(|byte| **byte & WRITTEN == 0) {
                *byte |= WRITTEN;
                self.written_once += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_counts_each_time_and_once() {
        let (mut traffic, mut seen) = (Traffic::default(), [0; 8]);
        traffic.add(&mut seen[..4], access::READ);
        traffic.add(&mut seen[2..6], access::READ);
        traffic.add(&mut seen[4..], access::WRITE);
        // What the launch itself has written is not read from before it.
        traffic.add(&mut seen[6..], access::READ);
        traffic.add(&mut seen[..2], access::ATOMIC);
        let expected = Traffic { read: 12, written: 6, read_once: 6, written_once: 6 };
        assert_eq!(traffic, expected);
    }
}
