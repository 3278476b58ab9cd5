//! Bugs that were planted: the runner must find each, and must find nothing once it is repaired (`-DFIXED`).

use gpu::compare::{Random, close_f32};
use gpu::run::{ORDERS, compare_orders};
use gpu::{Argument, Gpu, Launch, Order};

const COUNT: usize = 128;

/// How the kernel's buffers are passed.
#[derive(Clone, Copy, PartialEq)]
enum Passing {
    Apart,
    /// The input is the second part of a buffer.
    Part,
    /// The output is the input.
    Same,
}

fn work(gpu: &mut Gpu, name: &str, source: &str, options: &[&str], plant: &Plant) -> Result<(), String> {
    let module = gpu.load_text(name, source, options)?;
    let values = Random(3).values(COUNT);
    let expected = (plant.reference)(&values);
    let input = match plant.passing {
        Passing::Part => {
            let padded: Vec<f32> = std::iter::repeat_n(9.0, 16).chain(values).collect();
            Argument::Part(gpu.upload(&padded), 64)
        }
        _ => Argument::Buffer(gpu.upload(&values)),
    };
    let output = match input {
        Argument::Buffer(buffer) if plant.passing == Passing::Same => buffer,
        _ => gpu.uninitialised::<f32>(expected.len()),
    };
    let launch = Launch { kernel: "planted", grid: [2, 1, 1], block: [64, 1, 1], shared_bytes: 0 };
    gpu.launch(module, &launch, &[input, Argument::Buffer(output), Argument::I32(COUNT as i32)])?;
    close_f32("output", &gpu.download::<f32>(output), &expected, expected.len())
}

struct Plant {
    passing: Passing,
    reference: fn(&[f32]) -> Vec<f64>,
    /// What the message must say.
    words: &'static [&'static str],
}

fn plant(name: &str, source: &str, plant: &Plant) {
    let mut gpu = Gpu::emulated(Order::Forward, true);
    let run = |gpu: &mut Gpu, options: &[&str]| {
        compare_orders(gpu, &ORDERS, |gpu| work(gpu, name, source, options, plant))
    };
    assert_eq!(run(&mut gpu, &["-DSTORAGE_F32", "-DFIXED"]), Ok(()), "{name}, repaired");
    let text = run(&mut gpu, &["-DSTORAGE_F32"]).expect_err(name);
    for words in plant.words {
        assert!(text.contains(words), "{name}: `{words}` isn't in: {text}");
    }
}

fn sums(values: &[f32]) -> Vec<f64> {
    values.chunks(64).map(|block| block.iter().map(|&value| f64::from(value)).sum()).collect()
}

fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

macro_rules! planted {
    ($($name:ident, $passing:ident, $reference:expr, $words:expr;)*) => {$(
        #[test]
        fn $name() {
            let source = include_str!(concat!("../planted/", stringify!($name), ".cu"));
            let reference: fn(&[f32]) -> Vec<f64> = $reference;
            plant(stringify!($name), source, &Plant { passing: Passing::$passing, reference, words: &$words });
        }
    )*};
}

planted! {
    unwritten_output, Apart, doubles, ["byte 308", "never written"];
    missing_barrier, Apart, sums, ["race: reads byte", "of shared memory", "writes at PTX line", "kernel planted, block"];
    half_a_word, Apart, |values| values.iter().map(|&value| f64::from(2.0 * value)).collect(),
        ["race: writes byte", "st.shared.u16", "of shared memory", "ld.volatile.shared.u32"];
    trailing_barrier, Apart, |values| {
        let first = |block: &[f32]| doubles(&block[..4]).iter().sum::<f64>();
        values.chunks(64).flat_map(|block| [first(block); 64]).collect()
    }, ["race: writes byte 4 of shared memory", "reads at PTX line"];
    past_the_end, Apart, |values| {
        let values = doubles(values);
        (0..COUNT).map(|at| values[at] + values.get(at + 1).unwrap_or(&0.0)).collect()
    }, ["block [1, 0, 0], thread [63, 0, 0]", "reads bytes 512..516 of argument 0, out of bounds"];
    before_the_part, Part, |values| {
        let values = doubles(values);
        (0..COUNT).map(|at| values[at] + if at > 0 { values[at - 1] } else { 0.0 }).collect()
    }, ["thread [0, 0, 0]", "reads bytes 60..64 of argument 0, out of bounds"];
    misaligned, Apart, doubles, ["writes bytes 4..20 of argument 1, misaligned"];
    unwritten_slot, Apart, |values| values.chunks(64).flat_map(|block| doubles(block).into_iter().rev()).collect(),
        ["thread [46, 0, 0]", "reads byte 72 of shared memory, which is uninitialised"];
    short_wait, Apart, |values| doubles(values).iter().map(|value| 2.0 * value).collect(),
        ["of shared memory, which is in flight", "ld.shared"];
    plain_beside_atomic, Apart, |values| {
        values.chunks(64).map(|block| block.iter().filter(|&&value| value > 0.0).count() as f64).collect()
    }, ["race: updates byte 4 of shared memory", "writes at PTX line"];
    divergent_barrier, Apart, doubles, ["divergent barrier", "32 threads", "bar.sync", "32 threads have ended"];
    partial_shuffle, Apart, |values| (0..COUNT).map(|at| f64::from(values[at ^ 1])).collect(),
        ["wait for the lanes of mask 0xffffffff", "32 threads have ended"];
    order_dependent, Apart, sums, ["orders Forward and Reversed give different results"];
    between_blocks, Apart, doubles, ["race: writes byte", "of argument 1, which block [0, 0, 0], thread"];
    changed_constant, Same, |values| doubles(values).iter().map(|value| 2.0 * value).collect(),
        ["reads it as unchanging (ld.global.nc)"];
    wrong_fragment, Apart, |values| {
        doubles(values).iter().map(|&value| f64::from(gpu::compare::from_bf16(gpu::compare::to_bf16(value as f32)))).collect()
    }, ["output: relative L2 error"];
    over_aligned, Apart, doubles, ["of shared memory, misaligned: the address must be a multiple of 16"];
    wrong_space, Apart, doubles, ["reads bytes of shared memory as if they were global memory"];
    block_scope, Apart, doubles, ["PTX line", "other blocks need not see isn't known to the translator"];
    unknown_instruction, Apart, doubles, ["PTX line", "nanosleep.u32", "isn't known to the translator"];
}

/// The blocks of a launch that failed are none of the next launch's: what they did to the same memory is over.
#[test]
fn a_launch_after_one_that_failed_is_judged_by_itself() {
    let mut gpu = Gpu::emulated(Order::Forward, true);
    let source = include_str!("../planted/past_the_end.cu");
    let broken = gpu.load_text("past_the_end", source, &["-DSTORAGE_F32"]).unwrap();
    let fixed = gpu.load_text("past_the_end", source, &["-DSTORAGE_F32", "-DFIXED"]).unwrap();
    let input = gpu.upload(&Random(3).values(COUNT));
    let output = gpu.uninitialised::<f32>(COUNT);
    let launch = Launch { kernel: "planted", grid: [2, 1, 1], block: [64, 1, 1], shared_bytes: 0 };
    let arguments = [Argument::Buffer(input), Argument::Buffer(output), Argument::I32(COUNT as i32)];
    assert!(gpu.launch(broken, &launch, &arguments).is_err());
    // The first block now has the elements of the second one before.
    let behind = [Argument::Part(input, 256), Argument::Part(output, 256), Argument::I32(64)];
    assert_eq!(gpu.launch(fixed, &Launch { grid: [1, 1, 1], ..launch }, &behind), Ok(()));
}
