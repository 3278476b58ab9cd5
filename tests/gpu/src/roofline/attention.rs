//! Attention, on tensor cores and without them.

use super::card::Unit;
use super::operands::{NULL, Operands, sizes};
use super::{Entry, Least, Size, Work};
use crate::launch::attention::{self, Attention};
use crate::launch::gemm::Element;
use crate::{Argument, Buffer, Gpu};

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    Forward,
    /// The gradient of queries.
    Queries,
    /// Those of keys and values.
    Keys,
}

pub const KERNELS: [Kernel; 3] = [Kernel::Forward, Kernel::Queries, Kernel::Keys];

/// What is attended to.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub batch: u32,
    pub tokens: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub dim: u32,
    pub causal: bool,
}

impl Shape {
    /// Of sequences, tokens, heads, key-value heads and elements of a head.
    pub fn new([batch, tokens, heads, kv_heads, dim]: [u32; 5], causal: bool) -> Self {
        Self { batch, tokens, heads, kv_heads, dim, causal }
    }

    pub fn sizes(&self) -> String {
        let Self { batch, tokens, heads, kv_heads, dim, causal } = self;
        let mask = if *causal { ", causal" } else { "" };
        format!("{batch} × {tokens}, heads {heads} of {kv_heads}, size {dim}{mask}")
    }

    /// On tensor cores in bf16, without them in f32.
    fn attention(&self, element: Element) -> Attention {
        let &Self { batch, tokens, heads, kv_heads, dim, .. } = self;
        Attention {
            element,
            query_dim: dim,
            value_dim: dim,
            batch,
            tokens,
            key_tokens: tokens,
            heads,
            kv_heads,
            soft_cap: false,
            alibi: false,
            dropout: false,
            aligned: true,
        }
    }

    /// Queries, with their heads.
    fn rows(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.tokens) * u64::from(self.heads)
    }

    /// Elements of all queries, as of outputs.
    fn of_queries(&self) -> u64 {
        self.rows() * u64::from(self.dim)
    }

    /// Elements of all keys and values.
    fn of_keys(&self) -> u64 {
        2 * u64::from(self.batch) * u64::from(self.tokens) * u64::from(self.kv_heads * self.dim)
    }

    /// Queries and keys of all heads, seen or not.
    fn pairs(&self) -> u64 {
        self.rows() * u64::from(self.tokens)
    }

    /// Of them, under a causal mask, those in runs of eight of which at least one is seen. Tokens are whole runs.
    fn read(&self) -> u64 {
        let runs = u64::from(self.tokens / 8);
        u64::from(self.batch * self.heads) * 8 * 8 * runs * (runs + 1) / 2
    }

    /// FLOPs of one product of all queries and keys that see each other: half of them under a causal mask.
    fn product(&self) -> u64 {
        let all = 2 * self.of_queries() * u64::from(self.tokens);
        if self.causal { all / 2 } else { all }
    }
}

pub fn entries(size: Size) -> Vec<Entry> {
    let usual = Shape::new(size.of([1, 1024, 2, 1, 64], [8, 2048, 32, 8, 128]), true);
    let plain = Shape::new(size.of([1, 256, 2, 1, 64], [2, 2048, 32, 8, 128]), true);
    let entry = |kernel: Kernel, shape: Shape, element: Element| {
        Entry::new(shape.sizes(), move |gpu| work(gpu, shape, kernel, element))
    };
    let mut entries: Vec<Entry> = KERNELS.map(|kernel| entry(kernel, usual, Element::Bf16)).into();
    entries.push(Entry::new(usual.sizes(), move |gpu| delta(gpu, usual)));
    entries.extend(KERNELS.map(|kernel| entry(kernel, plain, Element::F32)));
    let rows = Shape::new(size.of([1, 512, 2, 1, 64], [4, 2048, 32, 8, 128]), true);
    entries.push(Entry::new(rows.sizes(), move |gpu| softmax(gpu, rows)));
    entries.push(Entry::new(rows.sizes(), move |gpu| softmax_backward(gpu, rows)));
    let whole = Shape { causal: false, ..plain };
    entries.push(Entry::new(whole.sizes(), move |gpu| soft_cap(gpu, whole)));
    entries
}

