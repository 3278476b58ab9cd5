//! A GPU in software: translated kernels run thread by thread, and a checker sees every load and store.

pub mod access;
mod clocks;
pub mod collective;
mod copies;
mod device;
mod fiber;
mod flops;
mod histories;
mod host;
mod library;
mod machine;
mod memory;
mod permits;
mod report;
mod shadow;
mod tensor;
mod thread;
mod traffic;

use crate::arguments;
use crate::fault::{Fault, fault};
use crate::gpu::{Argument, Order};
use crate::launch::Launch;
use crate::plain;
use crate::ptx;
use crate::translate::{self, Frame};
use library::Library;
use machine::Machine;
use memory::{Byte, Memory, Range};
use std::sync::Arc;

pub use device::Access;
pub use flops::Flops;
pub use permits::Permits;
pub use traffic::Traffic;

/// What compute capability 8.0 allows to a block.
pub const MOST_SHARED: u64 = 163 * 1024;

/// What a launch has moved and computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub traffic: Traffic,
    pub flops: Flops,
}

struct Program {
    lines: Arc<[String]>,
    library: Library,
    frames: Vec<Frame>,
    /// The module's variables, which keep what kernels write.
    globals: Vec<u8>,
    initial_globals: Vec<u8>,
    constants: Vec<u8>,
}

pub struct Emulator {
    machine: Box<Machine>,
    programs: Vec<Program>,
    counting: bool,
}

impl Emulator {
    pub fn new(order: Order, checking: bool) -> Emulator {
        Emulator { machine: Box::new(Machine::new(order, checking)), programs: vec![], counting: false }
    }

    /// One whose kernels count their floating-point operations, for [`Self::counted`]. They are slower.
    pub fn counting() -> Emulator {
        Emulator { counting: true, ..Emulator::new(Order::Forward, false) }
    }

    /// Forgets all buffers and what kernels have left in variables; compiled modules stay.
    pub fn restart(&mut self, order: Order, checking: bool) {
        *self.machine = Machine::new(order, checking);
        for program in &mut self.programs {
            program.globals = program.initial_globals.clone();
        }
    }

    pub fn load(&mut self, ptx: &str) -> Result<usize, Fault> {
        let module = ptx::parse(ptx)?;
        let translation = translate::translate(&module, self.counting)?;
        self.programs.push(Program {
            lines: module.lines.into(),
            library: Library::compile(&translation.cpp)?,
            frames: translation.kernels,
            globals: translation.globals.clone(),
            initial_globals: translation.globals,
            constants: translation.constants,
        });
        Ok(self.programs.len() - 1)
    }

    /// Adds a buffer of elements of this size; unwritten without `bytes`.
    pub fn add(&mut self, bytes: Option<Vec<u8>>, length: usize, element: usize) -> usize {
        let state = if bytes.is_some() { Byte::Written } else { Byte::Unwritten };
        let bytes = bytes.unwrap_or_else(|| plain::unwritten(length));
        self.machine.memory.add(Range::new(bytes, state, element.min(4)))
    }

    /// The first byte that nothing has written, where that is looked for.
    pub fn unwritten(&mut self, buffer: usize) -> Option<usize> {
        let states = &self.machine.memory.buffer(buffer).states;
        self.machine.checking.then(|| states.iter().position(|state| matches!(state, Byte::Unwritten)))?
    }

    pub fn download(&mut self, buffer: usize) -> Vec<u8> {
        self.machine.memory.buffer(buffer).bytes.clone()
    }

    pub fn launch(&mut self, module: usize, launch: &Launch, arguments: &[Argument]) -> Result<(), Fault> {
        let frame = self.frame(module, launch.kernel)?;
        geometry(frame, launch)?;
        let packed = arguments::pack(launch.kernel, &frame.parameters, arguments, Memory::address)?;
        grant(&mut self.machine.memory, arguments)?;
        self.run(module, launch, packed)
    }

