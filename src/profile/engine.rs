//! Engine profiles: what one training engine saves, keeps, orders and overlaps; a file under `cost_models/engines/`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capabilities::Supports;
use super::choices::{AttentionKernel, CheckpointMode};
use super::evidence::Sourced;
use super::expert_load::ExpertLoad;
use super::recomputed::{Part, RecomputedModule};
use crate::units::{ElementType, Seconds};

/// One training engine, as data. Its facts and their sources stand in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineProfile {
    pub version: u32,
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The profile that it is kin of, and whose facts hold where its file says nothing: runs of either are evidence for
    /// the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherits: Option<String>,
    /// Whether it is kept to judge published runs, and made no plans for.
    #[serde(default)]
    pub historical: bool,
    /// Where its facts come from.
    pub sources: Vec<String>,
    pub supports: Supports,
    pub state: StateModel,
    pub buffers: BufferModel,
    pub activations: ActivationModel,
    /// How many tokens come to experts where none is dropped and its kernels take as many as come; without it, every
    /// expert has slots for all tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropless: Option<ExpertLoad>,
    pub logits: LogitsModel,
    pub vocabulary: VocabularyPadding,
    /// The kernel that runs where a strategy names none.
    pub attention: AttentionKernel,
    pub defaults: EngineDefaults,
    pub timing: TimingModel,
}

/// What the engine does unless told otherwise, where a published run does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineDefaults {
    pub checkpointing: CheckpointMode,
    /// Probability that an element is dropped.
    pub dropout: f64,
    /// The ZeRO stage that its own recipes use: of plans that are as good, one with this stage is the simpler.
    pub zero: u8,
    /// The type that its own recipes keep and reduce gradients in under mixed precision, where that is not the type of a
    /// strategy that says nothing: a numeric choice that plans for it may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient: Option<ElementType>,
}

/// Communication that an engine may run beside its kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Gradients are reduced while the backward goes on; otherwise behind the last backward.
    Gradients,
    /// Sharded parameters are gathered ahead of their unit.
    Gathers,
    /// Updated parameters are gathered while the next step's first forward runs; otherwise behind the update.
    Updates,
    /// Activations and gradients travel between stages while passes compute; a pass starts before all its input is there.
    Sends,
}

/// What an engine's steps take beside its kernels, and what it runs at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimingModel {
    /// Communication that runs beside computing; what is not named stands in the queue of the kernels.
    pub overlaps: Vec<Overlap>,
    /// Messages between stages are cut over the tensor group, whose ranks hold the same, and gathered on arrival
    /// (Narayanan et al. 2021, arXiv 2104.04473, section 4.1).
    pub scatters_messages: bool,
    /// Time of the host to issue the kernels of one op (interpreter, dispatcher and launch); a device that is faster
    /// waits.
    pub host_time: Sourced<Seconds>,
    /// The same of a collective or a message.
    pub collective_host_time: Sourced<Seconds>,
    /// Share of the device's rate of products that the engine sustains: eager kernels leave gaps for allocation,
    /// bookkeeping and bias that fused ones do not.
    pub product_share: Sourced<f64>,
    /// Whether 32-bit products are multiplied in TF32 where the device can: XLA and NVIDIA's containers say so, PyTorch
    /// alone does not.
    #[serde(default)]
    pub tensor_float: bool,
    /// Whether a token that goes to several experts of one domain of links is sent there once (DeepEP, HybridEP), and not
    /// once for each.
    #[serde(default)]
    pub sends_tokens_once: bool,
    /// Share of the rate of products that those of experts reach, which are many small ones.
    pub expert_share: Sourced<f64>,
    /// Share of the exchanges of experts' tokens that products of another micro-batch hide (DualPipe, deepseek-ai/DualPipe);
    /// none if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange_hidden: Option<Sourced<f64>>,
    /// Whether its fused attention was written for the devices of 2020 (FlashAttention 2).
    #[serde(default)]
    pub older_attention: bool,
    /// Share of the device's rate of fused attention that the engine's kernels reach.
    pub attention_share: Sourced<f64>,
    /// Where scores are tensors: what heads times sequences of a rank must be a multiple of for the engine's fused
    /// softmax; else, and always where it is 0, scaling, masking, softmax and casts are kernels of their own.
    pub softmax_multiple: Sourced<u64>,
    /// Share of collectives inside layers over the tensor group that products cut in pieces hide.
    pub tensor_hidden: Sourced<f64>,
    /// The same share where tensor parallelism is asynchronous: each collective is cut in pieces that products use as
    /// they come.
    pub asynchronous_hidden: Sourced<f64>,
    /// Passes over the factors of a product in 8 bits, to scale and cast them.
    pub cast_passes: Sourced<f64>,
    /// Bytes that norms, activations and residual adds move, as a factor of what one fused kernel each would.
    pub elementwise_passes: Sourced<f64>,
    /// The same where the model is compiled.
    pub compiled_passes: Sourced<f64>,
    /// The same of the loss over logits.
    pub loss_passes: Sourced<f64>,
    /// The same of tokens' ways into and out of experts' slots.
    pub routing_passes: Sourced<f64>,
    /// The same of the optimizer step.
    pub optimizer_passes: Sourced<f64>,
    /// Time of a step that grows with nothing: data, logging, waiting for the host.
    pub step_time: Sourced<Seconds>,
}

