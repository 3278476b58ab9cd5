//! The instructions of a whole warp against the tables of the PTX manual, which stand here as data: `mma`,
//! `ldmatrix`, asynchronous copies, the packing of bf16, shuffles and votes.

mod layouts;

use super::Case;
use crate::compare::{Random, equal, to_bf16};
use crate::{Argument, Fault, Gpu, Launch, Module};
use layouts::{BF16_A, BF16_B, Layout, MATRIX, SUMS, TF32_A, TF32_B};

pub const CASES: &[Case] = &[
    Case { name: "mma of bf16", run: bf16 },
    Case { name: "mma of tf32", run: tf32 },
    Case { name: "ldmatrix", run: matrices },
    Case { name: "asynchronous copies", run: copies },
    Case { name: "packing of bf16", run: packing },
    Case { name: "shuffles and votes", run: exchanges },
];

fn module(gpu: &mut Gpu) -> Result<Module, Fault> {
    gpu.load_text("primitives.cu", include_str!("../../primitives/primitives.cu"), &["-DSTORAGE_BF16"])
}

fn warp(kernel: &'static str) -> Launch {
    Launch { kernel, grid: [1; 3], block: [32, 1, 1], shared_bytes: 0 }
}

/// Small whole numbers, which every format holds and whose sums are exact in any order.
fn whole(random: &mut Random, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.below(17) as f32 - 8.0).collect()
}

/// A matrix spread over lanes and elements.
fn spread(matrix: &[f32], layout: &Layout) -> Vec<f32> {
    let mut spread = vec![f32::NAN; matrix.len()];
    for (at, &value) in matrix.iter().enumerate() {
        let (lane, element) = layout.place(at / layout.columns, at % layout.columns);
        spread[lane * layout.per_lane() + element] = value;
    }
    spread
}

fn pairs(values: &[f32]) -> Vec<u32> {
    values.chunks(2).map(|pair| u32::from(to_bf16(pair[0])) | u32::from(to_bf16(pair[1])) << 16).collect()
}

fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn multiply(
    gpu: &mut Gpu,
    kernel: &'static str,
    [of_a, of_b]: [&Layout; 2],
    registers: fn(&[f32]) -> Vec<u32>,
) -> Result<(), String> {
    let depth = of_b.rows;
    let mut random = Random(depth as u64);
    let module = module(gpu)?;
    for _ in 0..4 {
        let (a, b) = (whole(&mut random, 16 * depth), whole(&mut random, depth * 8));
        let c = whole(&mut random, 16 * 8);
        let result = gpu.uninitialised::<f32>(128);
        let arguments = [
            Argument::Buffer(gpu.upload(&registers(&spread(&a, of_a)))),
            Argument::Buffer(gpu.upload(&registers(&spread(&b, of_b)))),
            Argument::Buffer(gpu.upload(&spread(&c, &SUMS))),
            Argument::Buffer(result),
        ];
        gpu.launch(module, &warp(kernel), &arguments)?;
        let product: Vec<f32> = (0..16 * 8)
            .map(|at| {
                let (row, column) = (at / 8, at % 8);
                c[at] + (0..depth).map(|k| a[row * depth + k] * b[k * 8 + column]).sum::<f32>()
            })
            .collect();
        equal(kernel, &gpu.download::<f32>(result), &spread(&product, &SUMS))?;
    }
    Ok(())
}

fn bf16(gpu: &mut Gpu) -> Result<(), String> {
    multiply(gpu, "multiply_bf16", [&BF16_A, &BF16_B], pairs)
}

fn tf32(gpu: &mut Gpu) -> Result<(), String> {
    multiply(gpu, "multiply_tf32", [&TF32_A, &TF32_B], words)
}

