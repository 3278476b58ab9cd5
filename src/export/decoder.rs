//! A decoder as engines are told it: all that its arithmetic depends on, of a plan or of what an engine makes of settings.

use serde::{Serialize, Serializer};

use crate::model::constants::RotaryScaling;
use crate::model::hugging_face::{model_type, otherwise};
use crate::model::layer::{
    Activation, Attention, Embedding, Head, LayerKind, LossFunction, Mlp, Moe, Norm, NormKind, NormSpan,
    Position, Projection,
};
use crate::model::{Constants, LossWeight, Model, ModelError, MultiToken, decoder};

/// A decoder whose blocks are alike but for windows and experts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decoder {
    pub blocks: u64,
    /// Multi-token prediction modules, which come after the blocks.
    pub multi_token: u64,
    pub residual: Residual,
    pub embedding: Embedding,
    /// That of every block; what differs between blocks is in `windows`.
    pub attention: Attention,
    /// Keys that a query of each block sees, where a sliding window limits them.
    #[serde(serialize_with = "repeated")]
    pub windows: Vec<Option<u64>>,
    /// None where every block has experts.
    pub mlp: Option<Mlp>,
    pub experts: Option<Experts>,
    pub head: Head,
    pub constants: Constants,
}

/// The experts of a decoder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experts {
    pub layer: Moe,
    /// Whether each block has them.
    #[serde(serialize_with = "repeated")]
    pub in_blocks: Vec<bool>,
}

/// The input of a block's feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Residual {
    /// The output of attention.
    Sequential,
    /// The block's input, as attention does (GPT-J, Falcon).
    Parallel,
}

/// The sizes of a Llama.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub blocks: u64,
    pub hidden: u64,
    pub intermediate: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_dim: u64,
    pub vocabulary: u64,
}

impl Experts {
    /// Blocks before the first with experts, where all from there on have them.
    pub fn dense_blocks(&self) -> Option<u64> {
        let dense = self.in_blocks.iter().take_while(|has| !**has).count();
        self.in_blocks[dense..].iter().all(|has| *has).then_some(dense as u64)
    }
}

impl Decoder {
    /// The decoder that `model` is; none where it is none, its blocks differ in more than windows and experts, or its
    /// family computes what its layers do not say.
    pub fn of(model: &Model) -> Option<Self> {
        let family = model.config.as_ref().and_then(model_type);
        if family.and_then(otherwise).is_some() {
            return None;
        }
        let mut parts = Parts::default();
        for (index, layer) in model.layers().enumerate() {
            let inputs = model.inputs(index).len();
            match layer.block {
                Some(block) => parts.inside(block as usize, &layer.kind, inputs)?,
                None => parts.outside(&layer.kind)?,
            }
        }
        let (mut head, blocks) = (parts.head?, parts.blocks);
        let multi_token = std::mem::replace(&mut head.passes, 1) - 1;
        let own = blocks.len().checked_sub(usize::try_from(multi_token).ok()?)?;
        let (blocks, modules) = blocks.split_at(own);
        let first = blocks.first()?;
        let residual = first.residual?;
        let is_alike = |block: &Block| block.has_all() && block.residual == Some(residual);
        // A module is a projection and a block.
        let are_modules = modules.iter().all(|block| block.projections == 1 && is_alike(block));
        if !blocks.iter().all(|block| block.projections == 0 && is_alike(block)) || !are_modules {
            return None;
        }
        let losses = &model.losses;
        if !matches!(losses.as_slice(), [only] if only.weight == LossWeight::Fixed(1.0)) {
            return None;
        }
        let in_blocks: Vec<bool> = blocks.iter().map(|block| block.has_experts).collect();
        let mlp = parts.mlp.filter(|_| in_blocks.contains(&false));
        let mut constants = model.constants.clone();
        if let RotaryScaling::Yarn(yarn) = &mut constants.rotary.scaling {
            yarn.original_max_position = yarn.original_max_position.or(model.max_sequence);
        }
        Some(
            Self {
                blocks: own as u64,
                multi_token,
                residual,
                embedding: parts.embedding?,
                attention: parts.attention?,
                windows: blocks.iter().map(|block| block.window).collect(),
                mlp,
                experts: parts.experts.map(|layer| Experts { layer, in_blocks }),
                head,
                constants,
            }
            .normal(),
        )
    }