/// A type that depends on the strategy or is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TypeRule {
    /// What the strategy's key says (`grad` for keeping, `reduce` for reducing).
    Strategy,
    /// The type of the working parameters.
    Compute,
    /// That in which gradients are kept (Megatron reduces them where they lie).
    AsKept,
    /// 32 bits.
    Single,
    /// 32 bits where parameters are bf16, whose digits are too few to sum in; else the parameters' type.
    SingleForBf16,
}

impl TypeRule {
    /// The type that results, given the strategy's (or that of what is kept, where it follows that) and the compute type.
    pub const fn resolve(self, strategy: ElementType, compute: ElementType) -> ElementType {
        match self {
            Self::Strategy | Self::AsKept => strategy,
            Self::Compute => compute,
            Self::Single => match compute {
                ElementType::Fp64 => ElementType::Fp64,
                _ => ElementType::Fp32,
            },
            Self::SingleForBf16 => match compute {
                ElementType::Bf16 => ElementType::Fp32,
                _ => compute,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MasterWeights {
    /// 16-bit working parameters and 32-bit master weights beside the moments.
    Separate,
    /// The stored parameters are the 32-bit master weights; 16-bit copies are made a unit at a time.
    Stored,
    /// There are none: working parameters are updated as they are, and the moments are of their type.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageOneCollective {
    /// Whole gradients are all-reduced in the shard group, then across replicas (ColossalAI).
    AllReduce,
    /// Whole gradients are all-reduced over all data ranks at once (InternEvo).
    AllReduceTogether,
    ReduceScatter,
}

/// What is kept for each parameter over a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateModel {
    pub master_weights: MasterWeights,
    /// The lowest ZeRO stage at which parameters are stored sharded.
    pub parameters_sharded_from: u8,
    pub gradient_kept: TypeRule,
    pub gradient_reduced: TypeRule,
    pub stage_one_collective: StageOneCollective,
    /// At the step, sharded 16-bit gradients are copied to 32 bits.
    pub single_precision_gradient_copy: bool,
    /// Where whole gradients are kept in a wider type than the parameters', each micro-batch's stay beside them in the
    /// parameters' type (DeepSpeed's bf16 optimizer).
    #[serde(default)]
    pub keeps_working_gradients: bool,
    /// Gradients that are kept whole are added up by kernels of their own; else the products that make them add them.
    pub accumulates_apart: bool,
    /// Under ZeRO-3 and one micro-batch, gradients take the place of the parameter shards (Gemini).
    pub gradients_reuse_parameters: bool,
    /// Gradients are given back behind the update and come with the backward that first writes them (PyTorch's
    /// `zero_grad(set_to_none=True)`), so that the loss has their room.
    #[serde(default)]
    pub gradients_given_back: bool,
    /// Reduced gradients are kept where the optimizer state is: on the host, if that is there.
    #[serde(default)]
    pub gradients_follow_optimizer: bool,
    /// Parameters that are whole and wider than the kernels' type are cast for the forward, and the casts stay until
    /// the backward (PyTorch's autocast).
    #[serde(default)]
    pub casts_stay: bool,
}

impl StateModel {
    /// The type that gradients are reduced in, of which `kept` is kept and `asked` is asked for.
    pub fn reduced(&self, kept: ElementType, asked: ElementType, compute: ElementType) -> ElementType {
        let from = if self.gradient_reduced == TypeRule::AsKept { kept } else { asked };
        self.gradient_reduced.resolve(from, compute)
    }
}

/// Communication buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BufferModel {
    /// Bucket-sized staging buffers that gradient reduction holds; 0 reduces in place.
    pub reduce_buckets: u64,
    /// ZeRO-3 units whose gathered parameters may live at once: the current one and those prefetched.
    pub gathered_units: u64,
    /// Elements of a ZeRO-3 unit that are gathered at a time, or its largest tensor, where the engine gathers tensor by
    /// tensor; all of it if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gathers_at_most: Option<u64>,
    /// With a pipeline, gathered parameters stay until the last backward of the step (PyTorch).
    pub pipeline_keeps_gathered: bool,
    /// The program's own offsets are used: one block holds all buffers, and messages between pipeline ranks arrive in
    /// memory that is kept for one of each kind.
    #[serde(default)]
    pub placed: bool,
    /// Bytes of scratch that kernels share, where the engine counts it among what it hands out.
    pub workspace: u64,
    /// Weight gradients are added to the kept ones by the product itself, and a tensor of their shape and the
    /// parameters' type stands in for each: one for all matrices of a shape for good (Transformer Engine), the head's
    /// while its own is computed.
    #[serde(default)]
    pub placeholder_gradients: bool,
    /// The gradient of the head's input stays, while it is summed over the tensor group, until the head's weight
    /// gradient is there.
    #[serde(default)]
    pub input_gradient_stays: bool,
    /// Streams on which products of experts run at the same time, each with scratch of its own.
    #[serde(default)]
    pub expert_streams: u64,
    /// What the engine's allocator reserves beyond what other programs on the device do, as a factor; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragmentation: Option<Sourced<f64>>,
}

/// Tensors that a block's backward may need, as far as an engine decides about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SavedTensor {
    /// The residual stream that enters a block.
    BlockInput,
    /// The residual stream that enters a norm inside a block.
    NormInput,
    /// Mean and reciprocal deviation of each row.
    NormStatistics,
    /// The same, and beside them the rows in 32 bits before the norm's weight multiplies them: norms that are several
    /// kernels.
    WideNorm,
    /// Norm output: the input of the first matrices.
    LinearInput,
    /// The same, gathered over the tensor group, in place of the rank's share.
    GatheredInput,
    QueryKeyValue,
    /// Low-rank latents of multi-head latent attention.
    Latent,
    /// What their norms make of them.
    NormedLatent,
    /// Probabilities after softmax and after dropout, where scores are materialised.
    AttentionProbabilities,
    AttentionOutput,
    /// Attention output, copied in the order in which its projection reads it.
    ProjectionInput,
    LogSumExp,
    /// Gate projection, before its activation.
    Gate,
    /// The same of routed experts.
    ExpertGate,
    /// Up projection; before the activation where there is no gate.
    Up,
    /// The gate after its activation, kept by unfused gating.
    GateActivation,
    /// Input of the down projection.
    ActivationOutput,
    /// Output of the down projection, after its reduction.
    MlpOutput,
    /// Masks of dropout, one byte an element.
    DropoutMask,
    /// Router probabilities and choices.
    Routing,
    /// Tokens as an expert receives them.
    ExpertInput,
    /// The same where they come from other ranks.
    ReceivedInput,
    /// What experts on other ranks made of a rank's own tokens.
    ReturnedOutput,
}

/// Where the residual stream that norms read is kept in 32 bits beside kernels of 16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WideStream {
    #[default]
    Never,
    /// Unless the model is compiled.
    Uncompiled,
    Always,
}

