//! A decoder as families describe it (embedding, blocks, head) and its assembly into a layer graph.

use petgraph::graph::{DiGraph, NodeIndex};

use super::check::check;
use super::constants::Constants;
use super::error::ModelError;
use super::graph::{Flow, LossTerm, LossWeight, Model};
use super::layer::{Activation, Attention, Embedding, Head, Layer, LayerKind, LossFunction, Mlp, Moe, Norm};

/// A decoder-only language model.
pub struct Decoder {
    pub embedding: Embedding,
    pub blocks: Vec<Block>,
    pub head: Head,
    pub max_sequence: Option<u64>,
}

/// One transformer layer.
#[derive(Clone)]
pub struct Block {
    /// What stands before the attention of a multi-token prediction module.
    pub projection: Option<Mlp>,
    pub attention: Attention,
    pub feed_forward: FeedForward,
    pub residual: Residual,
}

#[derive(Clone)]
pub enum FeedForward {
    Dense(Mlp),
    Experts(Moe),
}

#[derive(Clone, Copy)]
pub enum Residual {
    /// The feed-forward layer reads what attention wrote.
    Sequential,
    /// Both read the block's input, and both are added to it.
    Parallel,
}

impl Decoder {
    /// Adds `depth` multi-token prediction modules (DeepSeek-AI 2024, section 2.2), each one more block, and one more
    /// pass of the shared head. The projection of a module, 2·hidden to hidden behind two norms, is planned as an MLP
    /// of inner width hidden: as many weights and FLOPs. The block is as the last one.
    pub fn predict_ahead(&mut self, depth: u64) {
        let Some(last) = self.blocks.last().cloned() else { return };
        let hidden = self.embedding.hidden;
        let norm = last.attention.norm.map(|norm| Norm { width: hidden, ..norm });
        let projection = Mlp {
            hidden,
            intermediate: hidden,
            gated: false,
            activation: Activation::Relu,
            bias: false,
            norm,
            output_norm: norm,
            residual_norm: None,
        };
        let module = Block { projection: Some(projection), ..last };
        self.blocks.extend((0..depth).map(|_| module.clone()));
        self.head.passes += depth;
    }

    /// The layer graph: embedding, attention and feed-forward layer of each block, head, cross-entropy.
    pub fn assemble(
        self,
        name: &str,
        constants: Constants,
        warnings: Vec<String>,
    ) -> Result<Model, ModelError> {
        let mut graph = DiGraph::new();
        let hidden = self.embedding.hidden;
        let vocabulary = self.head.vocabulary;
        let mut stream = add(&mut graph, "embedding", None, LayerKind::Embedding(self.embedding), &[]);
        for (block, number) in self.blocks.into_iter().zip(0u32..) {
            if let Some(projection) = block.projection {
                let name = format!("block {number} projection");
                stream =
                    add(&mut graph, &name, Some(number), LayerKind::Mlp(projection), &[(stream, hidden)]);
            }
            let attention = add(
                &mut graph,
                &format!("block {number} attention"),
                Some(number),
                LayerKind::Attention(block.attention),
                &[(stream, hidden)],
            );
            let kind = match block.feed_forward {
                FeedForward::Dense(mlp) => LayerKind::Mlp(mlp),
                FeedForward::Experts(moe) => LayerKind::Moe(moe),
            };
            // In a parallel block the first edge feeds the norm, the second is the residual stream.
            let inputs: &[_] = match block.residual {
                Residual::Sequential => &[(attention, hidden)],
                Residual::Parallel => &[(stream, hidden), (attention, hidden)],
            };
            stream = add(&mut graph, &format!("block {number} {}", kind.name()), Some(number), kind, inputs);
        }
        let head = add(&mut graph, "head", None, LayerKind::Head(self.head), &[(stream, hidden)]);
        let loss = LayerKind::Loss(LossFunction::CrossEntropy);
        let loss = add(&mut graph, "loss", None, loss, &[(head, vocabulary)]);
        let losses = vec![LossTerm { name: "loss".to_owned(), layer: loss, weight: LossWeight::Fixed(1.0) }];
        let model = Model {
            name: name.to_owned(),
            graph,
            losses,
            max_sequence: self.max_sequence,
            constants,
            config: None,
            warnings,
        };
        check(&model)?;
        Ok(model)
    }
}

fn add(
    graph: &mut DiGraph<Layer, Flow>,
    name: &str,
    block: Option<u32>,
    kind: LayerKind,
    inputs: &[(NodeIndex, u64)],
) -> NodeIndex {
    let layer = graph.add_node(Layer { name: name.to_owned(), block, frozen: false, kind });
    for &(input, width) in inputs {
        graph.add_edge(input, layer, Flow { width });
    }
    layer
}
