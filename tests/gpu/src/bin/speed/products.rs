//! Products of linear layers: forward, input gradient and weight gradient.

use gpu::launch::gemm::{self, Element, Factor, Product, TILES};
use gpu::{Argument, Gpu};

use super::{BF16_RATE, Make, NULL, Timed, random, random_f32};

/// Rows, outputs and inputs: GPT-2 124M and Llama 3.1 8B.
const SHAPES: [(u32, u32, u32); 6] = [
    (16_384, 2304, 768),
    (16_384, 50_304, 768),
    (8192, 6144, 4096),
    (8192, 4096, 14_336),
    (8192, 28_672, 4096),
    (8192, 8192, 8192),
];

#[derive(Clone, Copy)]
enum Pass {
    Forward,
    InputGradient,
    WeightGradient,
}

impl Pass {
    fn name(self) -> &'static str {
        match self {
            Self::Forward => "x · Wᵀ",
            Self::InputGradient => "dy · W",
            Self::WeightGradient => "dyᵀ · x",
        }
    }
}

pub fn all() -> Vec<Make> {
    let passes = [Pass::Forward, Pass::InputGradient, Pass::WeightGradient];
    let one = |shape: (u32, u32, u32), pass: Pass, tile: Option<usize>| {
        let (rows, outputs, inputs) = shape;
        let of = tile.map_or(String::new(), |tile| format!(", tile {} × {}", TILES[tile].m, TILES[tile].n));
        let name = format!("{}, {rows} × {inputs} × {outputs}{of}", pass.name());
        Make::new(name, move |gpu| product(gpu, shape, pass, tile))
    };
    let planned = SHAPES.iter().flat_map(|&shape| passes.map(|pass| one(shape, pass, None)));
    // The tiles one by one: what the plan expects of them is measured so.
    let large = [(8192, 8192, 8192), (16_384, 2304, 768)];
    let tiles = (0..TILES.len()).flat_map(|tile| large.map(|shape| one(shape, Pass::Forward, Some(tile))));
    planned.chain(tiles).collect()
}

fn product(
    gpu: &mut Gpu,
    (rows, outputs, inputs): (u32, u32, u32),
    pass: Pass,
    tile: Option<usize>,
) -> Timed {
    let factor = |transposed| Factor { element: Element::Bf16, transposed, aligned: true };
    let ([m, n, k], [left, right], output) = match pass {
        Pass::Forward => ([rows, outputs, inputs], [false, true], Element::Bf16),
        Pass::InputGradient => ([rows, inputs, outputs], [false, false], Element::Bf16),
        Pass::WeightGradient => ([outputs, inputs, rows], [true, false], Element::F32),
    };
    let product = Product {
        m,
        n,
        k,
        batch: 1,
        left: factor(left),
        right: factor(right),
        output,
        workspace: 0,
        multiprocessors: 132,
    };
    let plan = match tile {
        Some(tile) => gemm::plan_with(&product, TILES[tile], 1),
        None => gemm::plan(&product),
    };
    let [m_, n_, k_] = [m, n, k].map(|size| size as usize);
    let (a, b) = (random(gpu, m_ * k_), random(gpu, k_ * n_));
    let (c, bytes_of_c) = match output {
        Element::Bf16 => (random(gpu, m_ * n_), 2),
        Element::F32 => (random_f32(gpu, m_ * n_), 4),
    };
    let strides = [if left { m } else { k }, if right { k } else { n }, n, 0, 0, 0];
    let mut arguments = [a, b, c].map(Argument::Buffer).to_vec();
    arguments.push(NULL);
    arguments.extend([m, n, k].map(Argument::U32));
    arguments.extend(strides.map(|stride| Argument::U64(stride.into())));
    arguments.extend([Argument::U32(plan.split_depth), Argument::U32(0)]);
    Timed {
        source: plan.source,
        launch: plan.launch,
        arguments,
        flops: 2.0 * f64::from(m) * f64::from(n) * f64::from(k),
        rate: BF16_RATE,
        bytes: (2 * (m_ * k_ + k_ * n_) + bytes_of_c * m_ * n_) as f64,
    }
}
