//! Branches, ends and barriers.

use super::instruction::Emit;
use super::names::identifier;
use crate::fault::{Fault, fault};
use crate::ptx::{Operand, Type};

impl Emit<'_> {
    pub fn control(&mut self) -> Result<bool, Fault> {
        let line = self.line();
        match self.family {
            "bra" => {
                self.take("uni");
                let Operand::Name(label) = self.operand(0)? else {
                    return fault("a label is expected");
                };
                self.out.push_str(&format!("goto label_{};\n", identifier(label)));
            }
            "brx" => {
                self.require(&["idx"])?;
                self.take("uni");
                let index = self.value(0, Type::Unsigned(32))?;
                let targets = match self.operand(1)? {
                    Operand::Name(table) => self.tables.get(table),
                    _ => None,
                };
                let Some(targets) = targets else {
                    return fault("the table of targets isn't known");
                };
                self.out.push_str(&format!("switch ({index}) {{\n"));
                for (index, target) in targets.iter().enumerate() {
                    self.out.push_str(&format!("case {index}: goto label_{};\n", identifier(target)));
                }
                self.out.push_str("}\n");
            }
            "ret" | "exit" => {
                self.take("uni");
                self.out.push_str("return;\n");
            }
            "trap" => self.out.push_str(&format!("host->trap(t, 0, {line});\n")),
            // One thread runs at a time and sees all that ran before it: nothing is left to order.
            "membar" => {
                self.require(&["cta", "gl", "sys"])?;
            }
            "fence" => {
                self.require(&["acq_rel", "sc"])?;
                self.require(&["cta", "gpu", "sys"])?;
            }
            "bar" | "barrier" => self.barrier()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn barrier(&mut self) -> Result<(), Fault> {
        let (line, word) = (self.line(), Type::Unsigned(32));
        if self.family == "bar" && self.take("warp") {
            self.require(&["sync"])?;
            let mask = self.value(0, word)?;
            return self.collective("SYNC", 0, &mask, &[], None);
        }
        self.take("cta");
        let operation = self.require(&["sync", "red"])?;
        self.take("aligned");
        if operation == "sync" {
            let count = match self.count(1, 2)? {
                2 => self.value(1, word)?,
                _ => "0".into(),
            };
            let name = self.value(0, word)?;
            self.out.push_str(&format!("host->barrier(t, {name}, {count}, 0, {line});\n"));
            return Ok(());
        }
        let reduction = self.require(&["popc", "and", "or"])?;
        let kind = self.take_type()?;
        let last = self.count(3, 4)? - 1;
        let count = if last == 3 { self.value(2, word)? } else { "0".into() };
        let (name, value) = (self.value(1, word)?, self.value(last, Type::Predicate)?);
        let call = format!("host->barrier(t, {name}, {count}, {value}, {line})");
        let expression = match reduction {
            "popc" => format!("u32({call})"),
            "or" => format!("u32({call}) != 0"),
            _ => format!("[](u64 votes) {{ return u32(votes) == votes >> 32; }}({call})"),
        };
        self.assign(0, kind, &expression)
    }
}
