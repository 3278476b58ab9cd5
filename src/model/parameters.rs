//! The parameter tensors of a layer: shapes, and how tensor and expert parallelism split them.

use super::layer::{Attention, Embedding, Head, LayerKind, Mlp, Moe, Norm, NormKind, NormSpan, Projection};
use super::roles::Role;

/// Which ranks of the tensor or expert group hold which part of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Every tensor-parallel rank holds all of it.
    Replicated,
    /// Cut evenly over the tensor-parallel group.
    Tensor,
    /// Cut by key-value heads; replicated where there are fewer heads than ranks.
    KeyValueHeads,
    /// Rows of the vocabulary, padded as the engine pads it.
    Vocabulary,
    /// Cut over the expert group by expert, and inside an expert over the expert-tensor group.
    Expert,
    /// Cut over the expert group by expert, whole on every expert-tensor rank (down biases of experts).
    ExpertReplicated,
}

/// One parameter tensor of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterTensor {
    /// What it is within its layer, e.g. `query`, `up`, `router`.
    pub role: Role,
    /// Leading dimension: rows of a matrix, experts × rows for experts, elements of a vector.
    pub rows: u64,
    /// Columns of a matrix; 1 for a vector.
    pub columns: u64,
    pub split: Split,
    /// Whether tokens are multiplied by it (input and position tables, norms and biases are not).
    pub multiplies: bool,
}

impl ParameterTensor {
    /// Rows times columns.
    pub fn elements(&self) -> u64 {
        self.rows * self.columns
    }
}

/// The parameter tensors of a layer, in the order in which its forward uses them.
pub fn parameters(kind: &LayerKind) -> Vec<ParameterTensor> {
    let mut list = List::default();
    match kind {
        LayerKind::Embedding(embedding) => list.embedding(embedding),
        LayerKind::Attention(attention) => list.attention(attention),
        LayerKind::Mlp(mlp) => list.mlp(mlp),
        LayerKind::Moe(moe) => list.moe(moe),
        LayerKind::Head(head) => list.head(head),
        LayerKind::Loss(_) => {}
    }
    list.0
}

#[derive(Default)]
struct List(Vec<ParameterTensor>);

impl List {
    fn matrix(&mut self, role: Role, rows: u64, columns: u64, split: Split) {
        self.0.push(ParameterTensor { role, rows, columns, split, multiplies: true });
    }

    fn vector(&mut self, role: Role, elements: u64, split: Split) {
        self.0.push(ParameterTensor { role, rows: elements, columns: 1, split, multiplies: false });
    }

    fn table(&mut self, role: Role, rows: u64, columns: u64, split: Split) {
        self.0.push(ParameterTensor { role, rows, columns, split, multiplies: false });
    }

    fn norm(&mut self, role: Role, norm: Option<&Norm>) {
        let Some(norm) = norm else { return };
        let vectors = match norm.kind {
            NormKind::Layer => 2,
            NormKind::LayerWithoutBias | NormKind::Rms => 1,
            NormKind::Plain => 0,
        };
        if vectors > 0 {
            self.vector(role, vectors * norm.width, Split::Replicated);
        }
    }

    fn embedding(&mut self, embedding: &Embedding) {
        let width = embedding.table_width.unwrap_or(embedding.hidden);
        self.table(Role::Tokens, embedding.vocabulary, width, Split::Vocabulary);
        if embedding.table_width.is_some() {
            self.matrix(Role::Widen, embedding.hidden, width, Split::Replicated);
        }
        if embedding.positions > 0 {
            self.table(Role::Positions, embedding.positions, embedding.hidden, Split::Replicated);
        }
        self.norm(Role::Norm, embedding.norm.as_ref());
    }

