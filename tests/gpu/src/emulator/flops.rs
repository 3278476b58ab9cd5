//! How many floating-point operations a launch makes, by the units that make them.

/// A fused multiply-add is two, an addition or a product one. Divisions, roots and exponentials are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    /// Of the tensor cores.
    pub tensor: u64,
    /// In f32, and in packed bf16.
    pub single: u64,
    pub double: u64,
}

impl Flops {
    /// Adds what a thread has counted.
    pub fn add(&mut self, [tensor, single, double]: [u64; 3]) {
        self.tensor += tensor;
        self.single += single;
        self.double += double;
    }

    pub fn all(&self) -> u64 {
        self.tensor + self.single + self.double
    }
}
