//! The sizes that a rank sees: a strategy, a workload and an engine profile boiled down to what lowering reads.

use crate::profile::EngineProfile;
use crate::profile::choices::{AttentionKernel, Compression, ContextKind, LossMode};
use crate::profile::engine::{SavedTensor, WideStream};
use crate::strategy::{Capacity, Strategy, Workload};
use crate::units::{ElementType, ceil_div};

/// Everything that shapes a lowered unit, apart from the unit and its checkpoint mode.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    pub engine: &'a EngineProfile,
    /// Sequences a micro-batch.
    pub micro_batch: u64,
    /// Tokens a sequence, over all context ranks.
    pub seq_len: u64,
    pub tensor: u64,
    pub sequence_parallel: bool,
    pub context: u64,
    pub context_kind: ContextKind,
    pub expert: u64,
    pub expert_tensor: u64,
    pub capacity: Capacity,
    /// Type of activations and working parameters.
    pub compute: ElementType,
    /// Type that matrix products multiply.
    pub multiply: ElementType,
    pub dropout: bool,
    pub fused_attention: bool,
    pub chunked_loss: bool,
    /// Weight gradients run in a later pass.
    pub splits_weight: bool,
    pub compression: Compression,
}

impl<'a> Shape<'a> {
    /// The shape of `strategy` on `workload` under `engine`.
    pub fn new(strategy: &Strategy, workload: &Workload, engine: &'a EngineProfile) -> Self {
        Self {
            engine,
            micro_batch: strategy.micro_batch,
            seq_len: workload.seq_len,
            tensor: strategy.tensor,
            sequence_parallel: strategy.sequence_parallel,
            context: strategy.context,
            context_kind: strategy.context_kind,
            expert: strategy.expert,
            expert_tensor: strategy.expert_tensor,
            capacity: strategy.capacity,
            compute: workload.compute_type(),
            multiply: workload.precision,
            dropout: workload.dropout > 0.0,
            fused_attention: strategy.attention == AttentionKernel::Fused,
            chunked_loss: strategy.loss == LossMode::Chunked,
            splits_weight: strategy.schedule.splits_weight(),
            compression: strategy.compression,
        }
    }

    /// Tokens of a micro-batch on this context rank.
    pub const fn tokens(&self) -> u64 {
        self.micro_batch * self.seq_len / self.context
    }

    /// Tokens of the residual stream on this rank: a tensor rank's share under sequence parallelism.
    pub const fn stream_tokens(&self) -> u64 {
        if self.sequence_parallel { self.tokens() / self.tensor } else { self.tokens() }
    }

    /// Tokens that this rank routes to experts.
    pub const fn routed_tokens(&self) -> u64 {
        if self.sequence_parallel || self.expert_tensor != self.tensor {
            self.tokens() / self.tensor
        } else {
            self.tokens()
        }
    }

    /// Slots an expert has for the tokens of one routing rank; where the engine's kernels take as many as come, those
    /// that come to the fullest rank.
    pub fn slots(&self, experts: u64, top_k: u64) -> u64 {
        let tokens = self.routed_tokens();
        let factor = match (self.capacity, &self.engine.dropless) {
            (Capacity::Factor(factor), _) => factor,
            (Capacity::Full, Some(load)) => load.fullest.value,
            (Capacity::Full, None) => return tokens,
        };
        ((factor * top_k as f64 * tokens as f64 / experts as f64).ceil() as u64).clamp(1, tokens.max(1))
    }

    /// Heads of one tensor rank.
    pub const fn local_heads(&self, heads: u64) -> u64 {
        heads / self.tensor
    }

    /// Key-value heads of one tensor rank; at least one, replicated if need be.
    pub const fn local_kv_heads(&self, kv_heads: u64) -> u64 {
        ceil_div(kv_heads, self.tensor)
    }

    /// Vocabulary rows of one tensor rank.
    pub const fn local_vocabulary(&self, rows: u64) -> u64 {
        self.engine.vocabulary.padded(rows, self.tensor) / self.tensor
    }

    /// Type of statistics: of norms, softmax and router.
    pub const fn statistic(&self) -> ElementType {
        match self.compute {
            ElementType::Fp64 => ElementType::Fp64,
            _ => ElementType::Fp32,
        }
    }

    /// Whether `saved`, an input of products, is kept in 8 bits, as these multiply it.
    pub fn is_in_eight_bits(&self, saved: SavedTensor) -> bool {
        let is_input = matches!(
            saved,
            SavedTensor::LinearInput
                | SavedTensor::ActivationOutput
                | SavedTensor::ProjectionInput
                | SavedTensor::ExpertInput
                | SavedTensor::ReceivedInput
        );
        is_input && self.engine.activations.eight_bit_inputs && self.multiply == ElementType::Fp8
    }

    /// The type of the residual stream.
    pub fn stream(&self) -> ElementType {
        match self.engine.activations.wide_stream {
            WideStream::Never => self.compute,
            WideStream::Uncompiled | WideStream::Always => self.statistic(),
        }
    }

    /// The type that `saved` is kept in.
    pub fn type_of(&self, saved: SavedTensor) -> ElementType {
        match saved {
            SavedTensor::BlockInput | SavedTensor::NormInput => self.stream(),
            _ if self.is_in_eight_bits(saved) => ElementType::Fp8,
            _ => self.compute,
        }
    }

    /// Whether a block under a mode that keeps what is in `kept` keeps `saved`.
    pub fn keeps(&self, kept: &[SavedTensor], saved: SavedTensor) -> bool {
        let drops = &self.engine.activations.eight_bit_drops;
        let is_dropped = self.multiply == ElementType::Fp8 && drops.contains(&saved);
        saved == SavedTensor::BlockInput || (kept.contains(&saved) && !is_dropped)
    }

    /// Whether the engine stores `tensor` at all when nothing is checkpointed.
    pub fn stores(&self, tensor: SavedTensor) -> bool {
        self.engine.activations.keeps.contains(&tensor)
    }
}
