//! Products of linear layers and what goes with them.

use super::card::Unit;
use super::operands::{NULL, Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::gemm::{self, Element, Factor, Plan, Product, TILES, Tile};
use crate::{Argument, Gpu};

/// Parts of a product whose depth is split.
const PARTS: u32 = 4;

/// What a linear layer multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Forward,
    InputGradient,
    WeightGradient,
}

/// A linear layer.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    pub rows: u32,
    pub outputs: u32,
    pub inputs: u32,
}

impl Layer {
    const fn square(size: u32) -> Self {
        Self { rows: size, outputs: size, inputs: size }
    }

    pub fn sizes(&self) -> String {
        format!("{} × {} × {}", self.rows, self.inputs, self.outputs)
    }
}

pub fn entries(size: Size) -> Vec<Entry> {
    let layer = Layer::square(size.of(640, 8192));
    let tile = TILES[1];
    let without = Layer::square(size.of(256, 4096));
    let [rows, columns] = size.of([256, 1024], [8192, 8192]);
    vec![
        Entry::new(format!("{}, tile {} × {}", layer.sizes(), tile.m, tile.n), move |gpu| {
            product(gpu, layer, Pass::Forward, Some(tile))
        }),
        Entry::new(without.sizes(), move |gpu| product_without_tensor_cores(gpu, without)),
        Entry::new(format!("{PARTS} parts of {rows} × {columns}"), move |gpu| split_sum(gpu, rows, columns)),
        Entry::new(format!("{rows} × {columns}"), move |gpu| bias_gradient(gpu, rows, columns)),
    ]
}

/// A product in bf16, with the tile that the plan takes or with another. Gradients of weights are f32.
pub fn product(gpu: &mut Gpu, layer: Layer, pass: Pass, tile: Option<Tile>) -> Work {
    let factor = |transposed| Factor { element: Element::Bf16, transposed, aligned: true };
    let Layer { rows, outputs, inputs } = layer;
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
        batches: 1,
        left: factor(left),
        right: factor(right),
        output,
        workspace: 0,
        multiprocessors: 132,
    };
    let plan = tile.map_or_else(|| gemm::plan(&product), |tile| gemm::plan_with(&product, tile, 1));
    let mut operands = Operands::new(gpu);
    let [a, b, c] = elements(&product);
    let factors = [operands.bf16(a), operands.bf16(b)];
    let (result, bytes) = match output {
        Element::Bf16 => (operands.bf16_result(c), 2 * c),
        Element::F32 => (operands.f32_result(c), 4 * c),
    };
    let mut arguments = arguments(factors, result, &product);
    arguments.extend([Argument::U32(plan.split_depth), Argument::U32(0)]);
    let least = Least { read: 2 * (a + b), written: bytes, flops: flops(&product), unit: Unit::Tensor };
    Work { source: plan.source, launch: plan.launch, arguments, least }
}

/// The same forward in f32.
fn product_without_tensor_cores(gpu: &mut Gpu, Layer { rows, outputs, inputs }: Layer) -> Work {
    let factor = |transposed| Factor { element: Element::F32, transposed, aligned: true };
    let product = Product {
        m: rows,
        n: outputs,
        k: inputs,
        batch: 1,
        batches: 1,
        left: factor(false),
        right: factor(true),
        output: Element::F32,
        workspace: 0,
        // So few that small sizes too take the tile of large ones.
        multiprocessors: 4,
    };
    let Plan { source, launch, .. } = gemm::plan(&product);
    let mut operands = Operands::new(gpu);
    let [a, b, c] = elements(&product);
    let factors = [operands.f32(a), operands.f32(b)];
    let mut arguments = arguments(factors, operands.f32_result(c), &product);
    arguments.push(Argument::U32(0));
    let least = Least { read: 4 * (a + b), written: 4 * c, flops: flops(&product), unit: Unit::Single };
    Work { source, launch, arguments, least }
}

/// Elements of both factors and of the product.
fn elements(&Product { m, n, k, .. }: &Product) -> [u64; 3] {
    [[m, k], [k, n], [m, n]].map(|[rows, columns]| u64::from(rows) * u64::from(columns))
}

fn flops(&Product { m, n, k, .. }: &Product) -> u64 {
    2 * u64::from(m) * u64::from(n) * u64::from(k)
}

/// What both kernels take, without a bias.
fn arguments([a, b]: [Argument; 2], c: Argument, product: &Product) -> Vec<Argument> {
    let &Product { m, n, k, left, right, .. } = product;
    let strides =
        [if left.transposed { m } else { k }, if right.transposed { k } else { n }, n, 0, 0, 0, 0, 0, 0];
    let strides = strides.map(|stride| Argument::U64(stride.into()));
    [&[a, b, c, NULL][..], &sizes([m, n, k]), &strides].concat()
}

fn split_sum(gpu: &mut Gpu, rows: u32, columns: u32) -> Work {
    let (source, launch) = gemm::split_sum(rows, columns, Element::Bf16);
    let mut operands = Operands::new(gpu);
    let (count, parts) = (u64::from(rows) * u64::from(columns), u64::from(PARTS));
    let tensors = [operands.f32(parts * count), operands.bf16_result(count), operands.bf16(columns.into())];
    let stride = [Argument::U64(columns.into()), Argument::U32(0)];
    let arguments = [&tensors[..], &sizes([PARTS, rows, columns]), &stride].concat();
    let least = Least::of_bytes(4 * parts * count + 2 * u64::from(columns), 2 * count);
    Work { source, launch, arguments, least }
}

fn bias_gradient(gpu: &mut Gpu, rows: u32, columns: u32) -> Work {
    let (source, launch) = gemm::bias_gradient(columns, Element::Bf16, Element::F32);
    let mut operands = Operands::new(gpu);
    let count = u64::from(rows) * u64::from(columns);
    let tensors = [operands.bf16(count), operands.f32_result(columns.into())];
    let stride = [Argument::U64(columns.into()), Argument::U32(0)];
    let arguments = [&tensors[..], &sizes([rows, columns]), &stride].concat();
    Work { source, launch, arguments, least: Least::of_bytes(2 * count, 4 * u64::from(columns)) }
}
