//! Instructions that the threads of a warp execute together: each becomes a meeting of the lanes in the emulator.

use super::instruction::Emit;
use crate::emulator::collective::kind;
use crate::fault::{Fault, fault};
use crate::ptx::{Operand, Type};

const WORD: Type = Type::Unsigned(32);

impl Emit<'_> {
    pub fn warp(&mut self) -> Result<bool, Fault> {
        match self.family {
            "shfl" => {
                self.require(&["sync"])?;
                let mode = ["up", "down", "bfly", "idx"];
                let name = self.require(&mode)?;
                let mode = mode.iter().position(|&other| other == name).unwrap_or(0);
                self.take_type()?;
                self.count(5, 5)?;
                let inputs = [self.value(1, WORD)?, self.value(2, WORD)?, self.value(3, WORD)?];
                let mask = self.value(4, WORD)?;
                self.collective("SHUFFLE", mode, &mask, &inputs, None)?;
                self.results(true)?;
            }
            "vote" => {
                self.require(&["sync"])?;
                let mode = ["all", "any", "uni", "ballot"];
                let name = self.require(&mode)?;
                let mode = mode.iter().position(|&other| other == name).unwrap_or(0);
                let kind = self.take_type()?;
                let (vote, mask) = (self.value(1, Type::Predicate)?, self.value(2, WORD)?);
                self.collective("VOTE", mode, &mask, &[vote], None)?;
                self.assign(0, kind, "meeting.output[0]")?;
                self.out.push_str("}\n");
            }
            "match" => {
                let mode = usize::from(self.require(&["any", "all"])? == "all");
                self.require(&["sync"])?;
                let kind = self.take_type()?;
                let (value, mask) = (self.value(1, kind)?, self.value(2, WORD)?);
                let inputs = [format!("u32({value})"), format!("u32(u64({value}) >> 32)")];
                self.collective("MATCH", mode, &mask, &inputs, None)?;
                self.results(true)?;
            }
            "redux" => {
                self.require(&["sync"])?;
                let mode = ["add", "min", "max", "and", "or", "xor"];
                let name = self.require(&mode)?;
                let place = mode.iter().position(|&other| other == name).unwrap_or(0);
                let kind = self.take_type()?;
                let mode = place + if kind.is_signed() { 8 } else { 0 };
                let (value, mask) = (self.value(1, kind)?, self.value(2, WORD)?);
                self.collective("REDUCE", mode, &mask, &[value], None)?;
                self.results(false)?;
            }
            "ldmatrix" => {
                for modifier in ["sync", "aligned", "m8n8"] {
                    self.require(&[modifier])?;
                }
                let count = match self.require(&["x1", "x2", "x4"])? {
                    "x1" => 1,
                    "x2" => 2,
                    _ => 4,
                };
                let transposed = self.take("trans");
                self.require(&["shared", "shared::cta"])?;
                self.require(&["b16"])?;
                let targets = self.items(self.operand(0)?);
                if targets.len() != count {
                    return fault("ldmatrix with another number of registers");
                }
                let address = self.address(1)?;
                let mode = count + if transposed { 8 } else { 0 };
                self.collective("LOAD_MATRIX", mode, "~0u", &[], Some(&address))?;
                for (index, target) in targets.into_iter().enumerate() {
                    self.assign_to(target, WORD, &format!("meeting.output[{index}]"))?;
                }
                self.out.push_str("}\n");
            }
            "mma" => self.mma()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn mma(&mut self) -> Result<(), Fault> {
        for modifier in ["sync", "aligned", "row", "col"] {
            self.require(&[modifier])?;
        }
        let shape = self.require(&["m16n8k8", "m16n8k16"])?;
        let types = [self.take_type()?, self.take_type()?, self.take_type()?, self.take_type()?];
        let mode = match (shape, types[1]) {
            ("m16n8k16", Type::Bfloat16) => kind::BF16,
            ("m16n8k8", Type::Tensor32) => kind::TF32,
            _ => return fault("this shape of mma isn't known to the translator"),
        };
        if types[1] != types[2] || types[0] != Type::Float32 || types[3] != Type::Float32 {
            return fault("mma of these types isn't known to the translator");
        }
        let mut inputs = vec![];
        for (at, count) in [(1, 4), (2, 2), (3, 4)] {
            let items = self.items(self.operand(at)?);
            if items.len() != count {
                return fault("mma with another number of registers");
            }
            for item in items {
                inputs.push(self.expression(item, WORD)?);
            }
        }
        self.collective("MULTIPLY", mode as usize, "~0u", &inputs, None)?;
        let targets = self.items(self.operand(0)?);
        if targets.len() != 4 {
            return fault("mma with another number of registers");
        }
        for (index, target) in targets.into_iter().enumerate() {
            self.assign_to(target, WORD, &format!("meeting.output[{index}]"))?;
        }
        self.out.push_str("}\n");
        Ok(())
    }

    /// Opens a block in which `meeting` holds the results, except for a barrier, which has none.
    pub fn collective(
        &mut self,
        name: &str,
        mode: usize,
        mask: &str,
        inputs: &[String],
        address: Option<&str>,
    ) -> Result<(), Fault> {
        let kind = match name {
            "SYNC" => kind::SYNC,
            "SHUFFLE" => kind::SHUFFLE,
            "VOTE" => kind::VOTE,
            "MATCH" => kind::MATCH,
            "REDUCE" => kind::REDUCE,
            "LOAD_MATRIX" => kind::LOAD_MATRIX,
            _ => kind::MULTIPLY,
        };
        let inputs: Vec<String> = inputs.iter().map(|input| format!("u32({input})")).collect();
        self.out.push_str(&format!(
            "{{ Collective meeting = {{ {kind}, {mode}, {mask}, {}, {{ {} }}, {{}}, {} }};\n\
             host->collective(t, &meeting);\n",
            self.line(),
            inputs.join(", "),
            address.unwrap_or("0")
        ));
        if kind == kind::SYNC {
            self.out.push_str("}\n");
        }
        Ok(())
    }

    /// The first result and, where the instruction asks for it, the predicate behind it.
    fn results(&mut self, predicate: bool) -> Result<(), Fault> {
        match self.operand(0)? {
            Operand::Pair(value, second) if predicate => {
                self.assign_to(value, WORD, "meeting.output[0]")?;
                self.assign_to(second, Type::Predicate, "meeting.output[1]")?;
            }
            _ => self.assign(0, WORD, "meeting.output[0]")?,
        }
        self.out.push_str("}\n");
        Ok(())
    }
}
