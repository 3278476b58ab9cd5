//! Activation functions, plain, as gates and between the matrices of experts, against f64.

use super::operands::{BOTH, NULL, Outcome, Stored, Tensor, run};
use crate::compare::Random;
use crate::launch::activation::{self, Function};
use crate::{Argument, Buffer, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "plain", run: plain },
    Case { name: "ends", run: ends },
    Case { name: "gated, apart and in one matrix", run: gated },
    Case { name: "expert slots with their weights", run: experts },
];

const FUNCTIONS: [Function; 5] =
    [Function::Gelu, Function::GeluTanh, Function::Silu, Function::Relu, Function::Relu2];

/// 1 − erf(x) with its digits where it is small: by erf's series near 0, by a continued fraction far out.
fn erfc(x: f64) -> f64 {
    if x.abs() < 2.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..80 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 1.0 - sum * std::f64::consts::FRAC_2_SQRT_PI;
    }
    let fraction = (1..200).rev().fold(x.abs(), |rest, n| x.abs() + f64::from(n) / 2.0 / rest);
    let tail = (-x * x).exp() / fraction / std::f64::consts::PI.sqrt();
    if x > 0.0 { tail } else { 2.0 - tail }
}

/// 1 / (1 + e^−x)
fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The function and its derivative.
fn exact(function: Function, x: f64) -> [f64; 2] {
    let pi = std::f64::consts::PI;
    match function {
        Function::Gelu => {
            let below = 0.5 * erfc(-x / 2f64.sqrt());
            [x * below, below + x * (-x * x / 2.0).exp() / (2.0 * pi).sqrt()]
        }
        Function::GeluTanh => {
            // (1 + tanh y) / 2 is the logistic function of 2y.
            let slope = (2.0 / pi).sqrt();
            let y = slope * (x + 0.044715 * x.powi(3));
            let inner = slope * (1.0 + 3.0 * 0.044715 * x * x);
            let (share, rest) = (logistic(2.0 * y), logistic(-2.0 * y));
            [x * share, share + 2.0 * x * share * rest * inner]
        }
        Function::Silu => {
            let (share, rest) = (logistic(x), logistic(-x));
            [x * share, share + x * share * rest]
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
            compare(gpu, stored, function, (rows, width), (&x, &dy), |gpu, stored, what, of, expected| {
                stored.close(gpu, what, of, expected, width)
            })?;
        }
    }
    Ok(())
}

/// Where exponentials overflow and functions are flat: each value is judged by itself, since the greatest would hide the
/// others. What is below f32's normal numbers may be zero.
fn ends(gpu: &mut Gpu) -> Outcome {
    let values = [-1e4, -120.0, -90.0, -10.0, -3.0, -0.0, 0.0, 1e-6, 3.0, 10.0, 90.0, 1e4];
    let near = |gpu: &mut Gpu, stored: Stored, what: &str, of: Buffer, expected: &[f64]| {
        for (actual, expected) in stored.download(gpu, of).into_iter().zip(expected) {
            let error = (f64::from(actual) - expected).abs();
            if error.is_nan() || error > stored.tolerance() * expected.abs() + 1e-37 {
                return Err(format!("{what} in {stored:?}: {actual:e}, expected {expected:e}"));
            }
        }
        Ok(())
    };
    for (stored, function) in BOTH.into_iter().flat_map(|stored| FUNCTIONS.map(|one| (stored, one))) {
        let x = stored.upload(gpu, &values);
        let dy = stored.upload(gpu, &[1.0; 12]);
        compare(gpu, stored, function, (1, 12), (&x, &dy), near)?;
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
    near: impl Fn(&mut Gpu, Stored, &str, Buffer, &[f64]) -> Outcome,
) -> Outcome {
    let source = activation::source(stored.types(), function);
    let y = stored.output(gpu, rows * width);
    let arguments = [&[x.argument(), Argument::Buffer(y)][..], &sizes(rows, width)].concat();
    run(gpu, &source, &activation::forward(rows as u32, width as u32), &arguments)?;
    let expected: Vec<f64> = x.values.iter().map(|&x| exact(function, x)[0]).collect();
    near(gpu, stored, &format!("{function:?} of {rows} x {width}"), y, &expected)?;
    let arguments = [&[x.argument(), dy.argument(), dy.argument()][..], &sizes(rows, width)].concat();
    run(gpu, &source, &activation::gradient(rows as u32, width as u32), &arguments)?;
    let expected: Vec<f64> =
        x.values.iter().zip(&dy.values).map(|(&x, dy)| dy * exact(function, x)[1]).collect();
    near(gpu, stored, &format!("gradient of {function:?}"), dy.buffer, &expected)
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