/// Matrix i has its rows where lanes 8 i .. 8 i + 8 point; here they point to a shuffled order.
fn matrices(gpu: &mut Gpu) -> Result<(), String> {
    let module = module(gpu)?;
    let memory: Vec<u16> = (0..64 * 8).map(|index| index * 7 + 3).collect();
    let rows: Vec<u32> = (0..32).map(|lane| lane * 37 % 64).collect();
    for (count, transposed) in [(1, 0), (1, 1), (2, 0), (2, 1), (4, 0), (4, 1)] {
        let (from, which) = (gpu.upload(&memory), gpu.upload(&rows));
        let result = gpu.uninitialised::<u32>(128);
        let arguments = [
            Argument::Buffer(from),
            Argument::Buffer(which),
            Argument::Buffer(result),
            Argument::I32(count),
            Argument::I32(transposed),
        ];
        gpu.launch(module, &warp("load_matrix"), &arguments)?;
        let mut expected = vec![0u32; 128];
        for matrix in 0..count as usize {
            for (row, column) in (0..64).map(|at| (at / 8, at % 8)) {
                let (lane, half) = MATRIX.place(row, column);
                let (row, column) = if transposed == 1 { (column, row) } else { (row, column) };
                let element = memory[rows[8 * matrix + row] as usize * 8 + column];
                expected[4 * lane + matrix] |= u32::from(element) << (16 * half);
            }
        }
        let what = format!("ldmatrix of {count}, transposed {transposed}");
        equal(&what, &gpu.download::<u32>(result), &expected)?;
    }
    Ok(())
}

fn copies(gpu: &mut Gpu) -> Result<(), String> {
    let module = module(gpu)?;
    let from: Vec<u8> = (0..4 * 512u32).map(|index| (index % 251) as u8 + 1).collect();
    for bytes in [16u32, 6, 0] {
        let (source, target) = (gpu.upload(&from), gpu.uninitialised::<u8>(from.len()));
        let arguments = [Argument::Buffer(source), Argument::Buffer(target), Argument::U32(bytes)];
        gpu.launch(module, &warp("copy_groups"), &arguments)?;
        let mut expected = from.clone();
        for piece in expected[3 * 512..].chunks_mut(16) {
            piece[bytes as usize..].fill(0);
        }
        equal("copies", &gpu.download::<u8>(target), &expected)?;
    }
    Ok(())
}

/// Numbers between two bf16 values, ties of both kinds, the ends of the range.
fn packing(gpu: &mut Gpu) -> Result<(), String> {
    let module = module(gpu)?;
    let ends =
        [0x3f80_8000u32, 0x3f81_8000, 0x3f80_8001, 0x3f80_7fff, 0x7f7f_ffff, 0x7f80_0000, 0x8000_0000, 1];
    let mut random = Random(5);
    let mut low: Vec<f32> = ends.into_iter().map(f32::from_bits).collect();
    low.extend(random.values(60));
    let high: Vec<f32> = low.iter().rev().map(|value| -value).collect();
    let packed = gpu.uninitialised::<u32>(low.len());
    let arguments = [
        Argument::Buffer(gpu.upload(&low)),
        Argument::Buffer(gpu.upload(&high)),
        Argument::Buffer(packed),
        Argument::I32(low.len() as i32),
    ];
    gpu.launch(module, &warp("pack"), &arguments)?;
    let expected: Vec<u32> = low
        .iter()
        .zip(&high)
        .map(|(&low, &high)| u32::from(to_bf16(low)) | u32::from(to_bf16(high)) << 16)
        .collect();
    equal("packed", &gpu.download::<u32>(packed), &expected)
}

fn exchanges(gpu: &mut Gpu) -> Result<(), String> {
    let module = module(gpu)?;
    let values: Vec<u32> = (0..32).map(|lane| lane * 5 % 37).collect();
    for distance in [1usize, 3, 5] {
        let result = gpu.uninitialised::<u32>(7 * 32);
        let arguments =
            [Argument::Buffer(gpu.upload(&values)), Argument::Buffer(result), Argument::U32(distance as u32)];
        gpu.launch(module, &warp("exchange"), &arguments)?;
        let of =
            |source: &dyn Fn(usize) -> usize| (0..32).map(|lane| values[source(lane)]).collect::<Vec<_>>();
        let mut expected = of(&|lane| lane ^ distance);
        expected.extend(of(&|lane| if lane + distance < 32 { lane + distance } else { lane }));
        expected.extend(of(&|lane| if lane >= distance { lane - distance } else { lane }));
        expected.extend(of(&|lane| lane / 8 * 8 + distance % 8));
        let ballot = (0..32).fold(0, |ballot, lane| ballot | (values[lane] & 1) << lane);
        let any = u32::from(values.contains(&7));
        expected.extend([ballot; 32].into_iter().chain([values.iter().sum(); 32]).chain([any + 2; 32]));
        equal("exchange", &gpu.download::<u32>(result), &expected)?;
    }
    Ok(())
}