    /// The same, and what it moved and computed.
    pub fn counted(
        &mut self,
        module: usize,
        launch: &Launch,
        arguments: &[Argument],
    ) -> Result<Counted, Fault> {
        if !self.counting {
            return fault("this emulator's kernels don't count");
        }
        self.machine.memory.count_traffic();
        self.launch(module, launch, arguments)?;
        let traffic = self.machine.memory.traffic.take().unwrap_or_default();
        Ok(Counted { traffic, flops: self.machine.flops })
    }

    /// The kernel of this name.
    pub fn frame(&self, module: usize, kernel: &str) -> Result<&Frame, Fault> {
        let Some(program) = self.programs.get(module) else {
            return fault("no such module");
        };
        let frame = program.frames.iter().find(|frame| frame.name == kernel);
        frame.ok_or_else(|| Fault(format!("the module has no kernel {kernel}")))
    }

    /// Runs a launch with packed parameters on the memory that it has been granted.
    fn run(&mut self, module: usize, launch: &Launch, packed: Vec<u8>) -> Result<(), Fault> {
        let program = &mut self.programs[module];
        let Some(frame) = program.frames.iter().find(|frame| frame.name == launch.kernel) else {
            return fault(format!("the module has no kernel {}", launch.kernel));
        };
        let entry = program.library.entry(launch.kernel)?;
        let machine = &mut *self.machine;
        let space = |name: &str, bytes: &[u8]| {
            let mut range = Range::new(bytes.to_vec(), Byte::Written, 1);
            range.name = name.to_owned();
            range
        };
        machine.memory.ranges[memory::GLOBAL] = space("the module's variables", &program.globals);
        machine.memory.ranges[memory::CONSTANT] = space("constant memory", &program.constants);
        machine.kernel = launch.kernel.to_owned();
        machine.lines = Arc::clone(&program.lines);
        let result = machine::run(machine, entry, frame, launch, packed);
        program.globals.clone_from(&self.machine.memory.ranges[memory::GLOBAL].bytes);
        result.map_err(Fault)
    }
}

/// A launch may touch the buffers that are its arguments, each from the first byte that it's given.
fn grant(memory: &mut Memory, arguments: &[Argument]) -> Result<(), Fault> {
    for range in memory.buffers() {
        range.first = None;
    }
    let count = memory.buffers().len();
    for (index, argument) in arguments.iter().enumerate() {
        let (buffer, offset) = match *argument {
            Argument::Buffer(buffer) => (buffer, 0),
            Argument::Part(buffer, offset) => (buffer, offset as usize),
            _ => continue,
        };
        if buffer.0 >= count {
            return fault(format!("argument {index} is no buffer of this device"));
        }
        let range = memory.buffer(buffer.0);
        if range.first.is_none() {
            range.name = format!("argument {index}");
        }
        range.first = Some(range.first.map_or(offset, |first| first.min(offset)));
    }
    Ok(())
}

fn geometry(frame: &Frame, launch: &Launch) -> Result<(), Fault> {
    let threads: u64 = launch.block.iter().map(|&size| u64::from(size)).product();
    let most = u64::from(frame.most_threads.unwrap_or(1024));
    if threads == 0 || threads > most || launch.block[2] > 64 {
        return fault(format!("kernel {}: {threads} threads in a block, at most {most}", launch.kernel));
    }
    let [x, y, z] = launch.grid;
    if x == 0 || y == 0 || z == 0 || x > 0x7fff_ffff || y > 65_535 || z > 65_535 {
        return fault(format!("kernel {}: a grid of {:?} blocks", launch.kernel, launch.grid));
    }
    let fixed: u64 = frame.shared.iter().map(|&(_, bytes)| bytes).sum();
    let shared = fixed + u64::from(launch.shared_bytes);
    if shared > MOST_SHARED {
        return fault(format!(
            "kernel {}: {shared} bytes of shared memory, at most {MOST_SHARED}",
            launch.kernel
        ));
    }
    Ok(())
}
