//! What calls become on a stream: kernels with their arguments, products of a library, copies and fills, each with the memory that it touches.

use std::sync::Arc;

use smallvec::SmallVec;

use super::cublas_lt::Chosen;
use super::launch::{Launch, Source};
pub use super::span::{Access, Span};

/// An argument of a kernel: its bits, and how many bytes of them count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    pub bits: u64,
    pub bytes: u8,
}

macro_rules! arguments {
    ($($number:ty => $bits:expr;)*) => {
        $(impl From<$number> for Argument {
            fn from(number: $number) -> Self {
                let bits: fn($number) -> u64 = $bits;
                Self { bits: bits(number), bytes: size_of::<$number>() as u8 }
            }
        })*
    };
}

arguments! {
    u32 => u64::from;
    u64 => |number| number;
    i32 => |number| u64::from(number.cast_unsigned());
    f32 => |number| u64::from(number.to_bits());
    f64 => f64::to_bits;
}

/// A launch of a kernel with its arguments in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub source: Source,
    pub launch: Launch,
    pub arguments: SmallVec<[Argument; 24]>,
    pub touches: SmallVec<[(Span, Access); 8]>,
}

impl Kernel {
    pub fn new((source, launch): (Source, Launch)) -> Self {
        Self { source, launch, arguments: SmallVec::new(), touches: SmallVec::new() }
    }

    fn pointer(mut self, span: Span, access: Access) -> Self {
        self.arguments.push(span.address.into());
        self.touches.push((span, access));
        self
    }

    pub fn reads(self, span: Span) -> Self {
        self.pointer(span, Access::Read)
    }

    pub fn writes(self, span: Span) -> Self {
        self.pointer(span, Access::Write)
    }

    pub fn updates(self, span: Span) -> Self {
        self.pointer(span, Access::Both)
    }

    /// A null pointer where there is nothing to read.
    pub fn reads_any(self, span: Option<Span>) -> Self {
        match span {
            Some(span) => self.reads(span),
            None => self.number(0u64),
        }
    }

    /// A null pointer where there is nothing to write.
    pub fn writes_any(self, span: Option<Span>) -> Self {
        match span {
            Some(span) => self.writes(span),
            None => self.number(0u64),
        }
    }

    pub fn number(mut self, number: impl Into<Argument>) -> Self {
        self.arguments.push(number.into());
        self
    }

    pub fn numbers<const N: usize>(mut self, numbers: [u32; N]) -> Self {
        self.arguments.extend(numbers.map(Argument::from));
        self
    }

    /// A C `u32` that is 0 or 1.
    pub fn flag(self, flag: bool) -> Self {
        self.number(u32::from(flag))
    }
}

/// One thing that a stream does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    Kernel(Box<Kernel>),
    /// By NVIDIA's library.
    Product(Arc<Chosen>),
    Copy {
        from: Span,
        to: Span,
    },
    /// Every byte becomes `value`.
    Fill {
        to: Span,
        value: u8,
    },
}

/// The work of a call, in order.
pub type Works = SmallVec<[Work; 2]>;
