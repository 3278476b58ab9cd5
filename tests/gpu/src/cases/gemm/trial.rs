//! One product on the device, compared with sums in f64; what lies beside the result must stay.

use crate::cases::operands::{NULL, Outcome, Stored, Tensor, run};
use crate::compare::{Random, close};
use crate::launch::gemm::{self, Element, Factor, Plan, Product, TILES, is_aligned};
use crate::{Argument, Buffer, Gpu};

/// A product to try. Everything not said is as plain as can be.
#[derive(Clone, Copy)]
pub struct Trial {
    pub size: (usize, usize, usize),
    pub transposed: [bool; 2],
    pub types: [Stored; 3],
    pub add: bool,
    pub bias: bool,
    /// Batches, and matrices of each. Batches are interleaved in memory.
    pub batches: [usize; 2],
    /// Columns before and behind each matrix, a multiple of `grain`.
    pub margin: [usize; 2],
    /// Strides are rounded up to a multiple of it.
    pub grain: usize,
    pub tile: Option<usize>,
    pub parts: u32,
}

pub const PLAIN: Trial = Trial {
    size: (1, 1, 1),
    transposed: [false, true],
    types: [Stored::Bf16; 3],
    add: false,
    bias: false,
    batches: [1, 1],
    margin: [0, 0],
    grain: 1,
    tile: None,
    parts: 1,
};

impl Trial {
    fn matrices(&self) -> usize {
        self.batches[0] * self.batches[1]
    }
}

pub const fn element(stored: Stored) -> Element {
    match stored {
        Stored::F32 => Element::F32,
        Stored::Bf16 => Element::Bf16,
    }
}

/// Batches of matrices with margins.
struct Matrix {
    tensor: Tensor,
    stored: Stored,
    columns: usize,
    stride: usize,
    first: usize,
    step: usize,
}

impl Matrix {
    fn new(gpu: &mut Gpu, random: &mut Random, trial: &Trial, stored: Stored, size: (usize, usize)) -> Self {
        let (rows, columns) = size;
        let stride = (trial.margin[0] + columns + trial.margin[1]).next_multiple_of(trial.grain);
        let step = rows * stride;
        let tensor = stored.random(gpu, random, trial.matrices() * step, 1.0);
        Self { tensor, stored, columns, stride, first: trial.margin[0], step }
    }

    fn at(&self, matrix: usize, row: usize, column: usize) -> f64 {
        self.tensor.values[matrix * self.step + row * self.stride + self.first + column]
    }

    fn argument(&self) -> Argument {
        Argument::Part(self.tensor.buffer, self.first as u64 * self.stored.bytes())
    }

    fn factor(&self, transposed: bool) -> Factor {
        let address = self.first as u64 * self.stored.bytes();
        let aligned = is_aligned(address, self.stride as u64, self.step as u64);
        Factor { element: element(self.stored), transposed, aligned }
    }
}

