//! The calls that a running kernel makes into the emulator. None returns where a fault is found.

use super::access;
use super::collective::{complete, kind};
use super::copies::Copy;
use super::machine::{Machine, State, fail, index, place, suspend};
use super::memory::{self, Byte, Refusal, Visit};
use super::shadow::Record;
use super::thread::{Collective, Host, Thread};
use crate::plain;
use std::ffi::c_void;

pub static HOST: Host = Host { access, barrier, collective, copy, commit, wait, trap };

impl Machine {
    /// Makes an access for a thread, or says why it may not be.
    fn visit(
        &mut self,
        thread: usize,
        address: u64,
        (bytes, alignment): (usize, usize),
        flags: u32,
        line: u32,
    ) -> Result<(usize, usize), String> {
        let clock = self.clocks.now(thread / 32);
        let visit = Visit {
            clocks: &self.clocks,
            first_block: self.first_block,
            record: Record::new(self.block, thread as u32, clock, line),
            checking: self.checking,
            local_bytes: self.local_bytes,
        };
        let refusal = match self.memory.access(&visit, address, bytes, alignment, flags) {
            Ok(place) => return Ok(place),
            Err(refusal) => refusal,
        };
        let text = match refusal {
            Refusal::Text(text) => text,
            Refusal::Race { text, verb, other } => format!(
                "{text}, which block {:?}, thread {:?} {verb} at {} with no barrier that puts one before the other",
                place(self.sequence[(other.block - self.first_block) as usize], self.grid),
                place(other.thread() as usize, self.block_size),
                self.line(other.line)
            ),
        };
        Err(self.describe(thread, line, &text))
    }
}

unsafe extern "C" fn access(
    thread: *mut Thread,
    address: u64,
    bytes: u32,
    flags: u32,
    line: u32,
) -> *mut c_void {
    let (machine, thread) = unsafe { ((*thread).machine, index(thread)) };
    let size = (bytes as usize, bytes as usize);
    match unsafe { (*machine).visit(thread, address, size, flags, line) } {
        Ok((range, start)) => unsafe {
            (&mut (*machine).memory.ranges)[range].bytes.as_mut_ptr().add(start).cast()
        },
        Err(text) => fail(machine, thread, text),
    }
}

unsafe extern "C" fn barrier(thread: *mut Thread, name: u32, count: u32, value: u32, line: u32) -> u64 {
    let (machine, thread) = unsafe { ((*thread).machine, index(thread)) };
    match unsafe { (*machine).arrive(thread, name, count, value, line) } {
        Ok(true) => {}
        Ok(false) => suspend(machine, thread),
        Err(text) => fail(machine, thread, unsafe { (*machine).describe(thread, line, &text) }),
    }
    unsafe { (&(*machine).votes)[thread] }
}

impl Machine {
    /// Whether the barrier is complete with this thread.
    fn arrive(
        &mut self,
        thread: usize,
        name: u32,
        count: u32,
        value: u32,
        line: u32,
    ) -> Result<bool, String> {
        let expected = if count == 0 { self.threads.len() as u32 } else { count };
        if !count.is_multiple_of(32) || expected as usize > self.threads.len() {
            return Err(format!("a barrier of {count} threads in a block of {}", self.threads.len()));
        }
        self.states[thread] = State::Barrier { name, line };
        let warp = thread / 32;
        let barrier = self.barriers.get_mut(name as usize).ok_or(format!("there is no barrier {name}"))?;
        if !barrier.threads.is_empty() && barrier.expected != expected {
            return Err(format!(
                "barrier {name} is for {expected} threads here and for {} elsewhere",
                barrier.expected
            ));
        }
        barrier.expected = expected;
        // The instruction is one of the whole warp: two lanes at different ones have diverged. It is enough
        // to compare with the latest lane of the warp, which was compared with those before it.
        let latest = barrier.threads.iter().rev().find(|&&other| other / 32 == warp);
        if let Some(&other) = latest
            && let State::Barrier { line: at, .. } = self.states[other]
            && at != line
        {
            let text = self.line(at);
            return Err(format!("divergent barrier: thread {other} of the same warp waits at {text}"));
        }
        barrier.threads.push(thread);
        barrier.votes += u64::from(value != 0);
        if (barrier.threads.len() as u32) < expected {
            return Ok(false);
        }
        let done = std::mem::take(barrier);
        let mut warps: Vec<usize> = done.threads.iter().map(|thread| thread / 32).collect();
        warps.sort_unstable();
        warps.dedup();
        let whole: usize = warps.iter().map(|&warp| self.warp_lanes(warp)).sum();
        if whole != done.threads.len() {
            return Err("a part of a warp has come to a barrier for some threads of the block".into());
        }
        self.clocks.barrier(&warps);
        for &thread in &done.threads {
            self.states[thread] = State::Ready;
            self.votes[thread] = u64::from(expected) << 32 | done.votes;
        }
        Ok(true)
    }
}

unsafe extern "C" fn collective(thread: *mut Thread, meeting: *mut Collective) {
    let (machine, thread) = unsafe { ((*thread).machine, index(thread)) };
    match unsafe { (*machine).meet(thread, meeting) } {
        Ok(true) => {}
        Ok(false) => suspend(machine, thread),
        Err(text) => fail(machine, thread, text),
    }
}

