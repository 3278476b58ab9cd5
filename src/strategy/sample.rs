//! Small models and facts that the tests of this floor share.

use petgraph::graph::DiGraph;

use super::{Facts, Workload};
use crate::model::layer::{
    Activation, Attention, Embedding, Head, LayerKind, LossFunction, Mlp, Moe, NormSpan, Position, Projection,
};
use crate::model::{Constants, Flow, Layer, LossTerm, LossWeight, Model};
use crate::profile::engines::engine;
use crate::units::ElementType;

const HIDDEN: u64 = 4096;
pub const BLOCKS: u32 = 16;

/// 16 blocks, 32 heads, 8 key-value heads, MLPs of width 14,336.
pub fn dense() -> Model {
    let mlp = Mlp {
        hidden: HIDDEN,
        intermediate: 14_336,
        gated: true,
        activation: Activation::Silu,
        bias: false,
        norm: None,
        output_norm: None,
        residual_norm: None,
    };
    model(LayerKind::Mlp(mlp))
}

/// The same with 8 experts of width 14,336, of which 2 are chosen, instead of the MLP.
pub fn moe() -> Model {
    let moe = Moe {
        hidden: HIDDEN,
        experts: 8,
        top_k: 2,
        intermediate: 14_336,
        shared_intermediate: 0,
        shared_gate: false,
        gated: true,
        activation: Activation::Silu,
        bias: false,
        router_bias: false,
        norm: None,
        output_norm: None,
    };
    model(LayerKind::Moe(moe))
}

fn model(feed_forward: LayerKind) -> Model {
    let attention = LayerKind::Attention(Attention {
        hidden: HIDDEN,
        heads: 32,
        projection: Projection::Grouped { kv_heads: 8, head_dim: 128 },
        norm: None,
        output_norm: None,
        residual_norm: None,
        query_key_norm: None,
        query_key_span: NormSpan::Head,
        input_bias: false,
        output_bias: false,
        position: Position::Rotary,
        window: None,
        soft_cap: false,
        sinks: false,
        causal: true,
    });
    let embedding =
        Embedding { vocabulary: 32_000, hidden: HIDDEN, positions: 0, norm: None, table_width: None };
    let head = Head {
        hidden: HIDDEN,
        vocabulary: 32_000,
        norm: None,
        tied: false,
        bias: false,
        table_width: None,
        soft_cap: false,
        passes: 1,
    };
    let mut graph = DiGraph::new();
    let mut last = graph.add_node(layer("embedding", None, LayerKind::Embedding(embedding)));
    let mut append = |layer| {
        let node = graph.add_node(layer);
        graph.add_edge(last, node, Flow { width: HIDDEN });
        last = node;
    };
    for block in 0..BLOCKS {
        append(layer(&format!("block {block} attention"), Some(block), attention.clone()));
        append(layer(&format!("block {block} feed forward"), Some(block), feed_forward.clone()));
    }
    append(layer("head", None, LayerKind::Head(head)));
    append(layer("loss", None, LayerKind::Loss(LossFunction::CrossEntropy)));
    let loss = LossTerm { name: "loss".to_owned(), layer: last, weight: LossWeight::Fixed(1.0) };
    Model {
        name: "sample".to_owned(),
        graph,
        losses: vec![loss],
        max_sequence: None,
        constants: Constants::default(),
        config: None,
        warnings: Vec::new(),
    }
}

fn layer(name: &str, block: Option<u32>, kind: LayerKind) -> Layer {
    Layer { name: name.to_owned(), block, frozen: false, kind }
}

/// 512 sequences of 4,096 tokens in bf16.
pub fn workload() -> Workload {
    Workload { global_batch: 512, seq_len: 4096, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 }
}

/// Facts about `model` on `devices` devices under that workload and a built-in engine.
pub fn facts(model: &Model, devices: u64, engine_name: &str) -> Facts<'static> {
    let profile = engine(engine_name).unwrap_or_else(|| panic!("{engine_name} is built in"));
    Facts::new(model, devices, &workload(), profile)
}
