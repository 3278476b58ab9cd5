//! A rank's step, instruction by instruction in the order in which they are issued: the clock of its memory.

use crate::lower::Stream;
use crate::program::instruction::{BufferId, Instruction, RankProgram, Task, Template};

/// A buffer of one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Instance {
    pub frame: u32,
    pub micro: u32,
    pub buffer: BufferId,
}

/// An instruction of one call.
#[derive(Clone, Copy, Debug)]
pub struct Issued<'a> {
    pub call: u32,
    pub template: u32,
    /// Within its template.
    pub index: u32,
    pub micro: u32,
    pub frame: u32,
    pub instruction: &'a Instruction,
}

impl Issued<'_> {
    /// The buffer `buffer` of its micro-batch.
    pub const fn instance(&self, buffer: BufferId) -> Instance {
        Instance { frame: self.frame, micro: self.micro, buffer }
    }
}

impl RankProgram {
    /// All instructions in issue order.
    pub fn issued(&self) -> impl Iterator<Item = Issued<'_>> {
        (0..).zip(&self.calls).flat_map(move |(number, call)| {
            let template = &self.templates[call.template as usize];
            (0..).zip(&template.instructions).map(move |(index, instruction)| Issued {
                call: number,
                template: call.template,
                index,
                micro: call.micro,
                frame: template.frame,
                instruction,
            })
        })
    }

    /// The call whose sent buffers `issued` frees.
    fn freed_call(&self, issued: &Issued<'_>) -> Option<(&Template, u32)> {
        let before = match issued.instruction.task {
            Task::FreeSent => &self.calls[issued.call.checked_sub(1)? as usize],
            _ => return None,
        };
        Some((&self.templates[before.template as usize], before.micro))
    }

    /// The buffers that `issued` frees: its own, or what the call before has sent.
    pub fn frees(&self, issued: &Issued<'_>) -> impl Iterator<Item = Instance> {
        let sent = self.freed_call(issued).into_iter().flat_map(|(template, micro)| {
            let frame = template.frame;
            template.sent.iter().map(move |&buffer| Instance { frame, micro, buffer })
        });
        let (frame, micro) = (issued.frame, issued.micro);
        let own = issued.instruction.frees.iter().map(move |&buffer| Instance { frame, micro, buffer });
        own.chain(sent)
    }
}

/// For each stream, how many of its instructions must be done.
pub type Waits = [u32; Stream::ALL.len()];

/// Counts instructions by stream, and says what each waits for in these counts.
#[derive(Debug, Default)]
pub struct Clock {
    /// Instructions of each stream that were issued.
    issued: Waits,
    /// Of these, before the present call.
    before: Waits,
    call: u32,
    /// Stream and count of each instruction of the present call.
    here: Vec<(Stream, u32)>,
}

impl Clock {
    /// Issues the next instruction: how many instructions of each stream it waits for, and how many of its own stream
    /// stand before it.
    pub fn next(&mut self, issued: &Issued<'_>) -> (Waits, u32) {
        if self.call != issued.call {
            self.call = issued.call;
            self.before = self.issued;
            self.here.clear();
        }
        let mut waits = Waits::default();
        for &wait in &issued.instruction.waits {
            let (stream, count) = self.here[wait as usize];
            let slot = &mut waits[stream as usize];
            *slot = count.max(*slot);
        }
        for stream in issued.instruction.behind.numbers() {
            waits[stream] = waits[stream].max(self.before[stream]);
        }
        let stream = issued.instruction.stream;
        let own = &mut self.issued[stream as usize];
        waits[stream as usize] = *own;
        *own += 1;
        self.here.push((stream, *own));
        (waits, *own - 1)
    }
}
