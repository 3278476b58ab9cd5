//! Where a fault is, and who waits for whom, in words.

use super::machine::{Machine, State};
use super::thread::Thread;

impl Machine {
    /// The text for a fault of a thread.
    pub fn describe(&self, thread: usize, line: u32, text: &str) -> String {
        let Thread { thread, block, .. } = &self.threads[thread];
        format!("kernel {}, block {block:?}, thread {thread:?}, {}: {text}", self.kernel, self.line(line))
    }

    pub fn line(&self, line: u32) -> String {
        let text = self.lines.get((line as usize).wrapping_sub(1)).map_or("", |line| line.trim());
        format!("PTX line {line} (`{text}`)")
    }

    /// What everybody waits for.
    pub fn deadlock(&self) -> String {
        let mut waits: Vec<(String, Vec<usize>)> = vec![];
        let mut ended = 0;
        for (thread, state) in self.states.iter().enumerate() {
            let what = match *state {
                State::Barrier { name, line } => format!("at barrier {name}, {}", self.line(line)),
                State::Meeting(meeting) => unsafe {
                    format!("for the lanes of mask {:#x}, {}", (*meeting).mask, self.line((*meeting).line))
                },
                State::Ready => continue,
                State::Done => {
                    ended += 1;
                    continue;
                }
            };
            match waits.iter_mut().find(|(other, _)| *other == what) {
                Some((_, threads)) => threads.push(thread),
                None => waits.push((what, vec![thread])),
            }
        }
        let waits: Vec<String> = waits
            .iter()
            .map(|(what, threads)| {
                format!("{} threads (the first is {}) wait {what}", threads.len(), threads[0])
            })
            .collect();
        let block = self.threads[0].block;
        format!(
            "kernel {}, block {block:?}: divergent barrier or deadlock: {}; {ended} threads have ended",
            self.kernel,
            waits.join("; ")
        )
    }
}
