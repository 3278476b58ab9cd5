//! Operands of cases that run with each storage type: uploads that remember what was stored, and comparisons.

use crate::compare::{BF16, F32, Random, close, from_bf16, to_bf16};
use crate::launch::runs::Types;
use crate::{Argument, Buffer, Gpu, Launch, Source};

pub type Outcome = Result<(), String>;

/// A pointer to nothing.
pub const NULL: Argument = Argument::U64(0);

/// How a tensor is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    F32,
    Bf16,
}

pub const BOTH: [Stored; 2] = [Stored::F32, Stored::Bf16];
pub const ALL_TYPES: [Types; 3] = [Types::F32, Types::Bf16, Types::Bf16WithF32Gradients];

/// How activations and gradients are stored.
pub fn stored(types: Types) -> (Stored, Stored) {
    match types {
        Types::F32 => (Stored::F32, Stored::F32),
        Types::Bf16 => (Stored::Bf16, Stored::Bf16),
        Types::Bf16WithF32Gradients => (Stored::Bf16, Stored::F32),
    }
}

/// A tensor on the device with what it holds.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub buffer: Buffer,
    pub values: Vec<f64>,
}

impl Tensor {
    pub fn argument(&self) -> Argument {
        Argument::Buffer(self.buffer)
    }
}

impl Stored {
    pub const fn types(self) -> Types {
        match self {
            Self::F32 => Types::F32,
            Self::Bf16 => Types::Bf16,
        }
    }

    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    /// What is left of a value when it is stored.
    pub fn round(self, value: f32) -> f32 {
        match self {
            Self::F32 => value,
            Self::Bf16 => from_bf16(to_bf16(value)),
        }
    }

    pub fn upload(self, gpu: &mut Gpu, values: &[f32]) -> Tensor {
        let buffer = match self {
            Self::F32 => gpu.upload(values),
            Self::Bf16 => gpu.upload(&values.iter().map(|&value| to_bf16(value)).collect::<Vec<u16>>()),
        };
        Tensor { buffer, values: values.iter().map(|&value| f64::from(self.round(value))).collect() }
    }

    /// Uploads `count` values in [-scale, scale).
    pub fn random(self, gpu: &mut Gpu, random: &mut Random, count: usize, scale: f32) -> Tensor {
        let values: Vec<f32> = random.values(count).iter().map(|value| value * scale).collect();
        self.upload(gpu, &values)
    }

    pub fn output(self, gpu: &mut Gpu, count: usize) -> Buffer {
        match self {
            Self::F32 => gpu.uninitialised::<f32>(count),
            Self::Bf16 => gpu.uninitialised::<u16>(count),
        }
    }

    pub fn download(self, gpu: &mut Gpu, buffer: Buffer) -> Vec<f32> {
        match self {
            Self::F32 => gpu.download(buffer),
            Self::Bf16 => gpu.download::<u16>(buffer).into_iter().map(from_bf16).collect(),
        }
    }

    pub const fn tolerance(self) -> f64 {
        match self {
            Self::F32 => F32,
            Self::Bf16 => BF16,
        }
    }

    /// Compares what lies in `buffer` with what should, within the tolerance of the type.
    pub fn close(self, gpu: &mut Gpu, what: &str, buffer: Buffer, expected: &[f64], row: usize) -> Outcome {
        let actual = self.download(gpu, buffer);
        close(&format!("{what} in {self:?}"), &actual, expected, row, self.tolerance())
    }

    /// The same, for what must be equal.
    pub fn same(self, gpu: &mut Gpu, what: &str, buffer: Buffer, expected: &[f64]) -> Outcome {
        let actual: Vec<f64> = self.download(gpu, buffer).into_iter().map(f64::from).collect();
        crate::compare::equal(&format!("{what} in {self:?}"), &actual, expected)
    }
}

/// Compiles what is not compiled yet, and runs.
pub fn run(gpu: &mut Gpu, source: &Source, launch: &Launch, arguments: &[Argument]) -> Outcome {
    let module = gpu.load_source(source)?;
    Ok(gpu.launch(module, launch, arguments)?)
}

/// Compares numbers in f64.
pub fn close_f64(what: &str, actual: &[f64], expected: &[f64], tolerance: f64) -> Outcome {
    let off = |(actual, expected): (&f64, &f64)| (actual - expected).abs() > tolerance * expected.abs();
    match actual.iter().zip(expected).position(off) {
        Some(at) => Err(format!("{what}: {} at {at}, expected {}", actual[at], expected[at])),
        None if actual.len() != expected.len() => Err(format!("{what}: {} values", actual.len())),
        None => Ok(()),
    }
}
