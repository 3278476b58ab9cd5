//! How fast the kernels are on this machine's GPU, beside the least time that its memory and its tensor cores allow:
//! `speed [--only SUBSTRING]`. Nothing is measured on the emulator.

mod attention;
mod memory_bound;
mod products;

use std::process::ExitCode;

use gpu::{Argument, Buffer, Gpu, Launch, Source};

/// What an H200 SXM has, by its datasheet: dense bf16 FLOP/s of the tensor cores, f32 FLOP/s, bytes/s of its memory.
const BF16_RATE: f64 = 989e12;
const F32_RATE: f64 = 67e12;
const BANDWIDTH: f64 = 4.8e12;

const NULL: Argument = Argument::U64(0);

/// One kernel with what it must do at least.
struct Timed {
    source: Source,
    launch: Launch,
    arguments: Vec<Argument>,
    flops: f64,
    rate: f64,
    bytes: f64,
}

impl Timed {
    /// Seconds, and their least.
    fn measure(&self, gpu: &mut Gpu) -> Result<(f64, f64), String> {
        let module = gpu.load_source(&self.source).map_err(|fault| fault.to_string())?;
        let least = (self.flops / self.rate).max(self.bytes / BANDWIDTH);
        let repeats = (0.05 / least.max(2e-6)).clamp(5.0, 500.0) as u32;
        let seconds =
            gpu.time(module, &self.launch, &self.arguments, repeats).map_err(|fault| fault.to_string())?;
        Ok((seconds.ok_or("speed needs a real GPU: MESHWRIGHT_GPU=real")?, least))
    }
}

/// Random bf16 numbers in [-1, 1): products of zeros run faster.
fn random(gpu: &mut Gpu, count: usize) -> Buffer {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let value = (state >> 40) as f32 / (1 << 23) as f32 - 1.0;
        (value.to_bits() >> 16) as u16
    };
    let values: Vec<u16> = (0..count).map(|_| next()).collect();
    gpu.upload(&values)
}

/// The same in f32.
fn random_f32(gpu: &mut Gpu, count: usize) -> Buffer {
    let values: Vec<f32> = (0..count).map(|at| ((at * 7919) % 2048) as f32 / 1024.0 - 1.0).collect();
    gpu.upload(&values)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let only = match &words[..] {
        [] => "",
        [option, part] if option == "--only" => part,
        _ => return Err("usage: speed [--only SUBSTRING]".into()),
    };
    let mut gpu = Gpu::real().map_err(|fault| fault.to_string())?;
    println!("{}\n", gpu.name());
    println!("| kernel | time | reached | of the least time |\n| --- | --- | --- | --- |");
    for family in [products::all, attention::all, memory_bound::all] {
        for make in family() {
            if !make.name.contains(only) {
                continue;
            }
            gpu.restart(gpu::Order::Forward, false).map_err(|fault| fault.to_string())?;
            let timed = (make.operands)(&mut gpu);
            let (seconds, least) = timed.measure(&mut gpu)?;
            let reached = if timed.flops / timed.rate > timed.bytes / BANDWIDTH {
                format!("{:.0} TFLOP/s", timed.flops / seconds / 1e12)
            } else {
                format!("{:.2} TB/s", timed.bytes / seconds / 1e12)
            };
            println!("| {} | {:.1} µs | {reached} | {:.2} |", make.name, seconds * 1e6, least / seconds);
        }
    }
    Ok(())
}

/// A kernel to time, whose operands are made when its turn comes.
struct Make {
    name: String,
    operands: Box<dyn Fn(&mut Gpu) -> Timed>,
}

impl Make {
    fn new(name: impl Into<String>, operands: impl Fn(&mut Gpu) -> Timed + 'static) -> Self {
        Self { name: name.into(), operands: Box::new(operands) }
    }
}