/// What is kept from forward to backward.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActivationModel {
    /// Kept without checkpointing.
    pub keeps: Vec<SavedTensor>,
    /// Kept under `selective`; what else the backward reads is recomputed.
    pub selective_keeps: Vec<SavedTensor>,
    /// Modules of which nothing of these is kept under `selective`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selective_recomputes: Vec<RecomputedModule>,
    /// What of these a compiled model does not keep, because no gradient reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled_drops: Vec<SavedTensor>,
    /// Inputs of products in 8 bits are kept in 8 bits.
    #[serde(default)]
    pub eight_bit_inputs: bool,
    /// What of these is not kept where products are in 8 bits, and again where the model is compiled too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eight_bit_drops: Vec<SavedTensor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compiled_eight_bit_drops: Vec<SavedTensor>,
    /// Where the residual stream is kept in 32 bits.
    #[serde(default)]
    pub wide_stream: WideStream,
    /// Where scores are tensors, their softmax is made and kept in 32 bits, beside its copy for the product.
    #[serde(default)]
    pub single_precision_softmax: bool,
    /// Recomputation stops at the last tensor that the backward reads.
    pub recompute_stops_early: bool,
}

impl ActivationModel {
    /// What a block keeps under `mode` beside its input; what else its backward reads is recomputed.
    pub fn kept(&self, mode: CheckpointMode) -> &[SavedTensor] {
        match mode {
            CheckpointMode::None => &self.keeps,
            CheckpointMode::Selective => &self.selective_keeps,
            CheckpointMode::Full => &[],
        }
    }

