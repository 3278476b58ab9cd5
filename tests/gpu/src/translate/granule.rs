//! The size of the cells by which a kernel's races are told apart: the fewest bytes that one access of it has. Accesses are
//! aligned to their sizes, so two that share a byte share a cell, and two that share none do not.

use crate::ptx::{Instruction, Kernel, Operand, Statement, Type};

/// More is not needed: an access has at most so many bytes.
const MOST: u64 = 16;

pub fn granule(kernel: &Kernel) -> usize {
    let instructions = kernel.body.iter().filter_map(|statement| match statement {
        Statement::Instruction(instruction) => Some(instruction),
        _ => None,
    });
    instructions.filter_map(bytes).fold(MOST, u64::min) as usize
}

/// The fewest bytes that an instruction touches at once; none if it touches no memory.
fn bytes(instruction: &Instruction) -> Option<u64> {
    let parts: Vec<&str> = instruction.opcode.split('.').collect();
    match parts[0] {
        "ld" | "st" | "atom" | "red" if !parts.contains(&"param") => {
            let element = parts.last().and_then(|name| Type::named(name)).map_or(1, Type::bytes);
            let count = if parts.contains(&"v4") {
                4
            } else if parts.contains(&"v2") {
                2
            } else {
                1
            };
            Some(element * count)
        }
        // The rest is a zero where a source ends: at any element, of two bytes at least.
        "cp" if instruction.operands.len() == 4 => Some(2),
        "cp" => match instruction.operands.get(2) {
            Some(Operand::Integer(bytes)) => Some(*bytes),
            _ => None,
        },
        _ => None,
    }
}
