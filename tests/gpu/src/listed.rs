//! Every source with every set of options that a program of ours may launch, by the code that they give.

use std::collections::HashSet;

use crate::Source;
use crate::launch::activation::{self, Function};
use crate::launch::attention::{self, Attention};
use crate::launch::collectives::{self, Wire};
use crate::launch::gemm::{self, Element, Factor, Product};
use crate::launch::runs::Types;
use crate::launch::{
    adamw, cross_entropy, dropout, elementwise, embedding, gradient_norm, norm, quantise, residual, rotary,
    routing,
};

/// Sources that hold no gradients of parameters: their type makes no difference.
const OF_ACTIVATIONS: [fn(Types) -> Source; 6] = [
    cross_entropy::source,
    dropout::source,
    elementwise::source,
    gradient_norm::source,
    residual::source,
    rotary::source,
];

const OF_GRADIENTS: [fn(Types) -> Source; 4] =
    [adamw::source, embedding::source, norm::source, routing::source];

const FUNCTIONS: [Function; 5] =
    [Function::Gelu, Function::GeluTanh, Function::Silu, Function::Relu, Function::Relu2];

pub fn sources() -> Vec<Source> {
    let mut sources: Vec<Source> = [Types::F32, Types::Bf16].into_iter().flat_map(of_activations).collect();
    for types in [Types::F32, Types::Bf16, Types::Bf16WithF32Gradients] {
        sources.extend(OF_GRADIENTS.map(|source| source(types)));
    }
    for (storage, output) in
        [(Element::F32, Element::F32), (Element::Bf16, Element::Bf16), (Element::Bf16, Element::F32)]
    {
        sources.push(gemm::bias_gradient(1, storage, output).0);
        sources.extend(products(storage, output));
    }
    sources.extend([Element::Bf16, Element::F32].map(|output| gemm::split_sum(1, 1, output).0));
    sources.extend(attentions());
    let mut seen = HashSet::new();
    sources.retain(|source| seen.insert(source.clone()));
    sources
}

/// What bf16 with f32 gradients launches besides: of other options, so kept apart, and of the same code as in `sources`.
pub fn same_code() -> Vec<Source> {
    of_activations(Types::Bf16WithF32Gradients)
}

fn of_activations(types: Types) -> Vec<Source> {
    let mut sources = OF_ACTIVATIONS.map(|source| source(types)).to_vec();
    sources.extend(FUNCTIONS.map(|function| activation::source(types, function)));
    sources.extend([8, 4].map(|bits| quantise::source(types, bits)));
    sources.extend([Wire::Exact, Wire::Bf16, Wire::F16].map(|wire| collectives::source(types, wire)));
    sources
}

/// Forward, the gradient of the input, that of the weight; the first factor in f32 is a router's gradient.
fn products(storage: Element, output: Element) -> Vec<Source> {
    let mut sources = Vec::new();
    let both = [true, false];
    for (left, right) in [(false, true), (false, false), (true, false)] {
        let factor = |element, transposed, aligned| Factor { element, transposed, aligned };
        let of = |left, right, m| Product {
            m,
            n: 1,
            k: 1,
            batch: 1,
            batches: 1,
            left,
            right,
            output,
            workspace: 0,
            multiprocessors: 2,
        };
        // Few rows and many, for tiles small and large.
        for m in [1, 1 << 20] {
            let product = of(factor(Element::F32, left, true), factor(storage, right, true), m);
            sources.push(gemm::plan(&product).source);
        }
        if storage == Element::F32 {
            continue;
        }
        for (a, b) in both.into_iter().flat_map(|a| both.map(|b| (a, b))) {
            let product = of(factor(storage, left, a), factor(storage, right, b), 1);
            sources.extend(gemm::TILES.map(|tile| gemm::plan_with(&product, tile, 1).source));
        }
    }
    sources
}

/// Heads of 64 and 128 in bf16 run on tensor cores, with any features. The kernel for all others is listed with heads of
/// usual sizes, without features and with all of them.
fn attentions() -> Vec<Source> {
    let features = |bits: u32| [1, 2, 4].map(|bit| bits & bit != 0);
    let mut all = Vec::new();
    for dims in [[64, 64], [64, 128], [128, 64], [128, 128]] {
        let most = if dims[0] == dims[1] { 8 } else { 1 };
        all.extend((0..most).map(|bits| attention_of(Element::Bf16, dims, features(bits), true)));
    }
    for dims in [[64, 64], [80, 80], [96, 96], [128, 128], [192, 128], [256, 256]] {
        for element in [Element::Bf16, Element::F32] {
            all.extend([0, 7].map(|bits| attention_of(element, dims, features(bits), false)));
        }
    }
    all.iter().flat_map(kernels_of).collect()
}

/// Attention with heads of `size`, as small models of tests have them: without features, and with dropout.
pub fn small_attention(size: u32) -> Vec<Source> {
    let elements = [Element::Bf16, Element::F32];
    let all = elements.into_iter().flat_map(|element| {
        [false, true].map(|dropout| {
            attention_of(element, [size, size], [false, false, dropout], size.is_multiple_of(8))
        })
    });
    all.flat_map(|one| kernels_of(&one)).collect()
}

fn kernels_of(attention: &Attention) -> Vec<Source> {
    let kernels = [
        attention::forward,
        attention::delta,
        attention::backward_queries,
        attention::backward_keys,
        attention::softmax,
        attention::softmax_backward,
    ];
    let cap = attention.soft_cap.then(|| attention::soft_cap_backward(attention).0);
    kernels.iter().map(|kernel| kernel(attention).0).chain(cap).collect()
}

fn attention_of(
    element: Element,
    [query_dim, value_dim]: [u32; 2],
    [soft_cap, alibi, dropout]: [bool; 3],
    aligned: bool,
) -> Attention {
    Attention {
        element,
        query_dim,
        value_dim,
        batch: 1,
        tokens: 1,
        key_tokens: 1,
        heads: 1,
        kv_heads: 1,
        soft_cap,
        alibi,
        dropout,
        aligned,
    }
}
