//! Whether calls have the shape of the op that was priced for them.

use crate::execute::call::{Call, Columns, Factor};
use crate::ops::{Linear, Op};

/// How much of something an op was priced for, and how much its calls do.
pub(super) struct Shape {
    pub priced: u64,
    pub bound: u64,
}

/// The shape of `op` beside that of its `calls`; none where an op has a price that says nothing of shapes.
pub(super) fn shape(op: &Op, calls: &[Call]) -> Option<Shape> {
    let (priced, bound) = match op {
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

fn most(calls: &[Call], of: impl Fn(&Call) -> usize) -> u64 {
    calls.iter().map(of).max().unwrap_or_default() as u64
}
