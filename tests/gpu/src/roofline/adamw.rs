//! AdamW, of gradients in f32.

use super::operands::Operands;
use super::{Entry, Least, Size, Work};
use crate::launch::adamw;
use crate::launch::runs::Types;
use crate::{Argument, Gpu};

/// Numbers of the step that are read: those of steps, the learning rate, the clip factor, a loss.
const NUMBERS: u64 = 4;

pub fn entries(size: Size) -> Vec<Entry> {
    let count = size.of(1 << 18, 100_000_000);
    vec![
        Entry::new(format!("{count}"), move |gpu| master(gpu, count)),
        Entry::new(format!("{count}"), move |gpu| parameters(gpu, count)),
    ]
}

fn master(gpu: &mut Gpu, count: u64) -> Work {
    let mut operands = Operands::new(gpu);
    let [gradient, master, first] = [(); 3].map(|()| operands.f32(count));
    let (second, parameters) = (operands.positive(count), operands.bf16_result(count));
    Work {
        source: adamw::source(Types::Bf16WithF32Gradients),
        launch: adamw::master(count),
        arguments: with_step(&mut operands, vec![gradient, master, first, second, parameters], count),
        // The gradient, the master and two moments; all but the gradient come back, and a rounded copy with them.
        least: Least::of_bytes(4 * 4 * count + 8 * NUMBERS, (3 * 4 + 2) * count),
    }
}

fn parameters(gpu: &mut Gpu, count: u64) -> Work {
    let mut operands = Operands::new(gpu);
    let (gradient, parameters) = (operands.f32(count), operands.bf16(count));
    let (first, second) = (operands.f32(count), operands.positive(count));
    Work {
        source: adamw::source(Types::Bf16WithF32Gradients),
        launch: adamw::parameters(count),
        arguments: with_step(&mut operands, vec![gradient, parameters, first, second], count),
        least: Least::of_bytes((3 * 4 + 2) * count + 8 * NUMBERS, (2 * 4 + 2) * count),
    }
}

fn with_step(operands: &mut Operands, mut arguments: Vec<Argument>, count: u64) -> Vec<Argument> {
    arguments.extend([Argument::U64(count), operands.f64(&[10.0, 7.0, 1e-4, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0])]);
    arguments.push(Argument::U32(1));
    arguments.extend([0.9, 0.999, 1e-8, 0.1].map(Argument::F64));
    arguments
}
