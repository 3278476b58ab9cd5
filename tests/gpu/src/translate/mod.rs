//! Turns PTX into C++: a function a kernel, a statement an instruction. An instruction, modifier or operand that it
//! doesn't know is a fault with its line, never a guess.

mod arithmetic;
mod compare;
mod control;
mod convert;
mod flops;
mod granule;
mod instruction;
mod memory;
mod names;
mod warp;

use crate::fault::Fault;
use crate::ptx::{Kernel, Module, Parameter, Space, Statement, Variable};
use instruction::Emit;
use names::Names;
use std::collections::HashMap;

/// What surrounds the translated kernels: arithmetic and the calls into the emulator.
const RUNTIME: &str = concat!(
    include_str!("../runtime/machine.hpp"),
    include_str!("../runtime/integer.hpp"),
    include_str!("../runtime/float.hpp")
);

/// The room that is left behind each shared variable, where no access is allowed.
const SHARED_GAP: u64 = 64;

/// A translated module.
pub struct Translation {
    pub cpp: String,
    pub kernels: Vec<Frame>,
    /// The module's variables of the spaces `.global` and `.const`, one behind the other.
    pub globals: Vec<u8>,
    pub constants: Vec<u8>,
}

/// What a launch of a kernel must set up.
pub struct Frame {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub most_threads: Option<u32>,
    /// The shared variables as (start, bytes); dynamic shared memory begins at `dynamic_shared`.
    pub shared: Vec<(u64, u64)>,
    pub dynamic_shared: u64,
    pub local_bytes: u64,
    /// Bytes of a cell by which races are told apart.
    pub granule: usize,
}

/// With `counting`, instructions count their floating-point operations where they are executed.
pub fn translate(module: &Module, counting: bool) -> Result<Translation, Fault> {
    let mut names = Names::default();
    let (mut globals, mut constants) = (vec![], vec![]);
    for variable in &module.variables {
        let memory = match variable.space {
            Space::Global => &mut globals,
            Space::Constant => &mut constants,
            _ => continue,
        };
        names.place(variable, reserve(memory, variable));
    }
    let mut translation = Translation { cpp: RUNTIME.to_owned(), kernels: vec![], globals, constants };
    for kernel in &module.kernels {
        let frame = frame(module, kernel, &mut names)?;
        translation.kernels.push(frame);
        let body = body(module, kernel, &mut names, counting)?;
        translation.cpp.push_str(&format!(
            "EXPORT void kernel_{}(Thread *t, const u8 *parameters) {{\n{body}}}\n",
            names::identifier(&kernel.name)
        ));
    }
    Ok(translation)
}

fn reserve(memory: &mut Vec<u8>, variable: &Variable) -> u64 {
    let start = memory.len().next_multiple_of(variable.alignment as usize);
    memory.resize(start, 0);
    memory.extend_from_slice(&variable.initial);
    memory.resize(start + variable.bytes as usize, 0);
    start as u64
}

/// The first multiple of `alignment` from `end` on that is aligned no further: who relies on more is found.
fn placed(end: u64, alignment: u64) -> u64 {
    let start = end.next_multiple_of(alignment);
    if start.is_multiple_of(2 * alignment) { start + alignment } else { start }
}

/// Places the kernel's shared and local variables, wherever they are declared.
fn frame(module: &Module, kernel: &Kernel, names: &mut Names) -> Result<Frame, Fault> {
    let inner = kernel.body.iter().filter_map(|statement| match statement {
        Statement::Variable(variable) => Some(variable),
        _ => None,
    });
    let (mut shared, mut end, mut local) = (vec![], 0u64, 0u64);
    let mut dynamic = vec![];
    for variable in module.variables.iter().chain(inner) {
        match variable.space {
            Space::Shared if variable.bytes == 0 => dynamic.push(variable),
            Space::Shared => {
                let start = placed(end, variable.alignment);
                shared.push((start, variable.bytes));
                names.place(variable, start);
                end = start + variable.bytes + SHARED_GAP;
            }
            Space::Local => {
                let start = local.next_multiple_of(variable.alignment);
                names.place(variable, start);
                local = start + variable.bytes;
            }
            _ => {}
        }
    }
    // A GPU aligns it to 16 bytes where nothing is declared.
    let alignment = dynamic.iter().map(|variable| variable.alignment).max().unwrap_or(1).max(16);
    let dynamic_shared = placed(end, alignment);
    dynamic.iter().for_each(|variable| names.place(variable, dynamic_shared));
    names.parameters =
        kernel.parameters.iter().map(|parameter| (parameter.name.clone(), parameter.offset)).collect();
    Ok(Frame {
        name: kernel.name.clone(),
        parameters: kernel.parameters.clone(),
        most_threads: kernel.most_threads,
        shared,
        dynamic_shared,
        local_bytes: local,
        granule: granule::granule(kernel),
    })
}

fn body(module: &Module, kernel: &Kernel, names: &mut Names, counting: bool) -> Result<String, Fault> {
    let mut tables = HashMap::new();
    for statement in &kernel.body {
        if let Statement::Targets { label, targets } = statement {
            tables.insert(label.clone(), targets.clone());
        }
    }
    let mut cpp = String::new();
    names.open();
    for statement in &kernel.body {
        match statement {
            Statement::Open => {
                names.open();
                cpp.push_str("{\n");
            }
            Statement::Close => {
                names.close();
                cpp.push_str("}\n");
            }
            Statement::Label(label) => cpp.push_str(&format!("label_{}:;\n", names::identifier(label))),
            Statement::Registers { kind, names: registers } => {
                // C++ forbids a jump over an initial value, so that only the outermost scope has them: a pattern
                // that is a NaN, for whoever uses a register before it's set.
                let initial = if names.depth() > 1 { "" } else { " = decltype(0ull)(0x7fbadbad7fbadbad)" };
                for register in registers {
                    names.declare(register, *kind);
                    cpp.push_str(&format!("{} {}{initial};\n", kind.register(), names::register(register)));
                }
            }
            Statement::Variable(_) | Statement::Targets { .. } => {}
            Statement::Instruction(instruction) => {
                let text = Emit::new(names, &tables, instruction, counting).statement().map_err(|fault| {
                    let source = module.lines.get(instruction.line - 1).map_or("", |line| line.trim());
                    Fault(format!("{}, PTX line {} (`{source}`): {fault}", kernel.name, instruction.line))
                })?;
                cpp.push_str(&text);
            }
        }
    }
    names.close();
    Ok(cpp)
}
