//! Fibers: a stack for each thread of a block, and the switch between them.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the switch between fibers is written for x86-64 only");

/// Enough for a kernel's registers, which the C++ compiler keeps on the stack.
const STACK: usize = 128 * 1024;
/// What a kernel's function may take of it: the emulator's own functions run on the rest.
pub const MOST_FRAME: usize = STACK - 32 * 1024;
const CANARY: u64 = 0x5afe_57ac_5afe_57ac;

pub type Entry = unsafe extern "C" fn(*mut u8) -> !;

/// The stacks of a block's threads, and where each of them stands.
#[derive(Default)]
pub struct Fibers {
    stacks: Vec<u8>,
    pub places: Vec<*mut u8>,
}

impl Fibers {
    /// Prepares `count` fibers; each begins in `entry` with its own argument.
    pub fn prepare(&mut self, count: usize, entry: Entry, argument: impl Fn(usize) -> *mut u8) {
        if self.stacks.len() < count * STACK {
            self.stacks = vec![0; count * STACK];
        }
        self.places.clear();
        for index in 0..count {
            let bottom = self.stacks[index * STACK..].as_mut_ptr();
            // The top as `switch` leaves it: six registers and the address of `begin`, aligned for a call.
            unsafe {
                let canary = bottom.add(bottom.align_offset(8)).cast::<u64>();
                canary.write(CANARY);
                let top = bottom.add(STACK);
                let top = top.sub(top as usize % 16).cast::<usize>().sub(8);
                top.write(entry as usize);
                top.add(1).write(argument(index) as usize);
                [2, 3, 4, 5].into_iter().for_each(|register| top.add(register).write(0));
                top.add(6).write(begin as *const () as usize);
                top.add(7).write(0);
                self.places.push(top.cast());
            }
        }
    }

    /// Whether a fiber has written over the end of its stack.
    pub fn overflown(&self) -> bool {
        (0..self.places.len()).any(|index| {
            let bottom = self.stacks[index * STACK..].as_ptr();
            unsafe { bottom.add(bottom.align_offset(8)).cast::<u64>().read() != CANARY }
        })
    }
}

/// Leaves one stack, noting its place in `from`, and goes on where `to` was left.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut *mut u8, to: *mut u8) {
    std::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// The first step of a fiber: calls the entry (r15) with its argument (r14).
#[unsafe(naked)]
unsafe extern "C" fn begin() {
    std::arch::naked_asm!("sub rsp, 8", "mov rdi, r14", "call r15", "ud2")
}
