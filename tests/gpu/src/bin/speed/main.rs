//! How fast the kernels are on this machine's GPU, beside the least time that its memory and its arithmetic allow:
//! `speed [--only OPERATOR]`. Nothing is measured on the emulator.

mod sizes;

use std::process::ExitCode;

use gpu::roofline::card::H200;
use gpu::roofline::{self, Size, Work};
use gpu::{Gpu, Order};

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
        _ => return Err("usage: speed [--only OPERATOR]".into()),
    };
    let mut gpu = Gpu::real()?;
    println!("{}; the least time is an {}'s\n", gpu.name(), H200.name);
    println!("| kernel | time | reached | of the least time |\n| --- | --- | --- | --- |");
    let chosen = roofline::all(Size::Large).into_iter().chain(sizes::all());
    for entry in chosen.filter(|(operator, _)| operator.contains(only)).flat_map(|(_, entries)| entries) {
        gpu.restart(Order::Forward, false)?;
        let work = entry.work(&mut gpu);
        let name = format!("`{}`, {}", work.launch.kernel, entry.sizes);
        println!("{}", row(&name, &work, &mut gpu)?);
    }
    Ok(())
}

/// A row of the table.
fn row(name: &str, work: &Work, gpu: &mut Gpu) -> Result<String, String> {
    let bound = H200.least(&work.least);
    let repeats = (0.05 / bound.seconds().max(2e-6)).clamp(5.0, 500.0) as u32;
    let seconds = work.seconds(gpu, repeats)?.ok_or("speed needs a real GPU: MESHWRIGHT_GPU=real")?;
    let reached = if bound.arithmetic > bound.memory {
        format!("{:.0} TFLOP/s", work.least.flops as f64 / seconds / 1e12)
    } else {
        format!("{:.2} TB/s", work.least.bytes() as f64 / seconds / 1e12)
    };
    Ok(format!("| {name} | {:.1} µs | {reached} | {:.2} |", seconds * 1e6, bound.seconds() / seconds))
}
