//! AdamW against the algorithm's text in f64.

use super::operands::{ALL_TYPES, Outcome, Stored, Tensor, run, stored};
use crate::compare::Random;
use crate::launch::adamw;
use crate::launch::runs::Types;
use crate::{Argument, Case, Gpu, Launch};

pub const CASES: &[Case] = &[
    Case { name: "with a master", run: with_master },
    Case { name: "without a master", run: without_master },
    Case { name: "of a step whose loss is lost", run: lost },
];

const BETAS: (f64, f64) = (0.9, 0.95);
const EPSILON: f64 = 1e-8;
const DECAY: f64 = 0.1;
const RATE: f64 = 3e-3;
const CLIP: f64 = 0.37;

struct State {
    gradient: Tensor,
    parameters: Tensor,
    first: Tensor,
    second: Tensor,
}

impl State {
    fn new(gpu: &mut Gpu, random: &mut Random, gradient: Stored, parameters: Stored, count: usize) -> Self {
        // Second moments are not negative.
        let squares: Vec<f32> = random.values(count).iter().map(|x| 0.01 * x * x).collect();
        Self {
            gradient: gradient.random(gpu, random, count, 0.1),
            parameters: parameters.random(gpu, random, count, 1.0),
            first: Stored::F32.random(gpu, random, count, 0.1),
            second: Stored::F32.upload(gpu, &squares),
        }
    }

    /// Parameters and moments after step `step`, counted from 1.
    fn after(&self, step: i32) -> [Vec<f64>; 3] {
        let mut after = [Vec::new(), Vec::new(), Vec::new()];
        for at in 0..self.gradient.values.len() {
            let g = self.gradient.values[at] * CLIP;
            let m = BETAS.0 * self.first.values[at] + (1.0 - BETAS.0) * g;
            let v = BETAS.1 * self.second.values[at] + (1.0 - BETAS.1) * g * g;
            let m_hat = m / (1.0 - BETAS.0.powi(step));
            let v_hat = v / (1.0 - BETAS.1.powi(step));
            let old = self.parameters.values[at];
            let new = old - RATE * (m_hat / (v_hat.sqrt() + EPSILON) + DECAY * old);
            after.iter_mut().zip([new, m, v]).for_each(|(list, value)| list.push(value));
        }
        after
    }

    fn close(&self, gpu: &mut Gpu, parameters: Stored, step: i32) -> Outcome {
        let [new, m, v] = self.after(step);
        let row = new.len().min(64);
        parameters.close(gpu, &format!("parameters after step {step}"), self.parameters.buffer, &new, row)?;
        Stored::F32.close(gpu, "first moments", self.first.buffer, &m, row)?;
        Stored::F32.close(gpu, "second moments", self.second.buffer, &v, row)
    }
}

/// The numbers of the step and of the run.
fn end(gpu: &mut Gpu, count: usize, step: i32) -> [Argument; 7] {
    end_with(gpu, count, step, [3.0, 0.0])
}

/// The same with these losses behind the norm's squares.
fn end_with(gpu: &mut Gpu, count: usize, step: i32, losses: [f64; 2]) -> [Argument; 7] {
    let head = [f64::from(step - 1), f64::from_bits(7), RATE, CLIP, f64::NAN, 0.0, 0.0, 0.0];
    let scalars = gpu.upload(&[&head[..], &losses].concat());
    let [beta1, beta2, epsilon, decay] = [BETAS.0, BETAS.1, EPSILON, DECAY].map(Argument::F64);
    [Argument::U64(count as u64), Argument::Buffer(scalars), Argument::U32(2), beta1, beta2, epsilon, decay]
}

/// With so few blocks that threads take several turns, as they do with real parameters.
fn few_blocks(launch: Launch) -> Launch {
    Launch { grid: [launch.grid[0].min(3), 1, 1], ..launch }
}

const COUNTS: [usize; 4] = [1, 8, 1003, 20_000];

fn with_master(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(1);
    for (types, count) in ALL_TYPES.into_iter().flat_map(|types| COUNTS.map(|count| (types, count))) {
        let (working, gradient) = stored(types);
        for step in [1, 6, 1000] {
            let state = State::new(gpu, &mut random, gradient, Stored::F32, count);
            let copy = working.output(gpu, count);
            let State { gradient, parameters, first, second } = &state;
            let tensors = [gradient, parameters, first, second].map(Tensor::argument);
            let arguments = [&tensors[..], &[Argument::Buffer(copy)], &end(gpu, count, step)].concat();
            run(gpu, &adamw::source(types), &few_blocks(adamw::master(count as u64)), &arguments)?;
            state.close(gpu, Stored::F32, step)?;
            // The copy is the master, rounded once.
            let master = Stored::F32.download(gpu, parameters.buffer);
            let rounded: Vec<f64> = master.iter().map(|&x| f64::from(working.round(x))).collect();
            working.same(gpu, "the working copy", copy, &rounded)?;
        }
    }
    Ok(())
}

fn without_master(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(2);
    for types in [Types::F32, Types::Bf16] {
        let (parameter, gradient) = stored(types);
        for count in COUNTS {
            let state = State::new(gpu, &mut random, gradient, parameter, count);
            let State { gradient, parameters, first, second } = &state;
            let tensors = [gradient, parameters, first, second].map(Tensor::argument);
            let arguments = [&tensors[..], &end(gpu, count, 6)].concat();
            run(gpu, &adamw::source(types), &few_blocks(adamw::parameters(count as u64)), &arguments)?;
            state.close(gpu, parameter, 6)?;
        }
    }
    Ok(())
}

/// Nothing changes.
fn lost(gpu: &mut Gpu) -> Outcome {
    let (mut random, count) = (Random(3), 1003);
    for losses in [[2.0, f64::NAN], [f64::NEG_INFINITY, 2.0]] {
        let state = State::new(gpu, &mut random, Stored::F32, Stored::F32, count);
        let State { gradient, parameters, first, second } = &state;
        let tensors = [gradient, parameters, first, second].map(Tensor::argument);
        let arguments = [&tensors[..], &end_with(gpu, count, 6, losses)].concat();
        run(gpu, &adamw::source(Types::F32), &adamw::parameters(count as u64), &arguments)?;
        for tensor in [parameters, first, second] {
            Stored::F32.same(gpu, "what stays", tensor.buffer, &tensor.values)?;
        }
    }
    Ok(())
}
