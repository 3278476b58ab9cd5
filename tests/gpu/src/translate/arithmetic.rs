//! Arithmetic and logic, integer and floating.

use super::instruction::Emit;
use crate::fault::{Fault, fault};
use crate::ptx::{Operand, Type};

impl Emit<'_> {
    pub fn arithmetic(&mut self) -> Result<bool, Fault> {
        match self.family {
            "add" | "sub" | "mul" | "mad" | "fma" | "neg" | "abs" | "min" | "max" | "copysign"
                if self.peek_type().is_some_and(Type::is_float) =>
            {
                self.floating()?
            }
            "fma" => self.packed_fma()?,
            "div" | "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh"
                if self.peek_type().is_some_and(Type::is_float) =>
            {
                self.function()?
            }
            "add" | "sub" => {
                let kind = self.take_type()?;
                let sign = if self.family == "add" { '+' } else { '-' };
                let (a, b) = (self.value(1, kind)?, self.value(2, kind)?);
                self.assign(0, kind, &format!("(u64){a} {sign} (u64){b}"))?;
            }
            "min" | "max" | "abs" => self.plain(&format!("{}_", self.family))?,
            "and" | "or" | "xor" | "not" => self.plain(&format!("{}_", self.family))?,
            "neg" | "cnot" | "brev" | "sad" => self.plain(self.family)?,
            "mul" | "mad" => self.product()?,
            "div" | "rem" => {
                let kind = self.take_type()?;
                let (a, b) = (self.value(1, kind)?, self.value(2, kind)?);
                let call = format!("{}<{}>(t, {}, {a}, {b})", self.family, kind.cpp(), self.line());
                self.assign(0, kind, &call)?;
            }
            "clz" | "popc" => {
                let kind = self.take_type()?;
                let call = format!("{}<{}>({})", self.family, kind.cpp(), self.value(1, kind)?);
                self.assign(0, Type::Unsigned(32), &call)?;
            }
            "bfind" => {
                let shift = self.take("shiftamt");
                let kind = self.take_type()?;
                let call = format!("bfind<{}>({}, {shift})", kind.cpp(), self.value(1, kind)?);
                self.assign(0, Type::Unsigned(32), &call)?;
            }
            "shl" | "shr" => {
                let kind = self.take_type()?;
                let (a, by) = (self.value(1, kind)?, self.value(2, Type::Unsigned(32))?);
                self.assign(0, kind, &format!("{}<{}>({a}, {by})", self.family, kind.cpp()))?;
            }
            "shf" => {
                let direction = self.require(&["l", "r"])?;
                let mode = self.require(&["wrap", "clamp"])?;
                let kind = self.take_type()?;
                let (a, b, by) = (self.value(1, kind)?, self.value(2, kind)?, self.value(3, kind)?);
                let by = if mode == "wrap" { format!("({by} & 31)") } else { format!("min_<u32>({by}, 32)") };
                self.assign(0, kind, &format!("shf_{direction}({a}, {b}, {by})"))?;
            }
            "bfe" | "bfi" => {
                let kind = self.take_type()?;
                let word = Type::Unsigned(32);
                let mut arguments = vec![self.value(1, kind)?];
                if self.family == "bfi" {
                    arguments.push(self.value(2, kind)?);
                }
                let next = arguments.len() + 1;
                arguments.extend([self.value(next, word)?, self.value(next + 1, word)?]);
                let call = format!("{}<{}>({})", self.family, kind.cpp(), arguments.join(", "));
                self.assign(0, kind, &call)?;
            }
            "prmt" | "lop3" => {
                let kind = self.take_type()?;
                let arguments = self.values(1, self.instruction.operands.len() - 1, kind)?;
                self.assign(0, kind, &format!("{}({arguments})", self.family))?;
            }
            "dp4a" => {
                let (first, second) = (self.take_type()?, self.take_type()?);
                let byte = |kind: Type| if kind.is_signed() { "i8" } else { "u8" };
                let arguments = self.values(1, 3, Type::Unsigned(32))?;
                let call = format!("dp4a<{}, {}>({arguments})", byte(first), byte(second));
                self.assign(0, Type::Unsigned(32), &call)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn values(&self, from: usize, count: usize, kind: Type) -> Result<String, Fault> {
        let values: Result<Vec<String>, Fault> =
            (from..from + count).map(|at| self.value(at, kind)).collect();
        Ok(values?.join(", "))
    }

    /// `function<T>(operands...)` with one type throughout.
    fn plain(&mut self, function: &str) -> Result<(), Fault> {
        let kind = self.take_type()?;
        let arguments = self.values(1, self.instruction.operands.len() - 1, kind)?;
        self.assign(0, kind, &format!("{function}<{}>({arguments})", kind.cpp()))
    }

    fn product(&mut self) -> Result<(), Fault> {
        let part = self.require(&["lo", "hi", "wide"])?;
        let kind = self.take_type()?;
        let result = if part == "wide" { kind.wide() } else { kind };
        let (a, b) = (self.value(1, kind)?, self.value(2, kind)?);
        // Signs are extended to 64 bits first: the low half of the product is right for both.
        let mut expression = match part {
            "hi" => format!("(u64)mul_hi<{}>({a}, {b})", kind.cpp()),
            _ => format!("(u64){a} * (u64){b}"),
        };
        if self.family == "mad" {
            expression = format!("{expression} + (u64){}", self.value(3, result)?);
        }
        self.assign(0, result, &expression)
    }

    fn floating(&mut self) -> Result<(), Fault> {
        let rounding = self.take_one(&["rn", "rz", "rm", "rp"]);
        let (flush, saturate, not_a_number) = (self.take("ftz"), self.take("sat"), self.take("NaN"));
        let kind = self.take_type()?;
        if kind == Type::Float64 && !matches!(rounding, None | Some("rn")) {
            return fault("only f32 has directed rounding here");
        }
        let rounding = match rounding {
            Some("rz") => "ZERO",
            Some("rm") => "DOWN",
            Some("rp") => "UP",
            _ => "NEAREST",
        };
        let cpp = kind.cpp();
        let function = match self.family {
            "fma" | "mad" if rounding == "NEAREST" && kind == Type::Float32 => "__builtin_fmaf".into(),
            "add" | "sub" | "mul" if rounding == "NEAREST" && !flush && !saturate => {
                let sign = match self.family {
                    "add" => '+',
                    "sub" => '-',
                    _ => '*',
                };
                let expression = format!("{} {sign} {}", self.value(1, kind)?, self.value(2, kind)?);
                return self.assign(0, kind, &expression);
            }
            "add" | "sub" | "mul" => format!("f{}<{rounding}, {cpp}>", self.family),
            "fma" | "mad" => format!("ffma<{rounding}, {cpp}>"),
            "min" | "max" if not_a_number => format!("f{}_nan<{cpp}>", self.family),
            "min" | "max" | "abs" => format!("f{}_<{cpp}>", self.family),
            "neg" => format!("fneg<{cpp}>"),
            _ => format!("copysign_<{cpp}>"),
        };
        self.call(&function, kind, flush, saturate)
    }

    fn function(&mut self) -> Result<(), Fault> {
        let rounding = self.require(&["rn", "approx", "full"])?;
        let flush = self.take("ftz");
        let kind = self.take_type()?;
        let exact = matches!(self.family, "div" | "rcp" | "sqrt");
        if kind == Type::Float64 && rounding == "approx" && flush && matches!(self.family, "rcp" | "rsqrt") {
            return self.call(&format!("gross_{}", self.family), kind, true, false);
        }
        if kind == Type::Float64 && rounding != "rn" || rounding == "rn" && !exact {
            return fault("this rounding isn't known to the translator");
        }
        let function = match self.family {
            "div" | "rcp" | "sqrt" => format!("f{}<{}>", self.family, kind.cpp()),
            "rsqrt" => "frsqrt".into(),
            "sin" | "cos" | "tanh" => format!("{}_", self.family),
            _ => self.family.to_owned(),
        };
        self.call(&function, kind, flush, false)
    }

    fn call(&mut self, function: &str, kind: Type, flush: bool, saturate: bool) -> Result<(), Fault> {
        let mut arguments = vec![];
        for at in 1..self.instruction.operands.len() {
            let value = self.value(at, kind)?;
            arguments.push(if flush { format!("flush({value})") } else { value });
        }
        let mut expression = format!("{function}({})", arguments.join(", "));
        if flush {
            expression = format!("flush({expression})");
        }
        if saturate {
            expression = format!("saturate({expression})");
        }
        self.assign(0, kind, &expression)
    }

    /// `fma.rn.bf16` and `fma.rn.bf16x2`.
    fn packed_fma(&mut self) -> Result<(), Fault> {
        self.require(&["rn"])?;
        let kind = self.take_type()?;
        let arguments = self.values(1, 3, kind)?;
        match kind {
            Type::Bfloat16 => self.assign(0, kind, &format!("bf16_fma({arguments})")),
            Type::Bfloat16Pair => {
                let operands: Result<Vec<String>, Fault> = (1..4).map(|at| self.value(at, kind)).collect();
                let half = |shift: u32| {
                    let parts: Vec<String> = operands
                        .iter()
                        .flatten()
                        .map(|operand| format!("u16({operand} >> {shift})"))
                        .collect();
                    format!("bf16_fma({})", parts.join(", "))
                };
                let expression = format!("u32({}) << 16 | {}", half(16), half(0));
                operands?;
                self.assign(0, kind, &expression)
            }
            _ => fault("fma of this type isn't known to the translator"),
        }
    }

    /// The items of a vector operand, or the operand alone.
    pub fn items<'b>(&self, operand: &'b Operand) -> Vec<&'b Operand> {
        match operand {
            Operand::Vector(items) => items.iter().collect(),
            other => vec![other],
        }
    }
}