    /// Whether what is made in `part` of a block is made again under `mode`.
    pub fn recomputes(&self, mode: CheckpointMode, part: Option<Part>) -> bool {
        let is_covered = |part| self.selective_recomputes.iter().any(|module| module.covers(part));
        mode == CheckpointMode::Selective && part.is_some_and(is_covered)
    }

    /// Whether all of the block's forward runs again under `mode`, not only what its backward reads.
    pub const fn runs_forward_again(&self, mode: CheckpointMode) -> bool {
        matches!(mode, CheckpointMode::Full) && !self.recompute_stops_early
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogitsModel {
    /// A 32-bit copy of the logits is made for the loss.
    pub single_precision_copy: bool,
    /// That copy is in the logits' own type: nothing asks for more digits.
    #[serde(default)]
    pub copy_in_their_type: bool,
    /// The loss is compiled where the model is: it makes no copies, and the gradient is of the logits' type.
    #[serde(default)]
    pub compiled_with_model: bool,
    /// The gradient overwrites the logits it is taken of.
    pub gradient_in_place: bool,
    /// The logits are given back behind the 32-bit copy of them.
    #[serde(default)]
    pub freed_behind_copy: bool,
    /// Further 32-bit tensors of their size while the loss is computed.
    #[serde(default)]
    pub forward_copies: u64,
    /// The same while its gradient is.
    #[serde(default)]
    pub backward_copies: u64,
    /// The same, beside these, where the vocabulary is split over tensor ranks.
    #[serde(default)]
    pub split_backward_copies: u64,
    /// Tokens of a micro-batch are cut in this many chunks under `loss=chunked`.
    pub chunks: u64,
}

/// Rows of the vocabulary are padded to a multiple of `multiple`, times the tensor-parallel size if so said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VocabularyPadding {
    pub multiple: u64,
    pub times_tensor_parallel: bool,
}

impl BufferModel {
    /// Whether gradients are gathered in buckets on their way through a reduction, a message each.
    pub const fn reduces_in_buckets(&self) -> bool {
        self.reduce_buckets > 0
    }
}

impl TimingModel {
    /// Whether `kind` of communication runs beside the kernels.
    pub fn overlaps(&self, kind: Overlap) -> bool {
        self.overlaps.contains(&kind)
    }
}

impl VocabularyPadding {
    /// Rows that are allocated for `rows` rows on `tensor` tensor-parallel ranks; divisible by `tensor`.
    pub const fn padded(&self, rows: u64, tensor: u64) -> u64 {
        let multiple = if self.times_tensor_parallel {
            self.multiple * tensor
        } else if self.multiple.is_multiple_of(tensor) {
            self.multiple
        } else {
            tensor
        };
        rows.div_ceil(multiple) * multiple
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::engines::{engine, engines};

    #[test]
    fn padded_vocabularies_divide_by_the_tensor_size() {
        let megatron = engine("megatron").unwrap();
        assert_eq!(megatron.vocabulary.padded(50_257, 1), 50_304);
        assert_eq!(megatron.vocabulary.padded(50_257, 8), 51_200);
        for profile in engines() {
            for tensor in 1..=16 {
                let padded = profile.vocabulary.padded(50_257, tensor);
                assert!(padded >= 50_257 && padded.is_multiple_of(tensor));
            }
        }
    }
}
