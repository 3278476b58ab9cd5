//! One launch of every kernel, with the bytes and FLOPs that its operator needs at least.
//!
//! The least is a formula of the operator's sizes: each operand is read once, each result written once, and FLOPs are
//! those of textbooks. It knows nothing of the kernel, so that what the emulator counts can be held against it.

pub mod activation;
pub mod adamw;
pub mod attention;
pub mod card;
pub mod collectives;
pub mod cross_entropy;
pub mod dropout;
pub mod elementwise;
pub mod embedding;
pub mod gemm;
pub mod gradient_norm;
pub mod norm;
mod operands;
pub mod quantise;
pub mod residual;
pub mod rotary;
pub mod routing;

use crate::{Argument, Counted, Fault, Gpu, Launch, Source};
use card::Unit;

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A second's work of the emulator.
    Small,
    /// Enough to keep a large GPU busy.
    Large,
}

impl Size {
    pub fn of<T>(self, small: T, large: T) -> T {
        match self {
            Self::Small => small,
            Self::Large => large,
        }
    }
}

/// What an operator needs at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// Bytes of operands and of results.
    pub read: u64,
    pub written: u64,
    /// None where textbooks have no count: such kernels are bound by memory.
    pub flops: u64,
    /// Which unit makes them.
    pub unit: Unit,
}

impl Least {
    /// Of an operator that moves memory and computes little.
    pub fn of_bytes(read: u64, written: u64) -> Self {
        Self { read, written, flops: 0, unit: Unit::Single }
    }

    pub fn bytes(&self) -> u64 {
        self.read + self.written
    }
}

/// A kernel, ready to run.
pub struct Work {
    pub source: Source,
    pub launch: Launch,
    pub arguments: Vec<Argument>,
    pub least: Least,
}

impl Work {
    /// What it moves and computes on an emulator that counts.
    pub fn counted(&self, gpu: &mut Gpu) -> Result<Counted, Fault> {
        let module = gpu.load_source(&self.source)?;
        gpu.counted(module, &self.launch, &self.arguments)
    }

    /// Seconds on a real GPU, over so many launches; none on the emulator.
    pub fn seconds(&self, gpu: &mut Gpu, repeats: u32) -> Result<Option<f64>, Fault> {
        let module = gpu.load_source(&self.source)?;
        gpu.time(module, &self.launch, &self.arguments, repeats)
    }
}

/// A kernel at some sizes, whose operands are made when its turn comes.
pub struct Entry {
    /// The sizes, for people.
    pub sizes: String,
    make: Box<dyn Fn(&mut Gpu) -> Work + Send + Sync>,
}

impl Entry {
    pub fn new(sizes: impl Into<String>, make: impl Fn(&mut Gpu) -> Work + Send + Sync + 'static) -> Self {
        Self { sizes: sizes.into(), make: Box::new(make) }
    }

    pub fn work(&self, gpu: &mut Gpu) -> Work {
        (self.make)(gpu)
    }
}

/// Every kernel once, by operator.
pub fn all(size: Size) -> Vec<(&'static str, Vec<Entry>)> {
    vec![
        ("activation", activation::entries(size)),
        ("adamw", adamw::entries(size)),
        ("attention", attention::entries(size)),
        ("collectives", collectives::entries(size)),
        ("cross_entropy", cross_entropy::entries(size)),
        ("dropout", dropout::entries(size)),
        ("elementwise", elementwise::entries(size)),
        ("embedding", embedding::entries(size)),
        ("gemm", gemm::entries(size)),
        ("gradient_norm", gradient_norm::entries(size)),
        ("norm", norm::entries(size)),
        ("quantise", quantise::entries(size)),
        ("residual", residual::entries(size)),
        ("rotary", rotary::entries(size)),
        ("routing", routing::entries(size)),
    ]
}
