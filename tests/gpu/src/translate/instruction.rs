//! One instruction on its way to C++: its modifiers, its operands, and the text so far.

use super::flops;
use super::names::{self, Names};
use crate::fault::{Fault, fault};
use crate::ptx::{Instruction, Operand, Type};
use std::collections::HashMap;

pub struct Emit<'a> {
    pub names: &'a Names,
    pub tables: &'a HashMap<String, Vec<String>>,
    pub instruction: &'a Instruction,
    pub family: &'a str,
    counting: bool,
    /// The modifiers that nobody has understood yet.
    left: Vec<&'a str>,
    pub out: String,
}

impl<'a> Emit<'a> {
    pub fn new(
        names: &'a Names,
        tables: &'a HashMap<String, Vec<String>>,
        instruction: &'a Instruction,
        counting: bool,
    ) -> Emit<'a> {
        let mut parts = instruction.opcode.split('.');
        let family = parts.next().unwrap_or("");
        Emit { names, tables, instruction, family, counting, left: parts.collect(), out: String::new() }
    }

    /// The whole statement, or a fault where something isn't understood.
    pub fn statement(mut self) -> Result<String, Fault> {
        let known = self.arithmetic()?
            || self.compare()?
            || self.convert()?
            || self.memory()?
            || self.warp()?
            || self.control()?;
        if !known {
            return fault(format!(
                "the instruction `{}` isn't known to the translator",
                self.instruction.opcode
            ));
        }
        if !self.left.is_empty() {
            return fault(format!(
                "the modifier `.{}` of `{}` isn't known to the translator",
                self.left.join("."),
                self.instruction.opcode
            ));
        }
        if self.counting {
            self.out.push_str(&flops::counted(&self.instruction.opcode));
        }
        match &self.instruction.guard {
            None => Ok(self.out),
            Some((register, negated)) => {
                self.expect_predicate(register)?;
                let sign = if *negated { "!" } else { "" };
                Ok(format!("if ({sign}{}) {{ {} }}\n", names::register(register), self.out.trim_end()))
            }
        }
    }

    fn expect_predicate(&self, register: &str) -> Result<(), Fault> {
        match self.names.kind(register) {
            Some(Type::Predicate) => Ok(()),
            _ => fault(format!("`{register}` isn't a predicate register")),
        }
    }

    pub fn take(&mut self, modifier: &str) -> bool {
        let place = self.left.iter().position(|&left| left == modifier);
        place.map(|place| self.left.remove(place)).is_some()
    }

    pub fn take_one(&mut self, modifiers: &[&'static str]) -> Option<&'static str> {
        modifiers.iter().copied().find(|modifier| self.take(modifier))
    }

    pub fn require(&mut self, modifiers: &[&'static str]) -> Result<&'static str, Fault> {
        match self.take_one(modifiers) {
            Some(modifier) => Ok(modifier),
            None => fault(format!("one of {modifiers:?} is expected in `{}`", self.instruction.opcode)),
        }
    }

    /// Removes the first modifier that is a type.
    pub fn take_type(&mut self) -> Result<Type, Fault> {
        for (place, name) in self.left.iter().enumerate() {
            if let Some(kind) = Type::named(name) {
                self.left.remove(place);
                return Ok(kind);
            }
        }
        fault(format!("`{}` names no type that is known", self.instruction.opcode))
    }

    pub fn peek_type(&self) -> Option<Type> {
        self.left.iter().find_map(|name| Type::named(name))
    }

    pub fn operand(&self, at: usize) -> Result<&'a Operand, Fault> {
        match self.instruction.operands.get(at) {
            Some(operand) => Ok(operand),
            None => fault(format!("operand {} is missing", at + 1)),
        }
    }

    pub fn count(&self, least: usize, most: usize) -> Result<usize, Fault> {
        let count = self.instruction.operands.len();
        if (least..=most).contains(&count) { Ok(count) } else { fault(format!("{count} operands")) }
    }

    pub fn line(&self) -> usize {
        self.instruction.line
    }

    /// The operand at this place as a C++ expression of the type.
    pub fn value(&self, at: usize, kind: Type) -> Result<String, Fault> {
        self.expression(self.operand(at)?, kind)
    }

    pub fn expression(&self, operand: &Operand, kind: Type) -> Result<String, Fault> {
        let cpp = kind.cpp();
        match (operand, kind) {
            (Operand::Name(name), _) => {
                if let Some(register) = self.names.kind(name) {
                    let predicate = register == Type::Predicate;
                    if predicate != (kind == Type::Predicate) {
                        return fault(format!("`{name}` is a register of another type"));
                    }
                    if kind.is_float() && register.bits() != kind.bits() {
                        return fault(format!("`{name}` isn't as wide as the instruction's type"));
                    }
                    return Ok(cast(kind, register, &names::register(name)));
                }
                if !kind.is_integer() {
                    return fault(format!("`{name}` isn't a register of this kernel"));
                }
                if let Some(special) = names::special(name) {
                    return Ok(format!("({cpp})({special})"));
                }
                match self.names.address(name).or_else(|| self.names.parameters.get(name).copied()) {
                    Some(address) => Ok(format!("({cpp})({address}ull)")),
                    None => fault(format!("the name `{name}` isn't known")),
                }
            }
            (Operand::Not(inner), Type::Predicate) => {
                Ok(format!("!{}", self.expression(inner, Type::Predicate)?))
            }
            (Operand::Integer(value), Type::Predicate) => Ok(format!("{}", *value != 0)),
            (Operand::Integer(value), kind) if !kind.is_float() => Ok(format!("({cpp})({value}ull)")),
            (Operand::Single(bits), kind) if kind.bits() == 32 => {
                Ok(cast(kind, Type::Bits(32), &format!("{bits}u")))
            }
            (Operand::Double(bits), kind) if kind.bits() == 64 => {
                Ok(cast(kind, Type::Bits(64), &format!("(u64){bits}ull")))
            }
            _ => fault(format!("the operand {operand:?} doesn't fit the type")),
        }
    }

    /// Assigns a C++ expression of the type to the operand at this place.
    pub fn assign(&mut self, at: usize, kind: Type, expression: &str) -> Result<(), Fault> {
        let operand = self.operand(at)?;
        self.assign_to(operand, kind, expression)
    }

    pub fn assign_to(&mut self, operand: &Operand, kind: Type, expression: &str) -> Result<(), Fault> {
        let Operand::Name(name) = operand else {
            return fault(format!("the operand {operand:?} can't be assigned"));
        };
        if name == "_" {
            self.out.push_str(&format!("(void)({expression});\n"));
            return Ok(());
        }
        let Some(register) = self.names.kind(name) else {
            return fault(format!("`{name}` isn't a register of this kernel"));
        };
        let fits = if kind == Type::Predicate || register == Type::Predicate {
            kind == register
        } else {
            register.bits() >= kind.bits() && (!kind.is_float() || register.bits() == kind.bits())
        };
        if !fits {
            return fault(format!("`{name}` can't hold the result's type"));
        }
        // Extended by the value's own sign where the register is wider.
        let (to, value) = (register.register(), kind.cpp());
        let value = match kind.is_float() {
            true => format!("__builtin_bit_cast({to}, ({value})({expression}))"),
            false => format!("({value})({expression})"),
        };
        self.out.push_str(&format!("{} = {value};\n", names::register(name)));
        Ok(())
    }
}

/// Register bits as a value to compute with: the low bits where the type is narrower. Builtins and casts spare the
/// C++ compiler the time for inlining.
fn cast(kind: Type, register: Type, text: &str) -> String {
    match kind.cpp() {
        cpp if kind.is_float() => format!("__builtin_bit_cast({cpp}, {text})"),
        cpp if cpp == register.register() => text.to_owned(),
        cpp => format!("({cpp}){text}"),
    }
}
