//! Runs the blocks of a launch one by one, and the threads of a block as fibers in a chosen order.

use super::clocks::Clocks;
use super::copies::Copies;
use super::fiber::{self, Fibers};
use super::flops::Flops;
use super::memory::{self, Byte, Memory, Range};
use super::thread::{Collective, Entry, Thread};
use crate::compare::Random;
use crate::gpu::Order;
use crate::launch::Launch;
use crate::translate::Frame;
use std::sync::Arc;

/// Why a thread doesn't go on.
#[derive(Clone, Copy)]
pub enum State {
    Ready,
    Barrier { name: u32, line: u32 },
    Meeting(*mut Collective),
    Done,
}

/// The threads that wait at a barrier.
#[derive(Default)]
pub struct Barrier {
    pub threads: Vec<usize>,
    pub expected: u32,
    pub votes: u64,
}

/// The emulated device and the launch that it runs.
pub struct Machine {
    pub memory: Memory,
    pub order: Order,
    pub checking: bool,
    pub clocks: Clocks,
    pub threads: Vec<Thread>,
    pub states: Vec<State>,
    pub barriers: Vec<Barrier>,
    /// What the last barrier gave to each thread.
    pub votes: Vec<u64>,
    pub copies: Vec<Copies>,
    /// The running block, counted over all launches as they run; the launch's first.
    pub block: u32,
    pub first_block: u32,
    /// The launch's blocks in the order in which they run.
    pub sequence: Vec<usize>,
    pub local_bytes: usize,
    pub grid: [u32; 3],
    pub block_size: [u32; 3],
    pub lines: Arc<[String]>,
    pub kernel: String,
    pub fault: Option<String>,
    pub fibers: Fibers,
    /// What the launch has computed, where that is counted.
    pub flops: Flops,
    scheduler: *mut u8,
    entry: Option<Entry>,
    parameters: Vec<u8>,
}

impl Machine {
    pub fn new(order: Order, checking: bool) -> Machine {
        Machine {
            memory: Memory::new(),
            order,
            checking,
            clocks: Clocks::default(),
            threads: vec![],
            states: vec![],
            barriers: vec![],
            votes: vec![],
            copies: vec![],
            block: 1,
            first_block: 1,
            sequence: vec![],
            local_bytes: 0,
            grid: [1; 3],
            block_size: [1; 3],
            lines: Arc::default(),
            kernel: String::new(),
            fault: None,
            fibers: Fibers::default(),
            flops: Flops::default(),
            scheduler: std::ptr::null_mut(),
            entry: None,
            parameters: vec![],
        }
    }

    pub fn warp_lanes(&self, warp: usize) -> usize {
        (self.threads.len() - warp * 32).min(32)
    }

    /// Empties what a block begins with: shared and local memory, barriers, threads.
    fn begin_block(&mut self, frame: &Frame, launch: &Launch, turn: usize) {
        let [x, y, z] = launch.block.map(|size| size as usize);
        let threads = x * y * z;
        let shared: &mut Range = &mut self.memory.ranges[memory::SHARED];
        let dynamic = frame.dynamic_shared as usize;
        shared.reset(dynamic + launch.shared_bytes as usize, frame.granule);
        shared.states[..dynamic].fill(Byte::Outside);
        for &(start, bytes) in &frame.shared {
            shared.states[start as usize..][..bytes as usize].fill(Byte::Unwritten);
        }
        self.local_bytes = frame.local_bytes as usize;
        self.memory.ranges[memory::LOCAL].reset(threads * self.local_bytes, 1);
        self.clocks.reset(threads.div_ceil(32));
        refill(&mut self.states, threads, || State::Ready);
        refill(&mut self.votes, threads, || 0);
        refill(&mut self.barriers, 16, Barrier::default);
        refill(&mut self.copies, threads, Copies::default);
        let machine: *mut Machine = self;
        let block = place(self.sequence[turn], launch.grid);
        self.threads.clear();
        self.threads.extend((0..threads).map(|thread| Thread {
            thread: place(thread, launch.block),
            block_size: launch.block,
            block,
            grid_size: launch.grid,
            lane: thread as u32 % 32,
            warp: thread as u32 / 32,
            dynamic_shared: launch.shared_bytes,
            total_shared: (dynamic as u32) + launch.shared_bytes,
            machine,
            flops: [0; 3],
        }));
        self.block = self.first_block + turn as u32;
        let threads_at = self.threads.as_mut_ptr();
        self.fibers.prepare(threads, body, |thread| threads_at.wrapping_add(thread).cast());
    }