/// On tensor cores in bf16, without them in f32.
///
/// Forward has two products, scores and output. What backward makes anew counts as needed, since no scores are kept: for
/// queries scores, their gradients and the result; for keys and values there are two results.
pub fn work(gpu: &mut Gpu, shape: Shape, kernel: Kernel, element: Element) -> Work {
    let mut operands = Operands::new(gpu);
    let inputs = Inputs::new(&mut operands, &shape, element);
    let attention = shape.attention(element);
    let result = match kernel {
        Kernel::Forward | Kernel::Queries => inputs.result(&mut operands, shape.of_queries()),
        Kernel::Keys => inputs.result(&mut operands, shape.of_keys()),
    };
    let [stride, key_stride] = shape.strides();
    let mut arguments = inputs.saved(&shape);
    let ((source, launch), products) = match kernel {
        Kernel::Forward => {
            let log_sum_exp = operands.f32_result(shape.rows());
            arguments.extend([Argument::Buffer(result), log_sum_exp]);
            (attention::forward(&attention), 2)
        }
        Kernel::Queries => {
            arguments.extend(inputs.of_output(&mut operands, &shape));
            arguments.extend([Argument::Buffer(result), stride]);
            (attention::backward_queries(&attention), 3)
        }
        Kernel::Keys => {
            arguments.extend(inputs.of_output(&mut operands, &shape));
            arguments.extend([Argument::Buffer(result), inputs.values(result, &shape), key_stride]);
            (attention::backward_keys(&attention), 4)
        }
    };
    arguments.push(Argument::U32(0));
    arguments.extend(core(&mut operands, &shape));

    let (queries, keys) = (inputs.bytes * shape.of_queries(), inputs.bytes * shape.of_keys());
    let (positions, number) = (4 * u64::from(shape.tokens), 4 * shape.rows());
    let (read, written) = match kernel {
        Kernel::Forward => (queries + keys, queries + number),
        Kernel::Queries => (2 * queries + keys + 2 * number, queries),
        Kernel::Keys => (2 * queries + keys + 2 * number, keys),
    };
    let unit = if element == Element::Bf16 { Unit::Tensor } else { Unit::Single };
    let least = Least { read: read + positions, written, flops: products * shape.product(), unit };
    Work { source, launch, arguments, least }
}

impl Shape {
    /// Elements of a token's queries, and of its keys and values.
    fn strides(&self) -> [Argument; 2] {
        [self.heads, 2 * self.kv_heads].map(|heads| Argument::U64(u64::from(heads * self.dim)))
    }
}

/// What all three kernels read.
struct Inputs {
    queries: Buffer,
    /// The keys of a token, then its values.
    keys_values: Buffer,
    element: Element,
    /// Of an element.
    bytes: u64,
}

impl Inputs {
    fn new(operands: &mut Operands, shape: &Shape, element: Element) -> Self {
        let mut matrix = |count| match element {
            Element::Bf16 => operands.matrix(count),
            Element::F32 => operands.matrix_f32(count),
        };
        let (queries, keys_values) = (matrix(shape.of_queries()), matrix(shape.of_keys()));
        let bytes = if element == Element::Bf16 { 2 } else { 4 };
        Self { queries, keys_values, element, bytes }
    }

    fn result(&self, operands: &mut Operands, count: u64) -> Buffer {
        match self.element {
            Element::Bf16 => operands.gpu.uninitialised::<u16>(count as usize),
            Element::F32 => operands.gpu.uninitialised::<f32>(count as usize),
        }
    }

    /// The values among keys and values, or among their gradients.
    fn values(&self, keys_values: Buffer, shape: &Shape) -> Argument {
        Argument::Part(keys_values, self.bytes * u64::from(shape.kv_heads * shape.dim))
    }

