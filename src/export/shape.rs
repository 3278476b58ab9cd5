//! The numbers of a decoder whose blocks are alike, as engines ask for them.

use crate::model::layer::{
    Activation, Attention, Embedding, Head, LayerKind, Mlp, Moe, NormKind, Position, Projection,
};
use crate::model::{Layer, Model};

/// A decoder: an embedding, blocks of attention and MLP or experts, a head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub blocks: u64,
    pub embedding: Embedding,
    pub attention: Attention,
    /// None where every block has experts.
    pub mlp: Option<Mlp>,
    pub experts: Option<Experts>,
    pub head: Head,
}

/// The experts of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experts {
    pub layer: Moe,
    /// Blocks before the first with experts; all from there on have them.
    pub dense_blocks: u64,
}

impl Shape {
    /// The shape of `model`; none where its layers are no such decoder or its blocks differ.
    pub fn of(model: &Model) -> Option<Self> {
        let mut parts = Parts::default();
        for layer in model.layers() {
            parts.take(layer)?;
        }
        let is_one = model.losses.len() == 1;
        let shape = Self {
            blocks: u64::from(model.blocks()),
            embedding: parts.embedding?,
            attention: parts.attention?,
            mlp: parts.mlp,
            experts: parts.experts,
            head: parts.head?,
        };
        is_one.then_some(shape)
    }

    /// Width of the residual stream.
    pub const fn hidden(&self) -> u64 {
        self.embedding.hidden
    }

    /// Heads that hold keys and values.
    pub const fn kv_heads(&self) -> u64 {
        self.attention.kv_heads()
    }

    /// Elements of a head; none for latent attention.
    pub const fn head_dim(&self) -> Option<u64> {
        match self.attention.projection {
            Projection::Grouped { head_dim, .. } => Some(head_dim),
            Projection::Latent { .. } => None,
        }
    }

    /// Width inside the MLP of a block without experts, or else that of an expert.
    pub fn intermediate(&self) -> u64 {
        self.mlp
            .as_ref()
            .map(|mlp| mlp.intermediate)
            .or_else(|| self.experts.as_ref().map(|experts| experts.layer.intermediate))
            .unwrap_or_default()
    }

    /// The activation inside MLPs or experts, and whether it is gated.
    pub fn activation(&self) -> Option<(Activation, bool)> {
        let mlp = self.mlp.as_ref().map(|mlp| (mlp.activation, mlp.gated));
        mlp.or_else(|| self.experts.as_ref().map(|experts| (experts.layer.activation, experts.layer.gated)))
    }

    /// The kind of norm before attention.
    pub fn norm(&self) -> Option<NormKind> {
        self.attention.norm.map(|norm| norm.kind)
    }

    /// Whether it is what Llama is: RMS norms, rotary positions, grouped queries, a gated SiLU MLP, no bias.
    pub fn is_llama(&self) -> bool {
        let attention = &self.attention;
        self.experts.is_none()
            && self.norm() == Some(NormKind::Rms)
            && self.head_dim().is_some()
            && attention.position == Position::Rotary
            && attention.query_key_norm.is_none()
            && self.is_plain()
            && self.activation() == Some((Activation::Silu, true))
    }

    /// Whether nothing is in it that most engines have no word for: biases, caps, windows, second norms.
    pub fn is_plain(&self) -> bool {
        let attention = &self.attention;
        !(attention.input_bias
            || attention.output_bias
            || attention.soft_cap
            || attention.sinks
            || !attention.causal
            || attention.window.is_some()
            || attention.output_norm.is_some()
            || attention.residual_norm.is_some()
            || self.embedding.norm.is_some()
            || self.embedding.table_width.is_some()
            || self.head.bias
            || self.head.soft_cap
            || self
                .mlp
                .as_ref()
                .is_some_and(|mlp| mlp.bias || mlp.output_norm.is_some() || mlp.residual_norm.is_some())
            || self.experts.as_ref().is_some_and(|experts| experts.layer.bias || experts.layer.router_bias))
    }
}

/// The kinds of layers seen so far.
#[derive(Default)]
struct Parts {
    embedding: Option<Embedding>,
    attention: Option<Attention>,
    mlp: Option<Mlp>,
    experts: Option<Experts>,
    head: Option<Head>,
}

impl Parts {
    /// The next layer in model order; none where it does not go with those before.
    fn take(&mut self, layer: &Layer) -> Option<()> {
        let begins = self.embedding.is_none();
        match &layer.kind {
            LayerKind::Embedding(embedding) if begins => self.embedding = Some(embedding.clone()),
            _ if begins => return None,
            LayerKind::Attention(attention) => alike(&mut self.attention, attention)?,
            LayerKind::Mlp(mlp) if self.experts.is_none() => alike(&mut self.mlp, mlp)?,
            LayerKind::Moe(moe) => {
                let dense_blocks = u64::from(layer.block?);
                let known = self.experts.get_or_insert_with(|| Experts { layer: moe.clone(), dense_blocks });
                if known.layer != *moe {
                    return None;
                }
            }
            LayerKind::Head(head) => alike(&mut self.head, head)?,
            LayerKind::Loss(_) => {}
            LayerKind::Embedding(_) | LayerKind::Mlp(_) => return None,
        }
        Some(())
    }
}

/// Remembers `layer`, or sees that it is as the one before.
fn alike<T: Clone + PartialEq>(known: &mut Option<T>, layer: &T) -> Option<()> {
    match known {
        Some(before) => (before == layer).then_some(()),
        None => {
            *known = Some(layer.clone());
            Some(())
        }
    }
}