    /// The same with one way of saying what can be said in several: constants that none of its layers looks at have their
    /// defaults.
    pub fn normal(mut self) -> Self {
        let plain = Constants::default();
        let constants = &mut self.constants;
        if !self.attention.soft_cap {
            constants.score_cap = plain.score_cap;
        }
        if !self.head.soft_cap {
            constants.logit_cap = plain.logit_cap;
        }
        if self.embedding.positions == 0 {
            constants.position_offset = plain.position_offset;
        }
        if self.attention.position != Position::Rotary {
            constants.rotary = plain.rotary;
        }
        if self.windows.iter().all(Option::is_none) {
            constants.rotary.window_theta = None;
        }
        if self.experts.is_none() {
            constants.router = plain.router;
        }
        if let RotaryScaling::Yarn(yarn) = &mut constants.rotary.scaling
            && yarn.mscale_all_dim.is_none()
        {
            // Transformers looks at the one only beside the other.
            yarn.mscale = None;
        }
        let usual = (self.attention.query_dim() as f64).sqrt().recip();
        let is_usual = |scale: &f64| (scale / usual - 1.0).abs() < 1e-12;
        constants.score_scale = constants.score_scale.filter(|scale| !is_usual(scale));
        self
    }

    /// The model that it is, called `name`, for sequences of `longest` tokens at the most.
    ///
    /// # Errors
    /// If a size of it cannot be.
    pub fn model(
        &self,
        name: &str,
        longest: Option<u64>,
        multi_token: MultiToken,
    ) -> Result<Model, ModelError> {
        let residual = match self.residual {
            Residual::Sequential => decoder::Residual::Sequential,
            Residual::Parallel => decoder::Residual::Parallel,
        };
        let has_experts = |block: usize| {
            self.experts.as_ref().filter(|experts| experts.in_blocks.get(block).copied().unwrap_or(false))
        };
        let block = |block: usize| {
            let window = self.windows.get(block).copied().flatten();
            let feed_forward = match (has_experts(block), &self.mlp) {
                (Some(experts), _) => decoder::FeedForward::Experts(experts.layer.clone()),
                (None, mlp) => decoder::FeedForward::Dense(mlp.clone()?),
            };
            let attention = Attention { window, ..self.attention.clone() };
            Some(decoder::Block { projection: None, attention, feed_forward, residual })
        };
        let blocks: Vec<decoder::Block> =
            (0..usize::try_from(self.blocks).unwrap_or(0)).filter_map(block).collect();
        let mut made = decoder::Decoder {
            embedding: self.embedding.clone(),
            blocks,
            head: self.head.clone(),
            max_sequence: longest,
        };
        if multi_token == MultiToken::Counted {
            made.predict_ahead(self.multi_token);
        }
        made.assemble(name, self.constants.clone(), Vec::new())
    }

    /// A Llama: RMS norms, rotary positions, grouped queries, a gated SiLU MLP, no bias; its head has a table of its own.
    pub fn llama(sizes: Sizes) -> Self {
        let Sizes { blocks, hidden, intermediate, heads, kv_heads, head_dim, vocabulary } = sizes;
        let norm = Some(Norm { kind: NormKind::Rms, width: hidden });
        Self {
            blocks,
            multi_token: 0,
            residual: Residual::Sequential,
            embedding: Embedding { vocabulary, hidden, positions: 0, norm: None, table_width: None },
            attention: Attention {
                hidden,
                heads,
                projection: Projection::Grouped { kv_heads, head_dim },
                norm,
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
            },
            windows: vec![None; blocks as usize],
            mlp: Some(Mlp {
                hidden,
                intermediate,
                gated: true,
                activation: Activation::Silu,
                bias: false,
                norm,
                output_norm: None,
                residual_norm: None,
            }),
            experts: None,
            head: Head {
                hidden,
                vocabulary,
                norm,
                tied: false,
                bias: false,
                soft_cap: false,
                table_width: None,
                passes: 1,
            },
            constants: Constants::default(),
        }
    }

    /// Its sizes, as a Llama's.
    pub fn sizes(&self) -> Sizes {
        let heads = self.attention.heads;
        Sizes {
            blocks: self.blocks,
            hidden: self.hidden(),
            intermediate: self.intermediate(),
            heads,
            kv_heads: self.kv_heads(),
            head_dim: self.head_dim().unwrap_or_else(|| self.hidden() / heads.max(1)),
            vocabulary: self.embedding.vocabulary,
        }
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

    /// Gives MLPs and experts another activation.
    pub fn set_activation(&mut self, activation: Activation, gated: bool) {
        if let Some(mlp) = &mut self.mlp {
            (mlp.activation, mlp.gated) = (activation, gated);
        }
        if let Some(experts) = &mut self.experts {
            (experts.layer.activation, experts.layer.gated) = (activation, gated);
        }
    }

    /// The kind of norm before attention.
    pub fn norm(&self) -> Option<NormKind> {
        self.attention.norm.map(|norm| norm.kind)
    }

    /// The window that every block has, if one.
    pub fn window(&self) -> Option<u64> {
        let first = self.windows.first().copied().flatten();
        first.filter(|_| self.windows.iter().all(|window| *window == first))
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
            || self.windows.iter().any(Option::is_some)
            || attention.output_norm.is_some()
            || attention.residual_norm.is_some()
            || self.residual == Residual::Parallel
            || self.embedding.norm.is_some()
            || self.embedding.table_width.is_some()
            || self.head.bias
            || self.head.soft_cap
            || self
                .mlp
                .as_ref()
                .is_some_and(|mlp| mlp.bias || mlp.output_norm.is_some() || mlp.residual_norm.is_some())
            || self.experts.as_ref().is_some_and(|experts| {
                let layer = &experts.layer;
                layer.bias || layer.router_bias || layer.output_norm.is_some()
            }))
    }
}

