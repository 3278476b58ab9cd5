//! Operands of launches: reproducible numbers on the device. Products of zeros would run faster than others.

use crate::compare::{Random, to_bf16};
use crate::{Argument, Buffer, Gpu};

pub const NULL: Argument = Argument::U64(0);

/// So many numbers are made; they are repeated where more are needed.
const PERIOD: u64 = 1 << 20;

/// Numbers in [-1, 1), the same every time.
pub struct Operands<'g> {
    pub gpu: &'g mut Gpu,
    random: Random,
}

impl<'g> Operands<'g> {
    pub fn new(gpu: &'g mut Gpu) -> Self {
        Self { gpu, random: Random(1) }
    }

    fn values<T: Clone>(&mut self, count: u64, store: impl Fn(f32) -> T) -> Vec<T> {
        let numbers = self.random.values(count.min(PERIOD) as usize);
        let values: Vec<T> = numbers.into_iter().map(store).collect();
        values.into_iter().cycle().take(count as usize).collect()
    }

    /// A buffer of bf16, of which parts may be arguments.
    pub fn matrix(&mut self, count: u64) -> Buffer {
        let values = self.values(count, to_bf16);
        self.gpu.upload(&values)
    }

    pub fn bf16(&mut self, count: u64) -> Argument {
        Argument::Buffer(self.matrix(count))
    }

    pub fn matrix_f32(&mut self, count: u64) -> Buffer {
        let values = self.values(count, |number| number);
        self.gpu.upload(&values)
    }

    pub fn f32(&mut self, count: u64) -> Argument {
        Argument::Buffer(self.matrix_f32(count))
    }

    /// In [0, 1), as squares and second moments are.
    pub fn positive(&mut self, count: u64) -> Argument {
        let values = self.values(count, f32::abs);
        Argument::Buffer(self.gpu.upload(&values))
    }

    pub fn f64(&mut self, values: &[f64]) -> Argument {
        Argument::Buffer(self.gpu.upload(values))
    }

    pub fn u32(&mut self, values: impl IntoIterator<Item = u32>) -> Argument {
        let values: Vec<u32> = values.into_iter().collect();
        Argument::Buffer(self.gpu.upload(&values))
    }

    /// Results, which the kernel writes.
    pub fn bf16_result(&mut self, count: u64) -> Argument {
        Argument::Buffer(self.gpu.uninitialised::<u16>(count as usize))
    }

    pub fn f32_result(&mut self, count: u64) -> Argument {
        Argument::Buffer(self.gpu.uninitialised::<f32>(count as usize))
    }

    pub fn f64_result(&mut self, count: u64) -> Argument {
        Argument::Buffer(self.gpu.uninitialised::<f64>(count as usize))
    }
}

pub fn sizes<const N: usize>(sizes: [u32; N]) -> [Argument; N] {
    sizes.map(Argument::U32)
}
