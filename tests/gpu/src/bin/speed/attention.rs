//! Attention: GPT-2 124M and Llama 3.1 8B, causal and not, forward and both parts of backward.

use gpu::launch::attention::{self, Attention};
use gpu::launch::gemm::Element;
use gpu::{Argument, Gpu};

use super::{BF16_RATE, Make, Timed, random, random_f32};

/// Sequences, tokens, heads, key-value heads, elements of a head.
const SHAPES: [[u32; 5]; 3] = [[16, 1024, 12, 12, 64], [8, 2048, 32, 8, 128], [2, 8192, 32, 8, 128]];

#[derive(Clone, Copy)]
enum Kernel {
    Forward,
    Queries,
    Keys,
}

impl Kernel {
    fn name(self) -> &'static str {
        match self {
            Self::Forward => "attention",
            Self::Queries => "gradient of queries",
            Self::Keys => "gradients of keys and values",
        }
    }
}

pub fn all() -> Vec<Make> {
    let kernels = [Kernel::Forward, Kernel::Queries, Kernel::Keys];
    let one = |shape: [u32; 5], causal: bool, kernel: Kernel| {
        let [batch, tokens, heads, kv_heads, dim] = shape;
        let mask = if causal { ", causal" } else { "" };
        let name = kernel.name();
        let name = format!("{name}, {batch} × {tokens}, heads {heads} of {kv_heads}, size {dim}{mask}");
        Make::new(name, move |gpu| attention(gpu, shape, causal, kernel))
    };
    let shapes = SHAPES.iter().flat_map(|&shape| [true, false].map(|causal| (shape, causal)));
    shapes.flat_map(|(shape, causal)| kernels.map(|kernel| one(shape, causal, kernel))).collect()
}

fn attention(gpu: &mut Gpu, shape: [u32; 5], causal: bool, kernel: Kernel) -> Timed {
    let [batch, tokens, heads, kv_heads, dim] = shape;
    let attention = Attention {
        element: Element::Bf16,
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
    };
    let rows = (batch * tokens) as usize;
    let (width, kv_width) = ((heads * dim) as usize, (kv_heads * dim) as usize);
    let queries = Argument::Buffer(random(gpu, rows * width));
    let keys_values = random(gpu, rows * 2 * kv_width);
    let output = Argument::Buffer(random(gpu, rows * width));
    let [log_sum_exp, delta] = [(); 2].map(|()| Argument::Buffer(random_f32(gpu, rows * heads as usize)));
    let positions: Vec<u32> = (0..tokens).collect();
    let positions = Argument::Buffer(gpu.upload(&positions));
    let values = |buffer| Argument::Part(buffer, 2 * kv_width as u64);
    let (stride, kv_stride) = (Argument::U64(width as u64), Argument::U64(2 * kv_width as u64));
    let mut arguments = vec![queries, stride, Argument::Buffer(keys_values), values(keys_values), kv_stride];
    let ((source, launch), products) = match kernel {
        Kernel::Forward => {
            arguments.extend([output, log_sum_exp, Argument::U32(0)]);
            (attention::forward(&attention), 2.0)
        }
        Kernel::Queries => {
            let gradient = Argument::Buffer(random(gpu, rows * width));
            arguments.extend([output, log_sum_exp, delta, gradient, stride, Argument::U32(0)]);
            (attention::backward_queries(&attention), 3.0)
        }
        Kernel::Keys => {
            let gradient = random(gpu, rows * 2 * kv_width);
            let to = [Argument::Buffer(gradient), values(gradient), kv_stride, Argument::U32(0)];
            arguments.extend([output, log_sum_exp, delta]);
            arguments.extend(to);
            (attention::backward_keys(&attention), 4.0)
        }
    };
    arguments.extend([Argument::U32(tokens), Argument::U32(tokens), Argument::U32(heads)]);
    arguments.extend([Argument::U32(heads / kv_heads), positions, positions, Argument::U32(1)]);
    arguments.extend([Argument::I32(attention::nearest(causal)), Argument::I32(attention::reach(None))]);
    arguments.extend([Argument::F32(1.0 / (dim as f32).sqrt()), Argument::F32(0.0)]);
    arguments.extend([Argument::U32(0), Argument::U32(heads)]);
    let pairs = f64::from(batch * heads) * f64::from(tokens).powi(2) * if causal { 0.5 } else { 1.0 };
    Timed {
        source,
        launch,
        arguments,
        flops: products * 2.0 * pairs * f64::from(dim),
        rate: BF16_RATE,
        bytes: (2 * rows * (2 * width + 2 * kv_width)) as f64,
    }
}