    fn attention(&mut self, attention: &Attention) {
        let Attention { hidden, heads, .. } = *attention;
        self.norm(Role::Norm, attention.norm.as_ref());
        match attention.projection {
            Projection::Grouped { kv_heads, head_dim } => {
                let (query, key) = (heads * head_dim, kv_heads * head_dim);
                self.matrix(Role::Query, query, hidden, Split::Tensor);
                self.matrix(Role::Key, key, hidden, Split::KeyValueHeads);
                self.matrix(Role::Value, key, hidden, Split::KeyValueHeads);
                if attention.input_bias {
                    self.vector(Role::QueryBias, query, Split::Tensor);
                    self.vector(Role::KeyBias, key, Split::KeyValueHeads);
                    self.vector(Role::ValueBias, key, Split::KeyValueHeads);
                }
                if let Some(kind) = attention.query_key_norm {
                    let (query, key) = match attention.query_key_span {
                        NormSpan::Head => (head_dim, head_dim),
                        NormSpan::AllHeads => (query, key),
                    };
                    self.norm(Role::QueryNorm, Some(&Norm { kind, width: query }));
                    self.norm(Role::KeyNorm, Some(&Norm { kind, width: key }));
                }
            }
            Projection::Latent { query_rank, key_value_rank, plain_dim, rotary_dim, value_dim } => {
                let query = heads * (plain_dim + rotary_dim);
                match query_rank {
                    Some(rank) => {
                        self.matrix(Role::QueryDown, rank, hidden, Split::Replicated);
                        self.norm(Role::QueryNorm, Some(&Norm { kind: NormKind::Rms, width: rank }));
                        self.matrix(Role::QueryUp, query, rank, Split::Tensor);
                    }
                    None => self.matrix(Role::Query, query, hidden, Split::Tensor),
                }
                self.matrix(Role::LatentDown, key_value_rank + rotary_dim, hidden, Split::Replicated);
                self.norm(Role::LatentNorm, Some(&Norm { kind: NormKind::Rms, width: key_value_rank }));
                self.matrix(Role::LatentUp, heads * (plain_dim + value_dim), key_value_rank, Split::Tensor);
                if attention.input_bias {
                    self.vector(Role::LatentBias, key_value_rank + rotary_dim, Split::Replicated);
                    if let Some(rank) = query_rank {
                        self.vector(Role::QueryDownBias, rank, Split::Replicated);
                    }
                }
            }
        }
        if attention.sinks {
            self.vector(Role::Sinks, heads, Split::Tensor);
        }
        self.matrix(Role::Output, hidden, heads * attention.value_dim(), Split::Tensor);
        if attention.output_bias {
            self.vector(Role::OutputBias, hidden, Split::Replicated);
        }
        self.norm(Role::OutputNorm, attention.output_norm.as_ref());
        self.norm(Role::ResidualNorm, attention.residual_norm.as_ref());
    }

    fn mlp(&mut self, mlp: &Mlp) {
        let Mlp { hidden, intermediate, .. } = *mlp;
        self.norm(Role::Norm, mlp.norm.as_ref());
        let ups = if mlp.gated { 2 } else { 1 };
        self.matrix(Role::Up, ups * intermediate, hidden, Split::Tensor);
        self.matrix(Role::Down, hidden, intermediate, Split::Tensor);
        if mlp.bias {
            self.vector(Role::UpBias, ups * intermediate, Split::Tensor);
            self.vector(Role::DownBias, hidden, Split::Replicated);
        }
        self.norm(Role::OutputNorm, mlp.output_norm.as_ref());
        self.norm(Role::ResidualNorm, mlp.residual_norm.as_ref());
    }

    fn moe(&mut self, moe: &Moe) {
        let Moe { hidden, experts, intermediate, .. } = *moe;
        self.norm(Role::Norm, moe.norm.as_ref());
        self.matrix(Role::Router, experts, hidden, Split::Replicated);
        if moe.router_bias {
            self.vector(Role::RouterBias, experts, Split::Replicated);
        }
        let ups = if moe.gated { 2 } else { 1 };
        self.matrix(Role::ExpertUp, experts * ups * intermediate, hidden, Split::Expert);
        self.matrix(Role::ExpertDown, experts * hidden, intermediate, Split::Expert);
        if moe.bias {
            self.vector(Role::ExpertUpBias, experts * ups * intermediate, Split::Expert);
            self.vector(Role::ExpertDownBias, experts * hidden, Split::ExpertReplicated);
        }
        if moe.shared_intermediate > 0 {
            self.matrix(Role::SharedUp, ups * moe.shared_intermediate, hidden, Split::Tensor);
            self.matrix(Role::SharedDown, hidden, moe.shared_intermediate, Split::Tensor);
            if moe.shared_gate {
                self.matrix(Role::SharedGate, 1, hidden, Split::Replicated);
            }
        }
        self.norm(Role::OutputNorm, moe.output_norm.as_ref());
    }

    fn head(&mut self, head: &Head) {
        self.norm(Role::Norm, head.norm.as_ref());
        let width = head.table_width.unwrap_or(head.hidden);
        if head.table_width.is_some() {
            self.matrix(Role::Narrow, width, head.hidden, Split::Replicated);
        }
        if !head.tied {
            self.matrix(Role::Vocabulary, head.vocabulary, width, Split::Vocabulary);
        }
        if head.bias {
            self.vector(Role::VocabularyBias, head.vocabulary, Split::Vocabulary);
        }
    }
}
