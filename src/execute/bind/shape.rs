//! Whether calls have the shape of the op that was priced for them.

use crate::execute::call::{Call, Columns, Exchange, Factor};
use crate::execute::ranks::placement::Issue;
use crate::ops::{Linear, Op};
use crate::program::instruction::Task;

/// How much of something an op was priced for, and how much its calls do.
pub(super) struct Shape {
    pub priced: u64,
    pub bound: u64,
}

/// The shape of the op of `issue` beside that of its `calls`; none where its price says nothing of their shapes.
pub(super) fn shape(issue: &Issue, calls: &[Call]) -> Option<Shape> {
    let is_kernel = matches!(issue.task, Task::Kernel { .. });
    // Of other copies and collectives, a class of ranks is priced by the one that has most.
    let is_copied =
        matches!(issue.task, Task::FetchParameters | Task::StashActivations | Task::UnstashActivations);
    let (priced, bound) = match &issue.op {
        Op::Linear(op) => (multiplications(op), calls.iter().map(products).sum()),
        Op::Norm(op) => (
            op.rows * op.width,
            most(calls, |call| match call {
                Call::Norm(call) => call.input.len(),
                Call::NormGradient(call) => call.input.len(),
                Call::NormWeight(call) => call.input.len(),
                _ => 0,
            }),
        ),
        Op::Attention(op) => (
            op.batch * op.heads * (op.query_dim + op.value_dim),
            most(calls, |call| {
                let core = match call {
                    Call::Attention(call) => &call.core,
                    Call::AttentionGradient(call) => &call.core,
                    _ => return 0,
                };
                core.batch * core.heads.heads * (core.heads.query_dim + core.heads.value_dim)
            }),
        ),
        Op::CrossEntropy(op) => (
            op.rows * op.columns,
            most(calls, |call| match call {
                Call::CrossEntropy { logits, .. } | Call::CrossEntropyGradient { logits, .. } => logits.len(),
                _ => 0,
            }),
        ),
        Op::Send(bytes) | Op::Receive(bytes) => (
            bytes.0,
            most(calls, |call| match call {
                Call::Send { from, .. } => from.region.bytes,
                Call::Receive { to, .. } => to.region.bytes,
                _ => 0,
            }),
        ),
        Op::CopyOut(bytes) | Op::CopyIn(bytes) if is_copied => (bytes.0, calls.iter().map(copied).sum()),
        Op::Collective(op) if is_kernel => (
            op.bytes.0,
            most(calls, |call| match call {
                Call::Collective { exchange, .. } => payload(exchange),
                _ => 0,
            }),
        ),
        _ => return None,
    };
    Some(Shape { priced, bound })
}

const fn multiplications(op: &Linear) -> u64 {
    op.batch * op.rows * op.columns * op.depth
}

/// Multiplications of a product; none of what is no product.
fn products(call: &Call) -> u64 {
    let Call::Gemm(gemm) = call else { return 0 };
    let Factor { matrix: Columns { view, stride, columns, .. }, .. } = gemm.a;
    // Whichever way the first factor stands, its elements meet each column of the result once.
    let elements = view.len() / stride.max(1) * columns;
    (elements * gemm.output.columns) as u64
}

/// Bytes that a copy moves.
const fn copied(call: &Call) -> u64 {
    match call {
        Call::Copy { to, .. } => to.region.bytes as u64,
        _ => 0,
    }
}

/// The whole payload of one rank in bytes; of heads that go to several ranks, all that arrive.
fn payload(exchange: &Exchange) -> usize {
    let view = match *exchange {
        Exchange::AllReduce { data, .. } | Exchange::SumNeighbours { data, .. } => data,
        Exchange::ReduceScatter { whole, .. }
        | Exchange::ReduceScatterInPlace { whole, .. }
        | Exchange::AllGather { whole, .. }
        | Exchange::AllGatherInPlace { whole } => whole,
        Exchange::AllToAll { from, .. } | Exchange::Shift { from, .. } => from,
        Exchange::Heads { from, to, .. } => {
            return from.region.bytes.max(to.region.bytes);
        }
    };
    view.region.bytes
}

fn most(calls: &[Call], of: impl Fn(&Call) -> usize) -> u64 {
    calls.iter().map(of).max().unwrap_or_default() as u64
}
