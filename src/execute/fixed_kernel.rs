//! The fixed kernel: one product on every core at once, timed again and again, which tells how fast the machine is now.

use std::sync::Barrier;
use std::time::Instant;

use crate::execute::kernels::{gemm, linear};
use crate::execute::matrix::{Matrix, MatrixMut};
use crate::execute::pool::Pool;
use crate::execute::threads::{Work, together};
use crate::lower::kernel::Into;
use crate::units::FlopsPerSecond;

/// Rows, columns and depth of the product; three such matrices fit the second cache of a core.
const SIDE: usize = 192;
/// Products of each core in one turn.
const PRODUCTS: usize = 16;
/// Turns before a run and behind it.
const TURNS: usize = 5;
/// The share of a run's time that the kernel may take between its steps.
const SHARE: f64 = 0.02;

/// The kernel's operands on each core, and how long its turns took.
#[derive(Debug)]
pub struct FixedKernel {
    cores: Vec<Operands>,
    seconds: Vec<f64>,
    /// Seconds that steps took, and turns between them.
    steps: f64,
    between: f64,
}

#[derive(Debug)]
struct Operands {
    factors: [Vec<f32>; 2],
    product: Vec<f32>,
    scratch: Vec<f32>,
}

impl Operands {
    fn new() -> Self {
        let factor =
            |step: usize| (0..SIDE * SIDE).map(|at| ((at * step) % 31) as f32 / 31.0 - 0.5).collect();
        Self {
            factors: [factor(7), factor(11)],
            product: vec![0.0; SIDE * SIDE],
            scratch: vec![0.0; gemm::scratch(SIDE, SIDE, SIDE)],
        }
    }

    fn multiply(&mut self) {
        let [left, right] = &self.factors;
        for _ in 0..PRODUCTS {
            let product = MatrixMut { data: &mut self.product, rows: SIDE, columns: SIDE, stride: SIDE };
            let (write, scratch) = (Into::Set, &mut self.scratch);
            linear::forward(Pool::Serial, Matrix::new(left, SIDE), right, None, (product, write), scratch);
        }
    }
}

impl FixedKernel {
    /// The kernel on `cores` cores, which has run once; nothing is timed yet.
    pub fn new(cores: usize) -> Self {
        let cores = (0..cores.max(1)).map(|_| Operands::new()).collect();
        let mut kernel = Self { cores, seconds: Vec::new(), steps: 0.0, between: 0.0 };
        // The first turn touches its memory for the first time.
        kernel.turn();
        kernel.seconds.clear();
        kernel
    }

    /// Times one turn: from when all cores begin until the last one ends.
    pub fn turn(&mut self) {
        let gate = Barrier::new(self.cores.len());
        let Some((own, others)) = self.cores.split_first_mut() else { return };
        let gate = &gate;
        let multiply = |operands: &'_ mut Operands| {
            gate.wait();
            operands.multiply();
        };
        let multiply = &multiply;
        let others = others.iter_mut();
        let others = others.map(|operands| -> Work<'_> { Box::new(move || multiply(operands)) }).collect();
        let own = || {
            gate.wait();
            let began = Instant::now();
            own.multiply();
            began
        };
        // Without threads it has no speed.
        if let Ok(began) = together(others, own) {
            self.seconds.push(began.elapsed().as_secs_f64());
        }
    }

    /// Times the turns that stand before a run and behind it.
    pub fn turns(&mut self) {
        (0..TURNS).for_each(|_| self.turn());
    }

    /// Times one turn behind a step that took `seconds`, if such turns have taken but a small share of all steps.
    pub fn behind_step(&mut self, seconds: f64) {
        self.steps += seconds;
        if self.between <= SHARE * self.steps {
            self.turn();
            self.between += self.seconds.last().copied().unwrap_or_default();
        }
    }

    /// The speed that a quarter of all turns reached, of all cores together; none before the first. What else runs now
    /// and then makes turns slower, and never faster.
    pub fn speed(&self) -> Option<FlopsPerSecond> {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let seconds = *sorted.get(sorted.len() / 4)?;
        let flops = (2 * SIDE * SIDE * SIDE * PRODUCTS * self.cores.len()) as f64;
        Some(FlopsPerSecond(flops / seconds.max(f64::MIN_POSITIVE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_a_speed_once_it_was_timed_and_takes_its_share_only() {
        let mut kernel = FixedKernel::new(2);
        assert!(kernel.speed().is_none());
        kernel.turns();
        assert!(kernel.speed().unwrap().0 > 0.0);
        kernel.behind_step(0.0);
        assert_eq!(kernel.seconds.len(), TURNS + 1);
        kernel.behind_step(0.0);
        assert_eq!(kernel.seconds.len(), TURNS + 1, "the first turn was more than no time");
        kernel.behind_step(1e9);
        assert_eq!(kernel.seconds.len(), TURNS + 2);
    }
}