impl Machine {
    /// Whether the lanes of the mask are complete with this thread, and served.
    fn meet(&mut self, thread: usize, meeting: *mut Collective) -> Result<bool, String> {
        self.states[thread] = State::Meeting(meeting);
        let (mask, line) = unsafe { ((*meeting).mask, (*meeting).line) };
        let (warp, lane) = (thread / 32, thread % 32);
        if mask >> lane & 1 == 0 {
            return Err(self.describe(thread, line, &format!("the lane isn't in its own mask {mask:#x}")));
        }
        // While a neighbour is still on its way, nobody else has to be looked at: the last to come looks at all.
        let is_coming = |lane: usize| matches!(self.states.get(warp * 32 + lane), Some(State::Ready));
        if [lane.wrapping_sub(1), lane + 1]
            .into_iter()
            .any(|next| next < 32 && mask >> next & 1 == 1 && is_coming(next))
        {
            return Ok(false);
        }
        let mut lanes: [Option<&mut Collective>; 32] = [const { None }; 32];
        for (other, place) in lanes.iter_mut().enumerate().filter(|(other, _)| mask >> other & 1 == 1) {
            let problem = match self.states.get(warp * 32 + other) {
                None => format!("the mask {mask:#x} names lane {other}, which the block doesn't have"),
                Some(State::Done) => format!("the mask {mask:#x} names lane {other}, which has ended"),
                Some(State::Meeting(waiting)) => {
                    let waiting = unsafe { &mut **waiting };
                    if (waiting.line, waiting.mask) == (line, mask) {
                        *place = Some(waiting);
                        continue;
                    }
                    let elsewhere = self.line(waiting.line);
                    format!("the warp has diverged: lane {other} is at {elsewhere}, mask {:#x}", waiting.mask)
                }
                Some(_) => return Ok(false),
            };
            return Err(self.describe(thread, line, &problem));
        }
        let mut rows = [[0; 16]; 32];
        let (kind, mode) = unsafe { ((*meeting).kind, (*meeting).mode) };
        if kind == kind::LOAD_MATRIX {
            for lane in 0..8 * (mode as usize & 7) {
                let address = lanes[lane].as_ref().map_or(0, |lane| lane.address);
                let flags = access::READ | memory::SHARED as u32;
                let (range, start) = self.visit(warp * 32 + lane, address, (16, 16), flags, line)?;
                rows[lane].copy_from_slice(&self.memory.ranges[range].bytes[start..start + 16]);
            }
        }
        complete(&mut lanes, &rows).map_err(|text| self.describe(thread, line, &text))?;
        let present = self.warp_lanes(warp) as u32;
        if kind == kind::SYNC && mask.count_ones() == present {
            self.clocks.warp_barrier(warp);
        }
        for other in (0..32).filter(|other| mask >> other & 1 == 1) {
            self.states[warp * 32 + other] = State::Ready;
        }
        Ok(true)
    }

    /// Reads the source and marks the target as in flight.
    fn start_copy(
        &mut self,
        thread: usize,
        [target, source]: [u64; 2],
        [bytes, source_bytes]: [u32; 2],
        line: u32,
    ) -> Result<(), String> {
        let (size, source_size) = (bytes as usize, source_bytes as usize);
        if source_size > size {
            return Err(self.describe(thread, line, &format!("copies {source_bytes} bytes of {bytes}")));
        }
        let mut copied = vec![0; size];
        if source_size > 0 {
            let flags = access::READ | memory::GLOBAL as u32;
            let (range, start) = self.visit(thread, source, (source_size, size), flags, line)?;
            copied[..source_size].copy_from_slice(&self.memory.ranges[range].bytes[start..][..source_size]);
        }
        let flags = access::WRITE | memory::SHARED as u32;
        let (range, start) = self.visit(thread, target, (size, size), flags, line)?;
        self.memory.ranges[range].states[start..start + size].fill(Byte::InFlight);
        // A NaN for whoever reads it too early, unchecked.
        self.memory.ranges[range].bytes[start..start + size].copy_from_slice(&plain::unwritten(size));
        self.copies[thread].start(Copy { address: target, bytes: copied });
        Ok(())
    }

    fn land(&mut self, thread: usize, pending: u32, line: u32) -> Result<(), String> {
        for copy in self.copies[thread].wait(pending as usize) {
            let size = copy.bytes.len();
            let start = copy.address as usize;
            let shared = &mut self.memory.ranges[memory::SHARED];
            shared.states[start..start + size].fill(Byte::Unwritten);
            let flags = access::WRITE | memory::SHARED as u32;
            let (range, start) = self.visit(thread, copy.address, (size, size), flags, line)?;
            self.memory.ranges[range].bytes[start..start + size].copy_from_slice(&copy.bytes);
        }
        Ok(())
    }
}

unsafe extern "C" fn copy(
    thread: *mut Thread,
    target: u64,
    source: u64,
    bytes: u32,
    source_bytes: u32,
    line: u32,
) {
    let (machine, thread) = unsafe { ((*thread).machine, index(thread)) };
    let started = unsafe { (*machine).start_copy(thread, [target, source], [bytes, source_bytes], line) };
    if let Err(text) = started {
        fail(machine, thread, text);
    }
}

unsafe extern "C" fn commit(thread: *mut Thread) {
    unsafe { (&mut (*(*thread).machine).copies)[index(thread)].commit() }
}

unsafe extern "C" fn wait(thread: *mut Thread, pending: u32, line: u32) {
    let (machine, thread) = unsafe { ((*thread).machine, index(thread)) };
    if let Err(text) = unsafe { (*machine).land(thread, pending, line) } {
        fail(machine, thread, text);
    }
}

unsafe extern "C" fn trap(thread: *mut Thread, reason: u32, line: u32) {
    let (machine, thread) = unsafe { ((*thread).machine, index(thread)) };
    let text = if reason == 1 { "divides by zero" } else { "the kernel stops with a trap" };
    fail(machine, thread, unsafe { (*machine).describe(thread, line, text) });
}
