//! Activation functions, plain, as gates and between the matrices of experts, against f64.

use super::operands::{BOTH, NULL, Outcome, Stored, Tensor, run};
use crate::compare::Random;
use crate::launch::activation::{self, Function};
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "plain", run: plain },
    Case { name: "ends", run: ends },
    Case { name: "gated, apart and in one matrix", run: gated },
    Case { name: "expert slots with their weights", run: experts },
];

const FUNCTIONS: [Function; 5] =
    [Function::Gelu, Function::GeluTanh, Function::Silu, Function::Relu, Function::Relu2];

/// The error function by its series, far out by the continued fraction of erfc.
fn erf(x: f64) -> f64 {
    if x.abs() < 3.0 {
        let mut term = x;
        let mut sum = x;
        for n in 1..80 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let fraction = (1..60).rev().fold(x.abs(), |rest, n| x.abs() + f64::from(n) / 2.0 / rest);
    (1.0 - (-x * x).exp() / fraction / std::f64::consts::PI.sqrt()).copysign(x)
}

/// The function and its derivative.
fn exact(function: Function, x: f64) -> [f64; 2] {
    let pi = std::f64::consts::PI;
    match function {
        Function::Gelu => {
            let below = 0.5 * (1.0 + erf(x / 2f64.sqrt()));
            [x * below, below + x * (-x * x / 2.0).exp() / (2.0 * pi).sqrt()]
        }
        Function::GeluTanh => {
            let slope = (2.0 / pi).sqrt();
            let tanh = (slope * (x + 0.044715 * x.powi(3))).tanh();
            let inner = slope * (1.0 + 3.0 * 0.044715 * x * x);
            [0.5 * x * (1.0 + tanh), 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * inner]
        }
        Function::Silu => {
            let share = 1.0 / (1.0 + (-x).exp());
            [x * share, share + x * share * (1.0 - share)]
        }
        Function::Relu => [x.max(0.0), f64::from(u8::from(x > 0.0))],
        Function::Relu2 => [x.max(0.0).powi(2), 2.0 * x.max(0.0)],
    }
}

fn sizes(rows: usize, width: usize) -> [Argument; 2] {
    [Argument::U32(rows as u32), Argument::U32(width as u32)]
}

fn plain(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for (stored, function) in BOTH.into_iter().flat_map(|stored| FUNCTIONS.map(|one| (stored, one))) {
        for (rows, width) in [(1, 1), (3, 13), (5, 512)] {
            let x = stored.random(gpu, &mut random, rows * width, 5.0);
            let dy = stored.random(gpu, &mut random, rows * width, 1.0);
            compare(gpu, stored, function, (rows, width), (&x, &dy))?;
        }
    }
    Ok(())
}

/// Where exponentials overflow and functions are flat.
fn ends(gpu: &mut Gpu) -> Outcome {
    let values = [-1e4, -120.0, -90.0, -10.0, -0.0, 0.0, 1e-6, 10.0, 90.0, 1e4, 3.0, -3.0];
    for (stored, function) in BOTH.into_iter().flat_map(|stored| FUNCTIONS.map(|one| (stored, one))) {
        let x = stored.upload(gpu, &values);
        let dy = stored.upload(gpu, &[1.0; 12]);
        compare(gpu, stored, function, (1, 12), (&x, &dy))?;
    }
    Ok(())
}

/// Forward, then the gradient in place of the output's.
fn compare(
    gpu: &mut Gpu,
    stored: Stored,
    function: Function,
    (rows, width): (usize, usize),
    (x, dy): (&Tensor, &Tensor),
) -> Outcome {
    let source = activation::source(stored.types(), function);
    let y = stored.output(gpu, rows * width);
    let arguments = [&[x.argument(), Argument::Buffer(y)][..], &sizes(rows, width)].concat();
    run(gpu, &source, &activation::forward(rows as u32, width as u32), &arguments)?;
    let expected: Vec<f64> = x.values.iter().map(|&x| exact(function, x)[0]).collect();
    stored.close(gpu, &format!("{function:?} of {rows} x {width}"), y, &expected, width)?;
    let arguments = [&[x.argument(), dy.argument(), dy.argument()][..], &sizes(rows, width)].concat();
    run(gpu, &source, &activation::gradient(rows as u32, width as u32), &arguments)?;
    let expected: Vec<f64> =
        x.values.iter().zip(&dy.values).map(|(&x, dy)| dy * exact(function, x)[1]).collect();
    stored.close(gpu, &format!("gradient of {function:?}"), dy.buffer, &expected, width)
}

fn gated(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(2);
    for (stored, function) in BOTH.into_iter().flat_map(|stored| FUNCTIONS.map(|one| (stored, one))) {
        let source = activation::source(stored.types(), function);
        for (rows, width, together) in [(1, 5, false), (3, 40, false), (3, 40, true), (4, 13, true)] {
            // In one matrix, gate and up are halves of its rows.
            let stride = if together { 2 * width } else { width };
            let gate = stored.random(gpu, &mut random, rows * stride, 4.0);
            let apart = stored.random(gpu, &mut random, rows * width, 2.0);
            let half = width as u64 * stored.bytes();
            let up = if together { Argument::Part(gate.buffer, half) } else { apart.argument() };
            let dy = stored.random(gpu, &mut random, rows * width, 1.0);
            let (y, dgate) = (stored.output(gpu, rows * width), stored.output(gpu, rows * stride));
            let dup = if together { Argument::Part(dgate, half) } else { dy.argument() };
            let end = [&sizes(rows, width)[..], &[Argument::U32(stride as u32)]].concat();
            let arguments = [&[gate.argument(), up, Argument::Buffer(y)][..], &end].concat();
            run(gpu, &source, &activation::gated_forward(rows as u32, width as u32), &arguments)?;
            let own = [gate.argument(), up, dy.argument(), Argument::Buffer(dgate), dup];
            let launch = activation::gated_gradient(rows as u32, width as u32);
            run(gpu, &source, &launch, &[&own[..], &end].concat())?;
            let (mut values, mut gates, mut ups) = (Vec::new(), Vec::new(), Vec::new());
            for at in 0..rows * width {
                let place = at / width * stride + at % width;
                let up = if together { gate.values[place + width] } else { apart.values[at] };
                let [value, slope] = exact(function, gate.values[place]);
                values.push(value * up);
                gates.push(dy.values[at] * up * slope);
                ups.push(dy.values[at] * value);
            }
            let what = format!("{function:?} gate of {rows} x {width}");
            stored.close(gpu, &what, y, &values, width)?;
            if together {
                let rows = gates.chunks(width).zip(ups.chunks(width));
                let both: Vec<f64> = rows.flat_map(|(gate, up)| [gate, up].concat()).collect();
                stored.close(gpu, &format!("gradients, {what}"), dgate, &both, stride)?;
            } else {
                stored.close(gpu, &format!("gradient, {what}"), dgate, &gates, width)?;
                stored.close(gpu, &format!("gradient of up, {what}"), dy.buffer, &ups, width)?;
            }
        }
    }
    Ok(())
}

fn experts(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(3);
    let function = Function::Silu;
    for (stored, with_gate) in BOTH.into_iter().flat_map(|stored| [true, false].map(|gate| (stored, gate))) {
        for (blocks, slots, hidden, width) in [(2, 3, 5, 12), (3, 1, 8, 40), (1, 4, 3, 2056)] {
            let source = activation::source(stored.types(), function);
            let rows = blocks * slots;
            let gate = stored.random(gpu, &mut random, rows * width, 3.0);
            let up = stored.random(gpu, &mut random, rows * width, 3.0);
            let dy = stored.random(gpu, &mut random, rows * width, 1.0);
            let input = stored.random(gpu, &mut random, blocks * slots * (hidden + 1), 1.0);
            let optional = |argument| if with_gate { argument } else { NULL };
            let end = [slots, hidden].map(|size| Argument::U32(size as u32));
            let (y, dgate, dup) = (
                stored.output(gpu, rows * width),
                stored.output(gpu, rows * width),
                stored.output(gpu, rows * width),
            );
            let dinput = stored.upload(gpu, &vec![0.0; blocks * slots * (hidden + 1)]);
            let read = [optional(gate.argument()), up.argument(), input.argument()];
            let more = [&[Argument::Buffer(y)][..], &sizes(rows, width), &end].concat();
            let launch = activation::expert_forward(rows as u32, width as u32);
            run(gpu, &source, &launch, &[&read[..], &more].concat())?;
            let gradients =
                [dy.argument(), optional(Argument::Buffer(dgate)), Argument::Buffer(dup), dinput.argument()];
            let more = [&gradients[..], &[Argument::U32(width as u32)], &end].concat();
            let launch = activation::expert_gradient(rows as u32, width as u32);
            run(gpu, &source, &launch, &[&read[..], &more].concat())?;
            let (mut values, mut gates, mut ups) = (Vec::new(), Vec::new(), Vec::new());
            let mut weights = vec![0.0; dinput.values.len()];
            for at in 0..rows * width {
                let (row, up, dy) = (at / width, up.values[at], dy.values[at]);
                let place = row / slots * slots * (hidden + 1) + slots * hidden + row % slots;
                let weight = input.values[place];
                let [value, slope] = exact(function, if with_gate { gate.values[at] } else { up });
                let activated = if with_gate { value * up } else { value };
                values.push(activated * weight);
                weights[place] += activated * dy;
                gates.push(dy * weight * up * slope);
                ups.push(dy * weight * if with_gate { value } else { slope });
            }
            stored.close(gpu, "activation of slots", y, &values, width)?;
            stored.close(gpu, "gradient of up", dup, &ups, width)?;
            stored.close(gpu, "gradients of weights", dinput.buffer, &weights, slots * (hidden + 1))?;
            if with_gate {
                stored.close(gpu, "gradient of gate", dgate, &gates, width)?;
            }
        }
    }
    Ok(())
}
