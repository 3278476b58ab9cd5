//! From a call to the kernels, copies and fills that do it. Nothing is launched here: what a call becomes depends on
//! where a rank's memory lies and on the library of products, and on nothing else.

mod attention;
pub mod collectives;
mod elementwise;
mod embedding;
mod experts;
mod losses;
mod materialised;
mod norm;
mod products;
mod update;

use super::cublas_lt::Products;
use super::error::CudaError;
use super::launch::gemm::Element;
use super::launch::runs::Types as KernelTypes;
use super::memory::Memory;
use super::work::{Kernel, Span, Work, Works};
use crate::execute::call::{Call, View};
use crate::execute::storage::{Storage, Types};
use crate::units::{Bytes, ElementType};

/// What makes work of the calls of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Encoder<'r> {
    pub memory: &'r Memory,
    pub types: KernelTypes,
    pub products: &'r Products,
    pub multiprocessors: u32,
}

type Encoded = Result<Works, CudaError>;

/// The types that kernels are compiled for.
///
/// # Errors
/// If there are no kernels for such numbers.
pub fn kernel_types(types: Types) -> Result<KernelTypes, CudaError> {
    match (types.compute, types.gradient) {
        (Storage::Number(ElementType::Fp32), Storage::Number(ElementType::Fp32)) => Ok(KernelTypes::F32),
        (Storage::Number(ElementType::Bf16), Storage::Number(ElementType::Bf16)) => Ok(KernelTypes::Bf16),
        (Storage::Number(ElementType::Bf16), Storage::Number(ElementType::Fp32)) => {
            Ok(KernelTypes::Bf16WithF32Gradients)
        }
        (compute, gradient) => {
            let what = format!("{compute} with gradients in {gradient}; bf16 and fp32 can be trained");
            Err(CudaError::Unsupported(what))
        }
    }
}

impl Encoder<'_> {
    /// The work of `call`, which is neither communication nor looked at by the host.
    ///
    /// # Errors
    /// What has no kernel, or is too large for one.
    pub fn encode(&self, call: &Call) -> Encoded {
        match call {
            Call::Embed { .. } | Call::EmbedGradient { .. } => self.embedding(call),
            Call::Gemm(gemm) => self.gemm(gemm),
            Call::BiasGradient { output_gradient, bias } => self.bias_gradient(output_gradient, bias),
            Call::Norm(call) => self.norm(call),
            Call::NormGradient(call) => self.norm_gradient(call),
            Call::NormWeight(call) => self.norm_weight(call),
            Call::Rotary(call) => self.rotary(call),
            Call::Attention(call) => self.attention(call),
            Call::AttentionGradient(call) => self.attention_gradient(call),
            Call::Activation(call) => self.activation(call),
            Call::ActivationGradient(call) => self.activation_gradient(call),
            Call::ExpertActivation(call) => self.expert_activation(call),
            Call::ExpertActivationGradient(call) => self.expert_activation_gradient(call),
            Call::CopyColumns { .. }
            | Call::Residual(_)
            | Call::Dropout { .. }
            | Call::Copy { .. }
            | Call::Add { .. }
            | Call::Zero { .. }
            | Call::Poison { .. }
            | Call::Scale { .. }
            | Call::AddScaled { .. }
            | Call::Quantise { .. }
            | Call::Dequantise { .. } => self.elementwise(call),
            Call::Route { .. }
            | Call::ToSlots { .. }
            | Call::FromSlots { .. }
            | Call::RouterGradient { .. } => self.routing(call),
            Call::CrossEntropy { .. }
            | Call::MergeStatistics { .. }
            | Call::AddLoss { .. }
            | Call::CrossEntropyGradient { .. }
            | Call::SquaredError { .. }
            | Call::SquaredErrorGradient { .. } => self.loss(call),
            Call::Squares { .. }
            | Call::ClipFactor { .. }
            | Call::LossWeight(_)
            | Call::SetNumber { .. }
            | Call::AdamW(_) => self.update(call),
            Call::Collective { .. } | Call::Send { .. } | Call::Receive { .. } | Call::Check { .. } => {
                unreachable!("{call:?} is no work of one stream")
            }
        }
    }

    fn at(&self, view: View) -> Span {
        self.memory.at(view)
    }

    fn at_any(&self, view: Option<View>) -> Option<Span> {
        view.map(|view| self.at(view))
    }

    /// Bytes of an activation.
    fn size(&self) -> u64 {
        match self.types {
            KernelTypes::F32 => 4,
            KernelTypes::Bf16 | KernelTypes::Bf16WithF32Gradients => 2,
        }
    }

    /// The first `bytes` bytes of the scratch.
    fn scratch(&self, what: &'static str, bytes: u64) -> Result<Span, CudaError> {
        let all = self.memory.workspace();
        if bytes > all.bytes {
            return Err(CudaError::Scratch { what, needed: Bytes(bytes), scratch: Bytes(all.bytes) });
        }
        Ok(all.first(bytes))
    }
}

/// The type that values of `storage` are computed in where a source is compiled for its values alone.
fn types_of(storage: Storage) -> Result<KernelTypes, CudaError> {
    match element(storage)? {
        Element::Bf16 => Ok(KernelTypes::Bf16),
        Element::F32 => Ok(KernelTypes::F32),
    }
}

fn element(storage: Storage) -> Result<Element, CudaError> {
    match storage {
        Storage::Number(ElementType::Bf16) => Ok(Element::Bf16),
        Storage::Number(ElementType::Fp32) => Ok(Element::F32),
        other => Err(CudaError::Unsupported(format!("no kernel computes with {other}"))),
    }
}

/// A count as kernels take it.
fn small(what: &'static str, count: usize) -> Result<u32, CudaError> {
    u32::try_from(count).map_err(|_| CudaError::Size { what, count })
}

fn work(kernel: Kernel) -> Work {
    Work::Kernel(Box::new(kernel))
}

fn one(kernel: Kernel) -> Encoded {
    Ok(Works::from_iter([work(kernel)]))
}

fn nothing() -> Encoded {
    Ok(Works::new())
}
