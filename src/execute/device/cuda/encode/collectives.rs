//! Which kernels collectives between ranks that share a GPU launch.

use super::super::error::CudaError;
use super::super::launch::collectives::{self as launches, Wire};
use super::super::launch::runs::Types;
use super::super::launch::{Source, gradient_norm};
use crate::execute::call::Exchange;
use crate::execute::comm::Reduction;
use crate::units::ElementType;

/// The source whose kernels `exchange` launches, if it launches any; activations are of `types`.
///
/// # Errors
/// If there is no kernel for its sums.
pub fn source(exchange: &Exchange, types: Types) -> Result<Option<Source>, CudaError> {
    let (view, reduction) = match exchange {
        Exchange::AllReduce { data, reduction } => (data, Some(*reduction)),
        Exchange::ReduceScatter { whole, reduction, .. }
        | Exchange::ReduceScatterInPlace { whole, reduction } => (whole, Some(*reduction)),
        Exchange::SumNeighbours { data, .. } => (data, None),
        Exchange::Heads { .. } => return Ok(Some(launches::source(types, Wire::Exact))),
        Exchange::AllGather { .. }
        | Exchange::AllGatherInPlace { .. }
        | Exchange::AllToAll { .. }
        | Exchange::Shift { .. } => return Ok(None),
    };
    let Some((_, element)) = view.numbers() else { return Ok(None) };
    source_of_sum(element, reduction.unwrap_or(Reduction::sum(element))).map(Some)
}

/// The source of a sum of `element`; the only sums of fp64 are those of squares.
///
/// # Errors
/// If it is of other numbers, or travels as others.
pub fn source_of_sum(element: ElementType, reduction: Reduction) -> Result<Source, CudaError> {
    let types = match element {
        ElementType::Fp32 => Types::F32,
        ElementType::Bf16 => Types::Bf16,
        ElementType::Fp64 => return Ok(gradient_norm::source(Types::F32)),
        other => return Err(CudaError::Unsupported(format!("sums of {other} have no kernel"))),
    };
    let wire = match reduction.wire {
        wire if wire.size() >= element.size() => Wire::Exact,
        ElementType::Bf16 => Wire::Bf16,
        ElementType::Fp16 => Wire::F16,
        other => return Err(CudaError::Unsupported(format!("sums that travel as {other} have no kernel"))),
    };
    Ok(launches::source(types, wire))
}