    fn permutation(&self, count: usize, random: &mut Random) -> Vec<usize> {
        let mut places: Vec<usize> = (0..count).collect();
        match self.order {
            Order::Forward => {}
            Order::Reversed => places.reverse(),
            Order::Random => {
                for at in (1..count).rev() {
                    places.swap(at, random.below(at as u64 + 1) as usize);
                }
            }
        }
        places
    }
}

/// Makes `values` new ones, where the old ones lie.
fn refill<T>(values: &mut Vec<T>, count: usize, new: impl Fn() -> T) {
    values.clear();
    values.resize_with(count, new);
}

pub fn place(index: usize, size: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = size.map(|size| size as usize);
    [index % x, index / x % y, index / x / y].map(|place| place as u32)
}

/// Runs all blocks; the machine must not be borrowed meanwhile, because its fibers come back to it.
pub fn run(
    machine: *mut Machine,
    entry: Entry,
    frame: &Frame,
    launch: &Launch,
    parameters: Vec<u8>,
) -> Result<(), String> {
    let blocks = launch.grid.iter().map(|&size| size as usize).product();
    let mut random = Random(blocks as u64);
    unsafe {
        (*machine).entry = Some(entry);
        (*machine).parameters = parameters;
        (*machine).grid = launch.grid;
        (*machine).block_size = launch.block;
        (*machine).flops = Flops::default();
        (*machine).sequence = (*machine).permutation(blocks, &mut random);
    };
    let result = (0..blocks).try_for_each(|turn| {
        unsafe { (*machine).begin_block(frame, launch, turn) };
        run_block(machine, &mut random)?;
        let machine = unsafe { &mut *machine };
        machine.threads.iter().for_each(|thread| machine.flops.add(thread.flops));
        Ok(())
    });
    // Also of a launch that was given up: no later one may take its blocks for its own.
    unsafe { (*machine).first_block += blocks as u32 };
    result
}

/// Warp by warp: the lanes of one go on until all of them wait.
fn run_block(machine: *mut Machine, random: &mut Random) -> Result<(), String> {
    let threads = unsafe { (*machine).threads.len() };
    let mut shuffled = |count: usize| unsafe { (*machine).permutation(count, random) };
    let (mut warps, mut lanes) = (shuffled(threads.div_ceil(32)), shuffled(32));
    loop {
        let mut moved = false;
        for warp in &warps {
            loop {
                let mut moved_here = false;
                for lane in &lanes {
                    let thread = warp * 32 + lane;
                    if thread < threads && matches!(unsafe { (&(*machine).states)[thread] }, State::Ready) {
                        resume(machine, thread);
                        moved_here = true;
                        if let Some(fault) = unsafe { (*machine).fault.take() } {
                            return Err(fault);
                        }
                    }
                }
                if !moved_here {
                    break;
                }
                moved = true;
            }
        }
        let machine = unsafe { &*machine };
        if machine.states.iter().all(|state| matches!(state, State::Done)) {
            assert!(!machine.fibers.overflown(), "a fiber has overflown its stack");
            return Ok(());
        }
        if !moved {
            return Err(machine.deadlock());
        }
        if machine.order == Order::Random {
            (warps, lanes) = (shuffled(warps.len()), shuffled(lanes.len()));
        }
    }
}

fn resume(machine: *mut Machine, thread: usize) {
    unsafe {
        let to = (&(*machine).fibers.places)[thread];
        fiber::switch(&raw mut (*machine).scheduler, to);
    }
}

/// Leaves the thread until the scheduler comes back to it.
pub fn suspend(machine: *mut Machine, thread: usize) {
    unsafe {
        let from = &raw mut (&mut (*machine).fibers.places)[thread];
        fiber::switch(from, (*machine).scheduler);
    }
}

/// Ends the launch with a fault; the thread never goes on.
pub fn fail(machine: *mut Machine, thread: usize, text: String) -> ! {
    unsafe { (*machine).fault = Some(text) };
    loop {
        suspend(machine, thread);
    }
}

/// Where a fiber begins.
unsafe extern "C" fn body(thread: *mut u8) -> ! {
    let thread: *mut Thread = thread.cast();
    let (machine, index) = unsafe { ((*thread).machine, index(thread)) };
    unsafe {
        if let Some(entry) = (*machine).entry {
            entry(thread, (*machine).parameters.as_ptr());
        }
        (&mut (*machine).states)[index] = State::Done;
    }
    loop {
        suspend(machine, index);
    }
}

/// The place of a thread in its block.
pub unsafe fn index(thread: *const Thread) -> usize {
    unsafe { ((*thread).warp * 32 + (*thread).lane) as usize }
}
