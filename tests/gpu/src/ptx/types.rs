//! The fundamental types of PTX and the C++ types that stand for them.

/// An operand type as it is written behind an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Predicate,
    Bits(u32),
    Unsigned(u32),
    Signed(u32),
    Float32,
    Float64,
    Bfloat16,
    Bfloat16Pair,
    Tensor32,
}

impl Type {
    pub fn named(name: &str) -> Option<Type> {
        Some(match name {
            "pred" => Type::Predicate,
            "f32" => Type::Float32,
            "f64" => Type::Float64,
            "bf16" => Type::Bfloat16,
            "bf16x2" => Type::Bfloat16Pair,
            "tf32" => Type::Tensor32,
            _ => {
                let bits = name.get(1..)?.parse().ok().filter(|bits| matches!(bits, 8 | 16 | 32 | 64))?;
                match name.get(..1)? {
                    "b" => Type::Bits(bits),
                    "u" => Type::Unsigned(bits),
                    "s" => Type::Signed(bits),
                    _ => return None,
                }
            }
        })
    }

    pub fn bits(self) -> u32 {
        match self {
            Type::Predicate => 8,
            Type::Bits(bits) | Type::Unsigned(bits) | Type::Signed(bits) => bits,
            Type::Float32 | Type::Bfloat16Pair | Type::Tensor32 => 32,
            Type::Float64 => 64,
            Type::Bfloat16 => 16,
        }
    }

    pub fn bytes(self) -> u64 {
        u64::from(self.bits() / 8)
    }

    pub fn is_float(self) -> bool {
        matches!(self, Type::Float32 | Type::Float64)
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Type::Signed(_))
    }

    pub fn is_integer(self) -> bool {
        matches!(self, Type::Bits(_) | Type::Unsigned(_) | Type::Signed(_))
    }

    /// The C++ type that computes with it.
    pub fn cpp(self) -> &'static str {
        match self {
            Type::Predicate => "bool",
            Type::Float32 => "float",
            Type::Float64 => "double",
            Type::Signed(8) => "i8",
            Type::Signed(16) => "i16",
            Type::Signed(32) => "i32",
            Type::Signed(_) => "i64",
            _ => self.register(),
        }
    }

    /// The C++ type of a register that holds it.
    pub fn register(self) -> &'static str {
        match (self, self.bits()) {
            (Type::Predicate, _) => "bool",
            (_, 8) => "u8",
            (_, 16) => "u16",
            (_, 32) => "u32",
            _ => "u64",
        }
    }

    /// The type of the double width, for `mul.wide`.
    pub fn wide(self) -> Type {
        match self {
            Type::Signed(bits) => Type::Signed(bits * 2),
            Type::Unsigned(bits) => Type::Unsigned(bits * 2),
            Type::Bits(bits) => Type::Bits(bits * 2),
            other => other,
        }
    }
}