    fn saved(&self, shape: &Shape) -> Vec<Argument> {
        let [stride, key_stride] = shape.strides();
        let keys = Argument::Buffer(self.keys_values);
        vec![Argument::Buffer(self.queries), stride, keys, self.values(self.keys_values, shape), key_stride]
    }

    /// The output's gradient, log-sum-exps and deltas.
    fn of_output(&self, operands: &mut Operands, shape: &Shape) -> [Argument; 3] {
        let gradient = match self.element {
            Element::Bf16 => operands.bf16(shape.of_queries()),
            Element::F32 => operands.f32(shape.of_queries()),
        };
        [gradient, operands.positive(shape.rows()), operands.f32(shape.rows())]
    }
}

fn core(operands: &mut Operands, shape: &Shape) -> Vec<Argument> {
    let &Shape { tokens, heads, kv_heads, dim, causal, .. } = shape;
    let positions = operands.u32(0..tokens);
    let mut core = sizes([tokens, tokens, heads, heads / kv_heads]).to_vec();
    core.extend([positions, positions, Argument::U32(1)]);
    core.extend([attention::nearest(causal), attention::reach(None)].map(Argument::I32));
    core.extend([1.0 / (dim as f32).sqrt(), 30.0].map(Argument::F32));
    core.extend(sizes([0, heads]));
    core
}

fn delta(gpu: &mut Gpu, shape: Shape) -> Work {
    let (source, launch) = attention::delta(&shape.attention(Element::Bf16));
    let mut operands = Operands::new(gpu);
    let read = [(); 2].map(|()| operands.bf16(shape.of_queries()));
    let written = operands.f32_result(shape.rows());
    let arguments = [&read[..], &[written], &sizes([shape.rows() as u32, shape.dim])].concat();
    Work { source, launch, arguments, least: Least::of_bytes(2 * 2 * shape.of_queries(), 4 * shape.rows()) }
}

/// Of products in bf16, in place.
fn softmax(gpu: &mut Gpu, shape: Shape) -> Work {
    let (source, launch) = attention::softmax(&shape.attention(Element::Bf16));
    let mut operands = Operands::new(gpu);
    let probabilities = operands.bf16(shape.pairs());
    let arguments = [&[probabilities, NULL][..], &core(&mut operands, &shape)].concat();
    let least = Least::of_bytes(2 * shape.read() + 4 * u64::from(shape.tokens), 2 * shape.pairs());
    Work { source, launch, arguments, least }
}

fn softmax_backward(gpu: &mut Gpu, shape: Shape) -> Work {
    let (source, launch) = attention::softmax_backward(&shape.attention(Element::Bf16));
    let mut operands = Operands::new(gpu);
    let tensors = [(); 2].map(|()| operands.bf16(shape.pairs()));
    let arguments = [&tensors[..], &core(&mut operands, &shape)].concat();
    let least = Least::of_bytes(4 * shape.read() + 4 * u64::from(shape.tokens), 2 * shape.pairs());
    Work { source, launch, arguments, least }
}

/// Makes the products again.
fn soft_cap(gpu: &mut Gpu, shape: Shape) -> Work {
    let attention = Attention { soft_cap: true, ..shape.attention(Element::F32) };
    let (source, launch) = attention::soft_cap_backward(&attention);
    let mut operands = Operands::new(gpu);
    let inputs = Inputs::new(&mut operands, &shape, Element::F32);
    let gradients = operands.f32(shape.pairs());
    let saved = inputs.saved(&shape);
    let arguments = [&saved[..3], &saved[4..], &[gradients], &core(&mut operands, &shape)].concat();
    let read = 4 * (shape.of_queries() + shape.of_keys() / 2 + shape.pairs() + u64::from(shape.tokens));
    let least = Least { read, written: 4 * shape.pairs(), flops: shape.product(), unit: Unit::Single };
    Work { source, launch, arguments, least }
}
