//! Comparisons and selections.

use super::instruction::Emit;
use crate::fault::{Fault, fault};
use crate::ptx::{Operand, Type};

const COMPARISONS: [&str; 18] = [
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
    "num", "nan",
];

impl Emit<'_> {
    pub fn compare(&mut self) -> Result<bool, Fault> {
        match self.family {
            "setp" | "set" => {
                let comparison = self.require(&COMPARISONS)?;
                let combine = self.take_one(&["and", "or", "xor"]);
                let flush = self.take("ftz");
                let result = if self.family == "set" { self.take_type()? } else { Type::Predicate };
                let kind = self.take_type()?;
                let operand = |text: String| if flush { format!("flush({text})") } else { text };
                let (a, b) = (operand(self.value(1, kind)?), operand(self.value(2, kind)?));
                let plain = comparison_of(comparison, kind, &a, &b)?;
                let combined = |text: String| -> Result<String, Fault> {
                    Ok(match combine {
                        None => text,
                        Some(name) => {
                            let sign = match name {
                                "and" => "&",
                                "or" => "|",
                                _ => "^",
                            };
                            format!("bool({text}) {sign} bool({})", self.value(3, Type::Predicate)?)
                        }
                    })
                };
                let (yes, no) = (combined(plain.clone())?, combined(format!("!({plain})"))?);
                self.count(3, if combine.is_some() { 4 } else { 3 })?;
                if self.family == "set" {
                    let one = if result.is_float() { "1.0f" } else { "~0u" };
                    self.assign(0, result, &format!("({yes}) ? {one} : 0"))?;
                } else if let Operand::Pair(first, second) = self.operand(0)? {
                    self.out.push_str(&format!("{{ bool yes = {yes}, no = {no};\n"));
                    self.assign_to(first, Type::Predicate, "yes")?;
                    self.assign_to(second, Type::Predicate, "no")?;
                    self.out.push_str("}\n");
                } else {
                    self.assign(0, Type::Predicate, &yes)?;
                }
            }
            "selp" => {
                let kind = self.take_type()?;
                let (a, b) = (self.value(1, kind)?, self.value(2, kind)?);
                let chosen = format!("{} ? {a} : {b}", self.value(3, Type::Predicate)?);
                self.assign(0, kind, &chosen)?;
            }
            "slct" => {
                let flush = self.take("ftz");
                let (kind, condition) = (self.take_type()?, self.take_type()?);
                let (a, b) = (self.value(1, kind)?, self.value(2, kind)?);
                let value = self.value(3, condition)?;
                let value = if flush { format!("flush({value})") } else { value };
                self.assign(0, kind, &format!("{value} >= 0 ? {a} : {b}"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Ordered comparisons are false where an operand is NaN; those that end in `u` are true there.
fn comparison_of(name: &str, kind: Type, a: &str, b: &str) -> Result<String, Fault> {
    if !kind.is_float() && !kind.is_integer() {
        return fault("comparisons of this type aren't known to the translator");
    }
    let unordered = format!("unordered({a}, {b})");
    Ok(match name {
        "num" => format!("!{unordered}"),
        "nan" => unordered,
        "ne" => format!("(!{unordered} && {a} != {b})"),
        "neu" => format!("{a} != {b}"),
        "eq" | "lt" | "le" | "gt" | "ge" => format!("{a} {} {b}", sign(name)),
        "equ" | "ltu" | "leu" | "gtu" | "geu" => {
            format!("({unordered} || {a} {} {b})", sign(&name[..2]))
        }
        "lo" => format!("{a} < {b}"),
        "ls" => format!("{a} <= {b}"),
        "hi" => format!("{a} > {b}"),
        _ => format!("{a} >= {b}"),
    })
}

fn sign(name: &str) -> &'static str {
    match name {
        "eq" => "==",
        "lt" => "<",
        "le" => "<=",
        "gt" => ">",
        _ => ">=",
    }
}
