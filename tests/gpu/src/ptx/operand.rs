//! Reads the operands of an instruction.

use super::Operand;
use super::parse::Parser;
use crate::fault::Fault;

impl Parser {
    pub fn operand(&mut self) -> Result<Operand, Fault> {
        if self.take("!") {
            return Ok(Operand::Not(Box::new(self.operand()?)));
        }
        if self.take("-") {
            return Ok(Operand::Integer(self.number()?.wrapping_neg()));
        }
        if self.take("{") {
            let mut items = vec![];
            while !self.take("}") {
                items.push(self.operand()?);
                self.take(",");
            }
            return Ok(Operand::Vector(items));
        }
        if self.take("[") {
            let base = self.operand()?;
            let offset = match self.peek() {
                "+" => {
                    self.at += 1;
                    let negative = self.take("-");
                    let offset = self.number()? as i64;
                    if negative { -offset } else { offset }
                }
                "-" => {
                    self.at += 1;
                    -(self.number()? as i64)
                }
                _ => 0,
            };
            self.expect("]")?;
            return Ok(Operand::Address(Box::new(base), offset));
        }
        let text = self.next();
        let operand = match (text.get(..2), text.get(2..)) {
            (Some("0f" | "0F"), Some(digits)) if digits.len() == 8 => {
                u32::from_str_radix(digits, 16).ok().map(Operand::Single)
            }
            (Some("0d" | "0D"), Some(digits)) if digits.len() == 16 => {
                u64::from_str_radix(digits, 16).ok().map(Operand::Double)
            }
            _ => integer(&text).map(Operand::Integer),
        };
        let operand = match operand {
            Some(operand) => operand,
            None if text.starts_with(|c: char| c.is_ascii_alphabetic() || "_$%".contains(c)) => {
                Operand::Name(text)
            }
            None => {
                self.at -= 1;
                return self.unknown("an operand is expected");
            }
        };
        if self.take("|") {
            return Ok(Operand::Pair(Box::new(operand), Box::new(self.operand()?)));
        }
        Ok(operand)
    }
}

pub fn integer(text: &str) -> Option<u64> {
    let text = text.strip_suffix('U').unwrap_or(text);
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
