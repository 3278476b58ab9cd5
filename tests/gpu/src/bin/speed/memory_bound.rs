//! Kernels that only move memory: norms, activations, residual sums, cross-entropy, AdamW.

use gpu::launch::runs::Types;
use gpu::launch::{activation, adamw, cross_entropy, norm};
use gpu::{Argument, Gpu, Launch, Source};

use super::{F32_RATE, Make, NULL, Timed, random, random_f32};

const ROWS: u32 = 8192;
const WIDTH: u32 = 4096;
/// Rows and words of cross-entropy.
const LOGITS: [u32; 2] = [2048, 128_256];
const PARAMETERS: u64 = 100_000_000;

pub fn all() -> Vec<Make> {
    vec![
        Make::new("RMS norm, 8192 × 4096", norm_forward),
        Make::new("gradient of RMS norm, 8192 × 4096", norm_input_gradient),
        Make::new("GELU, 8192 × 4096", activation_forward),
        Make::new("cross-entropy, 2048 × 128,256", cross_entropy_forward),
        Make::new("gradient of cross-entropy, 2048 × 128,256", cross_entropy_gradient),
        Make::new("AdamW with master weights, 100 M", adamw_master),
    ]
}

fn timed(source: Source, launch: Launch, arguments: Vec<Argument>, bytes: f64) -> Timed {
    Timed { source, launch, arguments, flops: 0.0, rate: F32_RATE, bytes }
}

fn elements() -> usize {
    (ROWS * WIDTH) as usize
}

fn norm_forward(gpu: &mut Gpu) -> Timed {
    let [input, output] = [(); 2].map(|()| Argument::Buffer(random(gpu, elements())));
    let weight = Argument::Buffer(random(gpu, WIDTH as usize));
    let statistics = Argument::Buffer(random_f32(gpu, 2 * ROWS as usize));
    let how = [Argument::U32(WIDTH), Argument::U32(0), Argument::F32(1e-5)];
    let arguments = [vec![input, weight, NULL, output, statistics], how.to_vec()].concat();
    let launch = norm::forward(ROWS, WIDTH);
    timed(norm::source(Types::Bf16), launch, arguments, 4.0 * elements() as f64)
}

fn norm_input_gradient(gpu: &mut Gpu) -> Timed {
    let [input, dy, dx] = [(); 3].map(|()| Argument::Buffer(random(gpu, elements())));
    let weight = Argument::Buffer(random(gpu, WIDTH as usize));
    let statistics = Argument::Buffer(random_f32(gpu, 2 * ROWS as usize));
    let how = [Argument::U32(WIDTH), Argument::U32(0), Argument::U32(0)];
    let arguments = [vec![input, weight, statistics, dy, dx], how.to_vec()].concat();
    let launch = norm::input_gradient(ROWS, WIDTH);
    timed(norm::source(Types::Bf16), launch, arguments, 6.0 * elements() as f64)
}

fn activation_forward(gpu: &mut Gpu) -> Timed {
    let [input, output] = [(); 2].map(|()| Argument::Buffer(random(gpu, elements())));
    let (source, launch) = activation_of(ROWS, WIDTH);
    let arguments = vec![input, output, Argument::U32(ROWS), Argument::U32(WIDTH)];
    timed(source, launch, arguments, 4.0 * elements() as f64)
}

fn activation_of(rows: u32, width: u32) -> (Source, Launch) {
    (activation::source(Types::Bf16, activation::Function::GeluTanh), activation::forward(rows, width))
}

fn cross_entropy_forward(gpu: &mut Gpu) -> Timed {
    let (arguments, elements) = logits(gpu);
    let launch = cross_entropy::forward(LOGITS[0], LOGITS[1]);
    timed(cross_entropy::source(Types::Bf16), launch, arguments, 2.0 * elements as f64)
}

fn cross_entropy_gradient(gpu: &mut Gpu) -> Timed {
    let (mut arguments, elements) = logits(gpu);
    arguments.push(Argument::F32(1.0));
    let launch = cross_entropy::gradient(LOGITS[0], LOGITS[1]);
    timed(cross_entropy::source(Types::Bf16), launch, arguments, 4.0 * elements as f64)
}

fn logits(gpu: &mut Gpu) -> (Vec<Argument>, usize) {
    let [rows, words] = LOGITS;
    let elements = rows as usize * words as usize;
    let logits = Argument::Buffer(random(gpu, elements));
    let targets: Vec<u32> = (0..rows).map(|row| row * 17 % words).collect();
    let targets = Argument::Buffer(gpu.upload(&targets));
    let statistics = Argument::Buffer(random_f32(gpu, 3 * rows as usize));
    let sizes = [Argument::U32(words), Argument::U32(0), Argument::U32(words)];
    ([vec![logits, targets, statistics], sizes.to_vec()].concat(), elements)
}

fn adamw_master(gpu: &mut Gpu) -> Timed {
    let count = PARAMETERS as usize;
    let [gradient, master, first, second] = [(); 4].map(|()| Argument::Buffer(random_f32(gpu, count)));
    let parameters = Argument::Buffer(random(gpu, count));
    let scalars = Argument::Buffer(gpu.upload(&[10.0, 7.0, 1e-4, 1.0_f64]));
    let mut arguments = vec![gradient, master, first, second, parameters, Argument::U64(PARAMETERS), scalars];
    arguments.extend([0.9, 0.999, 1e-8, 0.1].map(Argument::F64));
    let source = adamw::source(Types::Bf16WithF32Gradients);
    let launch = adamw::master(PARAMETERS);
    timed(source, launch, arguments, 30.0 * PARAMETERS as f64)
}
