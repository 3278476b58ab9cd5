//! Loads, stores, atomic updates and asynchronous copies: each becomes a call of the emulator, which checks it.

use super::instruction::Emit;
use super::names::{generic, number};
use crate::emulator::access;
use crate::fault::{Fault, fault};
use crate::ptx::{Operand, Space, Type};

const CACHING: [&str; 16] = [
    "weak",
    "volatile",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "L1::evict_normal",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
];

impl Emit<'_> {
    pub fn memory(&mut self) -> Result<bool, Fault> {
        match self.family {
            "ld" => self.load()?,
            "st" => self.store()?,
            "atom" | "red" => self.atomic()?,
            "cp" => self.copy()?,
            "prefetch" | "prefetchu" => {
                self.require(&["L1", "L2"])?;
                self.take("global");
                self.count(1, 1)?;
            }
            "isspacep" => {
                let space = match self.require(&["global", "shared", "local", "const"])? {
                    "shared" => Space::Shared,
                    "local" => Space::Local,
                    "const" => Space::Constant,
                    _ => return fault("isspacep.global isn't known to the translator"),
                };
                let address = self.value(1, Type::Unsigned(64))?;
                let expression = format!("({address} >> 36) == {}", generic(space) >> 36);
                self.assign(0, Type::Predicate, &expression)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn space(&mut self) -> Space {
        match self.take_one(&["global", "shared", "shared::cta", "local", "const", "param"]) {
            Some("global") => Space::Global,
            Some("shared" | "shared::cta") => Space::Shared,
            Some("local") => Space::Local,
            Some("const") => Space::Constant,
            Some("param") => Space::Parameter,
            _ => Space::Generic,
        }
    }

    /// The address operand as an expression of 64 bits.
    pub fn address(&self, at: usize) -> Result<String, Fault> {
        let Operand::Address(base, offset) = self.operand(at)? else {
            return fault("an address is expected");
        };
        let base = match &**base {
            Operand::Name(name) => match self.names.kind(name) {
                Some(kind) => self.expression(base, Type::Unsigned(kind.bits()))?,
                None => self.expression(base, Type::Unsigned(64))?,
            },
            other => self.expression(other, Type::Unsigned(64))?,
        };
        Ok(if *offset == 0 { base } else { format!("u64({base} + ({offset}ll))") })
    }

    /// Hints for caches change nothing here. Orders such as `.acquire` aren't modelled, hence not known.
    fn caching(&mut self) {
        while self.take_one(&CACHING).is_some() {}
    }

    fn width(&mut self) -> u64 {
        match self.take_one(&["v2", "v4"]) {
            Some("v2") => 2,
            Some("v4") => 4,
            _ => 1,
        }
    }

    fn load(&mut self) -> Result<(), Fault> {
        let space = self.space();
        self.caching();
        let unchanging = if self.take("nc") { access::UNCHANGING } else { 0 };
        let width = self.width();
        let kind = self.take_type()?;
        self.count(2, 2)?;
        let items = self.items(self.operand(0)?);
        if items.len() as u64 != width {
            return fault("the vector has another length");
        }
        let cpp = kind.cpp();
        let expression = match (space, self.operand(1)?) {
            (Space::Parameter, Operand::Address(base, offset)) => {
                let start = match &**base {
                    Operand::Name(name) => self.names.parameters.get(name).copied(),
                    _ => None,
                };
                let Some(start) = start else {
                    return fault("parameters are read by name only");
                };
                let start = start.wrapping_add_signed(*offset);
                format!("parameter<Vec<{cpp}, {width}>>(parameters, {start})")
            }
            _ => {
                let flags = number(space) as u32 | access::READ | unchanging;
                format!("load<{cpp}, {width}>(t, {flags}, {}, {})", self.address(1)?, self.line())
            }
        };
        self.out.push_str(&format!("{{ auto loaded = {expression};\n"));
        for (index, item) in items.into_iter().enumerate() {
            self.assign_to(item, kind, &format!("loaded.item[{index}]"))?;
        }
        self.out.push_str("}\n");
        Ok(())
    }

    fn store(&mut self) -> Result<(), Fault> {
        let space = self.space();
        self.caching();
        let flags = number(space) as u32 | access::WRITE;
        let width = self.width();
        let kind = self.take_type()?;
        self.count(2, 2)?;
        let items = self.items(self.operand(1)?);
        if items.len() as u64 != width || matches!(space, Space::Constant | Space::Parameter) {
            return fault("no such store");
        }
        let values: Result<Vec<String>, Fault> =
            items.into_iter().map(|item| self.expression(item, kind)).collect();
        let (address, line) = (self.address(0)?, self.line());
        self.out.push_str(&format!(
            "store<{0}, {width}>(t, {flags}, {address}, {line}, Vec<{0}, {width}>{{ {1} }});\n",
            kind.cpp(),
            values?.join(", ")
        ));
        Ok(())
    }

    fn atomic(&mut self) -> Result<(), Fault> {
        self.take("relaxed");
        let scope = self.take_one(&["cta", "gpu", "sys"]);
        let space = self.space();
        if scope == Some("cta") && space != Space::Shared {
            return fault("an update that other blocks need not see isn't known to the translator");
        }
        let operation =
            self.require(&["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"])?;
        let kind = self.take_type()?;
        let first = usize::from(self.family == "atom");
        let cpp = kind.cpp();
        let b = self.value(first + 1, kind)?;
        let change = match operation {
            "add" if kind.is_float() => format!("old + {b}"),
            "add" => format!("add<{cpp}>(old, {b})"),
            "min" | "max" | "and" | "or" | "xor" if !kind.is_float() => {
                format!("{operation}_<{cpp}>(old, {b})")
            }
            "exch" => b,
            "cas" => format!("old == {b} ? {} : old", self.value(first + 2, kind)?),
            "inc" => format!("old >= {b} ? 0 : old + 1"),
            "dec" => format!("old == 0 || old > {b} ? {b} : old - 1"),
            _ => return fault("this atomic update isn't known to the translator"),
        };
        self.count(first + 2, first + 2 + usize::from(operation == "cas"))?;
        let flags = number(space) as u32 | access::READ | access::WRITE | access::ATOMIC;
        let call = format!(
            "update<{cpp}>(t, {flags}, {}, {}, [&]({cpp} old) -> {cpp} {{ return {change}; }})",
            self.address(first)?,
            self.line()
        );
        if self.family == "atom" {
            self.assign(0, kind, &call)?;
        } else {
            self.out.push_str(&format!("{call};\n"));
        }
        Ok(())
    }

    fn copy(&mut self) -> Result<(), Fault> {
        let line = self.line();
        if !self.take("async") {
            return fault("only asynchronous copies are known to the translator");
        }
        if self.take("commit_group") {
            self.out.push_str("host->commit(t);\n");
        } else if self.take("wait_all") {
            self.out.push_str(&format!("host->commit(t); host->wait(t, 0, {line});\n"));
        } else if self.take("wait_group") {
            let pending = self.value(0, Type::Unsigned(32))?;
            self.out.push_str(&format!("host->wait(t, {pending}, {line});\n"));
        } else {
            let caching = self.require(&["ca", "cg"])?;
            self.require(&["shared", "shared::cta"])?;
            self.require(&["global"])?;
            while self.take_one(&["L2::64B", "L2::128B", "L2::256B"]).is_some() {}
            let count = self.count(3, 4)?;
            let &Operand::Integer(bytes) = self.operand(2)? else {
                return fault("the size must be a number");
            };
            if !(bytes == 16 || caching == "ca" && matches!(bytes, 4 | 8)) {
                return fault("a copy of this size doesn't exist");
            }
            let source = match count {
                4 => self.value(3, Type::Unsigned(32))?,
                _ => bytes.to_string(),
            };
            let (to, from) = (self.address(0)?, self.address(1)?);
            self.out.push_str(&format!("host->copy(t, {to}, {from}, {bytes}, {source}, {line});\n"));
        }
        Ok(())
    }
}