pub fn check(gpu: &mut Gpu, trial: Trial) -> Outcome {
    let (m, n, k) = trial.size;
    let mut random = Random((m * 31 + n * 7 + k) as u64);
    let [left, right, output] = trial.types;
    let flip = |rows, columns, transposed| if transposed { (columns, rows) } else { (rows, columns) };
    let a = Matrix::new(gpu, &mut random, &trial, left, flip(m, k, trial.transposed[0]));
    let b = Matrix::new(gpu, &mut random, &trial, right, flip(k, n, trial.transposed[1]));
    let c = Matrix::new(gpu, &mut random, &trial, output, (m, n));
    let bias = left.random(gpu, &mut random, n, 4.0);
    let workspace = if trial.parts > 1 { trial.parts as usize * m * n } else { 0 };
    let product = Product {
        m: m as u32,
        n: n as u32,
        k: k as u32,
        batch: trial.batches[1] as u32,
        batches: trial.batches[0] as u32,
        left: a.factor(trial.transposed[0]),
        right: b.factor(trial.transposed[1]),
        output: element(output),
        workspace: workspace as u64,
        multiprocessors: 132,
    };
    let plan = match trial.tile {
        Some(tile) => gemm::plan_with(&product, TILES[tile], trial.parts),
        None => gemm::plan(&product),
    };
    launch(gpu, &trial, &product, &plan, [&a, &b, &c], &bias)?;

    let mut expected = c.tensor.values.clone();
    for (matrix, row, column) in places(trial.matrices(), m, n) {
        let left =
            |depth| if trial.transposed[0] { a.at(matrix, depth, row) } else { a.at(matrix, row, depth) };
        let right = |depth| {
            if trial.transposed[1] { b.at(matrix, column, depth) } else { b.at(matrix, depth, column) }
        };
        let sum: f64 = (0..k).map(|depth| left(depth) * right(depth)).sum();
        let before = if trial.add { c.at(matrix, row, column) } else { 0.0 };
        let bias = if trial.bias { bias.values[column] } else { 0.0 };
        expected[matrix * c.step + row * c.stride + c.first + column] = before + sum + bias;
    }
    let actual = output.download(gpu, c.tensor.buffer);
    for (at, value) in
        actual.iter().enumerate().filter(|(at, _)| !(0..n).contains(&(at % c.stride).wrapping_sub(c.first)))
    {
        if f64::from(*value) != expected[at] {
            return Err(format!("{:?}: element {at} beside the result was written", trial.size));
        }
    }
    let inside = |values: &mut dyn Iterator<Item = f64>| {
        let inside = |at: usize| (0..c.columns).contains(&(at % c.stride).wrapping_sub(c.first));
        values.enumerate().filter(|&(at, _)| inside(at)).map(|(_, value)| value).collect::<Vec<_>>()
    };
    let actual: Vec<f32> =
        inside(&mut actual.into_iter().map(f64::from)).into_iter().map(|value| value as f32).collect();
    let expected = inside(&mut expected.into_iter());
    let what = format!("{:?} of {:?}, options {:?}", trial.size, trial.types, plan.source.options);
    close(&what, &actual, &expected, n, output.tolerance())
}

fn places(matrices: usize, m: usize, n: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..matrices * m * n).map(move |at| (at / (m * n), at / n % m, at % n))
}

fn launch(
    gpu: &mut Gpu,
    trial: &Trial,
    product: &Product,
    plan: &Plan,
    [a, b, c]: [&Matrix; 3],
    bias: &Tensor,
) -> Outcome {
    let (m, n, k) = trial.size;
    let split = plan.parts > 1;
    let bias = if trial.bias { bias.argument() } else { NULL };
    let parts: Option<Buffer> = split.then(|| gpu.uninitialised::<f32>(product.workspace as usize));
    // A part of the depth is a product of its own.
    let step = |matrix: &Matrix, along: bool| match (split, along) {
        (false, _) => matrix.step * trial.batches[0],
        (true, true) => plan.split_depth as usize,
        (true, false) => plan.split_depth as usize * matrix.stride,
    };
    let steps = [step(a, !trial.transposed[0]), step(b, trial.transposed[1])];
    let (out, out_stride, out_step) = match parts {
        Some(parts) => (Argument::Buffer(parts), n, m * n),
        None => (c.argument(), c.stride, c.step * trial.batches[0]),
    };
    let mut arguments = vec![a.argument(), b.argument(), out, if split { NULL } else { bias }];
    arguments.extend([m, n, k].map(|size| Argument::U32(size as u32)));
    let outer = [a.step, b.step, c.step];
    let strides = [a.stride, b.stride, out_stride, steps[0], steps[1], out_step].into_iter().chain(outer);
    arguments.extend(strides.map(|stride| Argument::U64(stride as u64)));
    if plan.launch.kernel == "gemm" {
        arguments.push(Argument::U32(plan.split_depth));
    }
    arguments.push(Argument::U32((trial.add && !split).into()));
    run(gpu, &plan.source, &plan.launch, &arguments)?;
    let Some(parts) = parts else { return Ok(()) };
    let (source, launch) = gemm::split_sum(m as u32, n as u32, product.output);
    let arguments = [
        Argument::Buffer(parts),
        c.argument(),
        bias,
        Argument::U32(plan.parts),
        Argument::U32(m as u32),
        Argument::U32(n as u32),
        Argument::U64(c.stride as u64),
        Argument::U32(trial.add.into()),
    ];
    run(gpu, &source, &launch, &arguments)
}
