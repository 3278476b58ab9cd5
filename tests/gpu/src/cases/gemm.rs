//! Products of matrices and gradients of biases against sums in f64.

mod trial;

use self::trial::{PLAIN, Trial, check, element};
use super::operands::{Outcome, Stored, run};
use crate::compare::Random;
use crate::launch::gemm::{self, Element, Factor, Plan, Product, TILES};
use crate::{Argument, Case, Gpu};

pub const CASES: &[Case] = &[
    Case { name: "one tensor core tile", run: one_tile },
    Case { name: "bands of tiles", run: bands },
    Case { name: "forward", run: forward },
    Case { name: "input gradient", run: input_gradient },
    Case { name: "weight gradient", run: weight_gradient },
    Case { name: "both transposed", run: both_transposed },
    Case { name: "windows of wider matrices", run: windows },
    Case { name: "batches", run: batches },
    Case { name: "splits of the depth", run: splits },
    Case { name: "f32", run: single_precision },
    Case { name: "factors of different types", run: mixed },
    Case { name: "bias gradient", run: bias_gradient },
    Case { name: "plans", run: plans },
];

/// m, n and k: one row, what no tile divides, a depth of less than a chunk, more than one tile each way.
const SIZES: [(usize, usize, usize); 6] =
    [(1, 1, 1), (1, 72, 40), (40, 8, 24), (65, 33, 97), (130, 264, 8), (200, 136, 200)];

/// The layouts of fragments alone: one tile, no edges.
fn one_tile(gpu: &mut Gpu) -> Outcome {
    for transposed in [[false, false], [false, true], [true, false], [true, true]] {
        check(gpu, Trial { size: (64, 64, 64), transposed, tile: Some(2), ..PLAIN })?;
    }
    Ok(())
}

/// More rows of tiles than blocks walk down before they go to the right: whole bands, and one that is cut off.
fn bands(gpu: &mut Gpu) -> Outcome {
    for (m, n) in [(64 * 8, 130), (64 * 9 + 1, 130), (64 * 17, 65)] {
        check(gpu, Trial { size: (m, n, 8), tile: Some(2), ..PLAIN })?;
    }
    Ok(())
}

/// All sizes, lines that are aligned and lines that are not, with every tile.
fn all_sizes(gpu: &mut Gpu, transposed: [bool; 2], output: Stored, add: bool, bias: bool) -> Outcome {
    for (turn, size) in SIZES.into_iter().enumerate() {
        for grain in [1, 8] {
            let tile = Some(turn % TILES.len());
            let types = [Stored::Bf16, Stored::Bf16, output];
            check(gpu, Trial { size, transposed, types, add, bias, grain, tile, ..PLAIN })?;
        }
    }
    Ok(())
}

fn forward(gpu: &mut Gpu) -> Outcome {
    all_sizes(gpu, [false, true], Stored::Bf16, false, true)?;
    all_sizes(gpu, [false, true], Stored::F32, true, true)
}

fn input_gradient(gpu: &mut Gpu) -> Outcome {
    all_sizes(gpu, [false, false], Stored::Bf16, true, false)
}

fn weight_gradient(gpu: &mut Gpu) -> Outcome {
    all_sizes(gpu, [true, false], Stored::F32, true, false)?;
    all_sizes(gpu, [true, false], Stored::Bf16, false, false)
}

fn both_transposed(gpu: &mut Gpu) -> Outcome {
    all_sizes(gpu, [true, true], Stored::F32, false, false)
}

fn windows(gpu: &mut Gpu) -> Outcome {
    for margin in [[8, 16], [3, 2], [16, 1]] {
        for (transposed, output) in
            [([false, true], Stored::Bf16), ([false, false], Stored::Bf16), ([true, false], Stored::F32)]
        {
            let types = [Stored::Bf16, Stored::Bf16, output];
            check(gpu, Trial { size: (70, 136, 72), transposed, types, margin, add: true, ..PLAIN })?;
        }
    }
    check(gpu, Trial { size: (70, 66, 20), types: [Stored::F32; 3], margin: [3, 2], add: true, ..PLAIN })
}

fn batches(gpu: &mut Gpu) -> Outcome {
    for (grain, transposed, batches) in
        [(1, [false, true], [1, 3]), (8, [false, false], [2, 3]), (8, [true, false], [3, 1])]
    {
        check(gpu, Trial { size: (33, 72, 41), transposed, batches, grain, ..PLAIN })?;
        let types = [Stored::F32; 3];
        check(gpu, Trial { size: (33, 72, 41), transposed, types, batches, grain, ..PLAIN })?;
    }
    Ok(())
}

