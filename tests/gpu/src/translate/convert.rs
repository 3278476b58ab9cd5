//! Moves and conversions between types.

use super::instruction::Emit;
use super::names::generic;
use crate::fault::{Fault, fault};
use crate::ptx::{Operand, Space, Type};

impl Emit<'_> {
    pub fn convert(&mut self) -> Result<bool, Fault> {
        match self.family {
            "mov" => self.mov()?,
            "cvt" => self.cvt()?,
            "cvta" => {
                let to = self.take("to");
                let space = match self.require(&["global", "shared", "local", "const", "param"])? {
                    "global" => 0,
                    "shared" => generic(Space::Shared) >> 36,
                    "local" => generic(Space::Local) >> 36,
                    "const" => generic(Space::Constant) >> 36,
                    _ => generic(Space::Parameter) >> 36,
                };
                let kind = self.take_type()?;
                let function = if to { "to_space" } else { "from_space" };
                let call = format!("{function}({}, {space})", self.value(1, kind)?);
                self.assign(0, kind, &call)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Plain moves, and those that pack or unpack a vector of registers, the lowest bits first.
    fn mov(&mut self) -> Result<(), Fault> {
        let kind = self.take_type()?;
        self.count(2, 2)?;
        match (self.operand(0)?, self.operand(1)?) {
            (Operand::Vector(targets), _) => {
                let part = Type::Bits(kind.bits() / targets.len() as u32);
                let whole = self.value(1, kind)?;
                self.out.push_str(&format!("{{ {} whole = {whole};\n", kind.register()));
                for (index, target) in targets.iter().enumerate() {
                    let expression = format!("whole >> {}", index as u32 * part.bits());
                    self.assign_to(target, part, &expression)?;
                }
                self.out.push_str("}\n");
                Ok(())
            }
            (_, Operand::Vector(sources)) => {
                let part = Type::Bits(kind.bits() / sources.len() as u32);
                let mut terms = vec![];
                for (index, source) in sources.iter().enumerate() {
                    let value = self.expression(source, part)?;
                    terms.push(format!("({})({value}) << {}", kind.register(), index as u32 * part.bits()));
                }
                self.assign(0, kind, &terms.join(" | "))
            }
            _ => {
                let value = self.value(1, kind)?;
                self.assign(0, kind, &value)
            }
        }
    }

    fn cvt(&mut self) -> Result<(), Fault> {
        let rounding = self.take_one(&["rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"]);
        let (flush, saturate, relu) = (self.take("ftz"), self.take("sat"), self.take("relu"));
        let (to, from) = (self.take_type()?, self.take_type()?);
        let pair = to == Type::Bfloat16Pair;
        self.count(if pair { 3 } else { 2 }, if pair { 3 } else { 2 })?;
        let mut value = self.value(1, from)?;
        if flush && from.is_float() {
            value = format!("flush({value})");
        }
        let whole = match rounding {
            Some("rni") => Some("round_even"),
            Some("rzi") => Some("std::trunc"),
            Some("rmi") => Some("std::floor"),
            Some("rpi") => Some("std::ceil"),
            _ => None,
        };
        let unknown = || fault("this conversion isn't known to the translator");
        let expression = match (from, to) {
            (Type::Float32, Type::Bfloat16 | Type::Bfloat16Pair) => {
                let function = match rounding {
                    Some("rn") => "bf16_nearest",
                    Some("rz") => "bf16_zero",
                    _ => return unknown(),
                };
                let one = |value: String| match relu {
                    true => format!("{function}(relu({value}))"),
                    false => format!("{function}({value})"),
                };
                match pair {
                    true => format!("u32({}) << 16 | {}", one(value), one(self.value(2, from)?)),
                    false => one(value),
                }
            }
            _ if relu => return unknown(),
            (Type::Float32, Type::Tensor32) if rounding == Some("rna") => format!("tf32_away({value})"),
            (Type::Bfloat16, Type::Float32) if rounding.is_none() => format!("bf16_value({value})"),
            (from, to) if from.is_integer() && to.is_integer() && rounding.is_none() => match saturate {
                true => format!("clamp_integer<{}, {}>({value})", to.cpp(), from.cpp()),
                false => value,
            },
            (from, to) if from.is_integer() && to.is_float() && rounding == Some("rn") && !saturate => value,
            (from, to) if from.is_float() && to.is_integer() => match whole {
                Some(function) => format!("to_integer<{}>({function}({value}))", to.cpp()),
                None => return unknown(),
            },
            (from, to) if from.is_float() && to.is_float() => {
                let narrowing = (from, to) == (Type::Float64, Type::Float32);
                let mut expression = match (whole, rounding) {
                    (Some(function), _) if from == to => format!("{function}({value})"),
                    (None, Some("rn")) if narrowing => format!("float({value})"),
                    (None, None) if !narrowing => value,
                    _ => return unknown(),
                };
                if flush && to == Type::Float32 {
                    expression = format!("flush(float({expression}))");
                }
                if saturate {
                    expression = format!("saturate({expression})");
                }
                expression
            }
            _ => return unknown(),
        };
        self.assign(0, to, &expression)
    }
}
