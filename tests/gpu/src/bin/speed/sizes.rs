//! Products and attention at the sizes of GPT-2 124M and Llama 3.1 8B, beside the one launch of every kernel.

use gpu::launch::gemm::{Element, TILES, Tile};
use gpu::roofline::Entry;
use gpu::roofline::attention::{self, KERNELS, Shape};
use gpu::roofline::gemm::{self, Layer, Pass};

/// Rows, outputs and inputs.
const LAYERS: [[u32; 3]; 6] = [
    [16_384, 2304, 768],
    [16_384, 50_304, 768],
    [8192, 6144, 4096],
    [8192, 4096, 14_336],
    [8192, 28_672, 4096],
    [8192, 8192, 8192],
];

/// Sequences, tokens, heads, key-value heads, elements of a head.
const SHAPES: [[u32; 5]; 3] = [[16, 1024, 12, 12, 64], [8, 2048, 32, 8, 128], [2, 8192, 32, 8, 128]];

pub fn all() -> Vec<(&'static str, Vec<Entry>)> {
    vec![("gemm", planned()), ("gemm", tiles()), ("attention", attentions())]
}

fn layer([rows, outputs, inputs]: [u32; 3]) -> Layer {
    Layer { rows, outputs, inputs }
}

fn planned() -> Vec<Entry> {
    let passes =
        [(Pass::Forward, "x · Wᵀ"), (Pass::InputGradient, "dy · W"), (Pass::WeightGradient, "dyᵀ · x")];
    let one = |layer: Layer, (pass, name): (Pass, &str)| {
        Entry::new(format!("{name}, {}", layer.sizes()), move |gpu| gemm::product(gpu, layer, pass, None))
    };
    LAYERS.map(layer).into_iter().flat_map(|layer| passes.map(|pass| one(layer, pass))).collect()
}

/// The tiles one by one: what the plan expects of them is measured so.
fn tiles() -> Vec<Entry> {
    let large = [[8192, 8192, 8192], [16_384, 2304, 768]].map(layer);
    let of_tile = |tile: Tile| {
        large.map(|layer| {
            let sizes = format!("{}, tile {} × {}", layer.sizes(), tile.m, tile.n);
            Entry::new(sizes, move |gpu| gemm::product(gpu, layer, Pass::Forward, Some(tile)))
        })
    };
    TILES.into_iter().flat_map(of_tile).collect()
}

fn attentions() -> Vec<Entry> {
    let shapes = SHAPES.into_iter().flat_map(|sizes| [true, false].map(|causal| Shape::new(sizes, causal)));
    let one = |shape: Shape| {
        KERNELS.map(|kernel| {
            Entry::new(shape.sizes(), move |gpu| attention::work(gpu, shape, kernel, Element::Bf16))
        })
    };
    shapes.flat_map(one).collect()
}