/// The parts of a model that were seen so far.
#[derive(Default)]
struct Parts {
    embedding: Option<Embedding>,
    attention: Option<Attention>,
    mlp: Option<Mlp>,
    experts: Option<Moe>,
    head: Option<Head>,
    blocks: Vec<Block>,
}

/// The parts of a block that were seen.
#[derive(Default)]
struct Block {
    /// MLPs before attention.
    projections: usize,
    has_attention: bool,
    window: Option<u64>,
    has_experts: bool,
    /// Known once the feed-forward layer was seen.
    residual: Option<Residual>,
}

impl Block {
    const fn has_all(&self) -> bool {
        self.has_attention && self.residual.is_some()
    }
}

impl Parts {
    /// The next layer that is in no block; none where it does not go with those before.
    fn outside(&mut self, kind: &LayerKind) -> Option<()> {
        match kind {
            LayerKind::Embedding(embedding) if self.embedding.is_none() => {
                self.embedding = Some(embedding.clone());
                Some(())
            }
            LayerKind::Head(head) if self.head.is_none() => {
                self.head = Some(head.clone());
                Some(())
            }
            LayerKind::Loss(LossFunction::CrossEntropy) => Some(()),
            _ => None,
        }
    }

    /// The next layer of block `number`, which reads so many others.
    fn inside(&mut self, number: usize, kind: &LayerKind, inputs: usize) -> Option<()> {
        self.embedding.as_ref()?;
        if self.blocks.len() == number {
            self.blocks.push(Block::default());
        }
        let block = self.blocks.get_mut(number)?;
        let residual = if inputs == 1 { Residual::Sequential } else { Residual::Parallel };
        match kind {
            LayerKind::Attention(attention) if !block.has_attention && inputs == 1 => {
                (block.has_attention, block.window) = (true, attention.window);
                alike(&mut self.attention, &Attention { window: None, ..attention.clone() })
            }
            LayerKind::Mlp(_) if !block.has_attention => {
                block.projections += 1;
                Some(())
            }
            LayerKind::Mlp(mlp) if block.residual.is_none() => {
                block.residual = Some(residual);
                alike(&mut self.mlp, mlp)
            }
            LayerKind::Moe(moe) if block.has_attention && block.residual.is_none() => {
                (block.residual, block.has_experts) = (Some(residual), true);
                alike(&mut self.experts, moe)
            }
            _ => None,
        }
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

/// One value of each block, in short: the shortest run that the list repeats, as far as it goes.
fn repeated<T: PartialEq + Serialize, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    let repeats = |period: &usize| list.iter().zip(list.iter().skip(*period)).all(|(one, next)| one == next);
    let period = (1..list.len()).find(repeats).unwrap_or(list.len());
    match &list[..period] {
        [only] => only.serialize(serializer),
        several => several.serialize(serializer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{hugging_face, load, presets};

    #[test]
    fn every_preset_is_a_decoder() {
        for preset in presets() {
            let decoder = Decoder::of(&preset.model().unwrap());
            assert!(decoder.is_some(), "{}", preset.name);
        }
    }

    #[test]
    fn blocks_may_differ_in_windows_and_experts() {
        let gemma = Decoder::of(&load("gemma-2-9b").unwrap()).unwrap();
        assert_eq!((gemma.blocks, gemma.windows[0], gemma.windows[1]), (42, Some(4096), None));
        let shown = serde_json::to_value(&gemma).unwrap();
        assert_eq!(shown["windows"], serde_json::json!([4096, null]));
        let deepseek = Decoder::of(&load("deepseek-v3").unwrap()).unwrap();
        let experts = deepseek.experts.unwrap();
        assert_eq!((deepseek.blocks, experts.dense_blocks()), (61, Some(3)));
    }

    #[test]
    fn multi_token_prediction_stands_after_the_blocks() {
        let config = serde_json::json!({"model_type": "deepseek_v3", "num_nextn_predict_layers": 1});
        let counted = hugging_face::import_with(&config, "a", hugging_face::MultiToken::Counted).unwrap();
        let decoder = Decoder::of(&counted).unwrap();
        assert_eq!((decoder.blocks, decoder.multi_token, decoder.head.passes), (61, 1, 1));
    }
}