fn splits(gpu: &mut Gpu) -> Outcome {
    for (tile, transposed) in [(0, [false, true]), (1, [true, false]), (2, [false, false])] {
        for (output, parts, k) in [(Stored::Bf16, 3, 200), (Stored::F32, 2, 129)] {
            let types = [Stored::Bf16, Stored::Bf16, output];
            let (add, bias) = (parts == 2, parts == 3);
            let trial = Trial { size: (70, 66, k), transposed, types, tile: Some(tile), parts, ..PLAIN };
            check(gpu, Trial { add, bias, ..trial })?;
        }
    }
    Ok(())
}

fn single_precision(gpu: &mut Gpu) -> Outcome {
    for transposed in [[false, true], [false, false], [true, false], [true, true]] {
        for size in SIZES {
            let types = [Stored::F32; 3];
            check(gpu, Trial { size, transposed, types, add: transposed[0], bias: transposed[1], ..PLAIN })?;
        }
    }
    // The large tile.
    check(gpu, Trial { size: (130, 140, 20), types: [Stored::F32; 3], batches: [1, 40], ..PLAIN })
}

fn mixed(gpu: &mut Gpu) -> Outcome {
    let (wide, narrow) = (Stored::F32, Stored::Bf16);
    // A router: logits in f32 of tokens in bf16, and the way back.
    check(gpu, Trial { size: (37, 9, 48), types: [narrow, narrow, wide], ..PLAIN })?;
    let types = [wide, narrow, narrow];
    check(gpu, Trial { size: (37, 48, 9), transposed: [false, false], types, add: true, ..PLAIN })?;
    let types = [wide, narrow, wide];
    check(gpu, Trial { size: (9, 48, 37), transposed: [true, false], types, add: true, ..PLAIN })
}

fn bias_gradient(gpu: &mut Gpu) -> Outcome {
    let mut random = Random(5);
    for (storage, output) in
        [(Stored::F32, Stored::F32), (Stored::Bf16, Stored::Bf16), (Stored::Bf16, Stored::F32)]
    {
        for (rows, columns, stride, first) in
            [(1, 1, 1, 0), (5, 16, 16, 0), (200, 37, 50, 9), (64, 100, 100, 0), (1700, 24, 32, 8)]
        {
            for add in [false, true] {
                let gradient = storage.random(gpu, &mut random, rows * stride, 1.0);
                let before = output.random(gpu, &mut random, columns, 1.0);
                let (source, launch) = gemm::bias_gradient(columns as u32, element(storage), element(output));
                let arguments = [
                    Argument::Part(gradient.buffer, first as u64 * storage.bytes()),
                    before.argument(),
                    Argument::U32(rows as u32),
                    Argument::U32(columns as u32),
                    Argument::U64(stride as u64),
                    Argument::U32(add.into()),
                ];
                run(gpu, &source, &launch, &arguments)?;
                let sum =
                    |column| (0..rows).map(|row| gradient.values[row * stride + first + column]).sum::<f64>();
                let expected: Vec<f64> = (0..columns)
                    .map(|column| sum(column) + if add { before.values[column] } else { 0.0 })
                    .collect();
                output.close(gpu, &format!("{rows} x {columns}"), before.buffer, &expected, columns)?;
            }
        }
    }
    Ok(())
}

/// Large products take large tiles, and few tiles of great depth are split.
fn plans(gpu: &mut Gpu) -> Outcome {
    let factor = Factor { element: Element::Bf16, transposed: false, aligned: true };
    let of = |m, n, k, workspace| {
        let (left, right, output) = (factor, factor, Element::F32);
        let product =
            Product { m, n, k, batch: 1, batches: 1, left, right, output, workspace, multiprocessors: 132 };
        gemm::plan(&product)
    };
    let threads = |plan: &Plan| plan.launch.block[0];
    // The tile that was fastest on an H200.
    crate::compare::equal("threads of a large product", &[threads(&of(8192, 8192, 4096, 0))], &[128])?;
    let narrow = of(768, 768, 32768, 768 * 768 * 16);
    if narrow.parts < 2 || narrow.split_depth * (narrow.parts - 1) >= 32768 {
        return Err(format!("{} parts of {} for a narrow product", narrow.parts, narrow.split_depth));
    }
    crate::compare::equal("parts without a workspace", &[of(768, 768, 32768, 0).parts], &[1])?;
    let parts = of(33, 40, 1100, 2 * 33 * 40).parts;
    crate::compare::equal("parts of a small product", &[parts], &[2])?;
    check(gpu, Trial { size: (33, 40, 1100), transposed: [false, false], parts, ..PLAIN })
}
