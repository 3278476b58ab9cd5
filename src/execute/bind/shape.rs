//! Whether calls have the shape of the op that was priced for them.

use crate::execute::call::{Call, Columns, Exchange, Factor};
use crate::execute::ranks::placement::Issue;
use crate::ops::Op;
use crate::program::instruction::Task;

/// How much of something an op was priced for, and how much its calls do.
pub(super) struct Shape {
    pub priced: u64,
    pub bound: u64,
}

/// The shape of the op of `issue` beside that of its `calls`; none where its price says nothing of their shapes.
///
/// What depends on the length of shards is compared on ranks that hold the first ones: later ones may be shorter, and
/// a class of ranks is priced by the one that has most.
pub(super) fn shape(issue: &Issue, calls: &[Call], has_first_shards: bool) -> Option<Shape> {
    let all = |of: fn(&Call) -> u64| calls.iter().map(of).sum::<u64>();
    let most = |of: fn(&Call) -> u64| calls.iter().map(of).max().unwrap_or_default();
    let (priced, bound) = match (&issue.op, issue.task) {
        (Op::Linear(op), _) => (op.batch * op.rows * op.columns * op.depth, all(multiplications)),
        (Op::Norm(op), _) => (op.rows * op.width, most(normed)),
        (Op::Attention(op), _) => {
            (op.batch * op.heads * (op.query_dim + op.value_dim), most(columns_of_attention))
        }
        (Op::CrossEntropy(op), _) => (op.rows * op.columns, most(logits)),
        (Op::Embedding(op), _) => (op.rows * op.width, calls.iter().map(looked_up).find(|&count| count > 0)?),
        (Op::Elementwise(op), Task::Kernel { .. }) => {
            // Where nothing is dropped, a kernel that only drops is none.
            (op.elements, calls.iter().map(elements).find(|&count| count > 0)?)
        }
        (Op::Elementwise(op), Task::WeighGradient { .. } | Task::WeighFlow { .. }) => {
            (op.elements, all(elements))
        }
        (Op::AdamW(op), _) if has_first_shards => (op.elements, all(updated)),
        (Op::Send(bytes) | Op::Receive(bytes), _) => (bytes.0, most(sent)),
        (
            Op::CopyOut(bytes) | Op::CopyIn(bytes),
            Task::FetchParameters | Task::StashActivations | Task::UnstashActivations | Task::CopyScalars,
        ) => (bytes.0, all(copied)),
        (Op::CopyOut(bytes) | Op::CopyIn(bytes), _) if has_first_shards => (bytes.0, all(copied)),
        (Op::Collective(op), Task::Kernel { .. } | Task::SumSquares) => (op.bytes.0, most(payload)),
        (Op::Collective(op), Task::GatherParameters(_) | Task::GatherUpdated(_)) => {
            (op.bytes.0, all(payload))
        }
        (Op::Collective(op), Task::ReduceGradient(_) | Task::SumReplicas(_)) if has_first_shards => {
            (op.bytes.0, all(on_the_wire))
        }
        _ => return None,
    };
    Some(Shape { priced, bound })
}

/// Multiplications of a product; none of what is no product.
fn multiplications(call: &Call) -> u64 {
    let Call::Gemm(gemm) = call else { return 0 };
    let Factor { matrix: Columns { view, stride, columns, .. }, .. } = gemm.a;
    // Whichever way the first factor stands, its elements meet each column of the result once.
    let elements = view.len() / stride.max(1) * columns;
    (elements * gemm.output.columns) as u64
}

/// Elements that a norm reads.
const fn normed(call: &Call) -> u64 {
    let input = match call {
        Call::Norm(call) => call.input,
        Call::NormGradient(call) => call.input,
        Call::NormWeight(call) => call.input,
        _ => return 0,
    };
    input.len() as u64
}

/// Columns of queries and values of all heads and sequences.
const fn columns_of_attention(call: &Call) -> u64 {
    let core = match call {
        Call::Attention(call) => &call.core,
        Call::AttentionGradient(call) => &call.core,
        _ => return 0,
    };
    (core.batch * core.heads.heads * (core.heads.query_dim + core.heads.value_dim)) as u64
}

const fn logits(call: &Call) -> u64 {
    match call {
        Call::CrossEntropy { logits, .. } | Call::CrossEntropyGradient { logits, .. } => logits.len() as u64,
        _ => 0,
    }
}

/// Elements of rows of a table.
const fn looked_up(call: &Call) -> u64 {
    match call {
        Call::Embed { output, .. } => output.view.len() as u64,
        Call::EmbedGradient { output_gradient, .. } => output_gradient.len() as u64,
        _ => 0,
    }
}

/// Elements that a call over elements makes.
const fn elements(call: &Call) -> u64 {
    let made = match call {
        Call::Activation(call) => call.output,
        Call::ActivationGradient(call) => call.output_gradient,
        Call::ExpertActivation(call) => call.output,
        Call::ExpertActivationGradient(call) => call.output_gradient,
        Call::Residual(call) => call.output,
        Call::Embed { output, .. } => output.view,
        Call::Dropout { data, .. } | Call::Scale { data, .. } => *data,
        Call::Copy { to, .. } | Call::Add { to, .. } | Call::AddScaled { to, .. } | Call::Zero { to } => *to,
        Call::Quantise { from, .. } => *from,
        Call::Dequantise { to, .. } => *to,
        Call::SquaredError { values, .. } | Call::SquaredErrorGradient { values, .. } => *values,
        _ => return 0,
    };
    made.len() as u64
}

const fn updated(call: &Call) -> u64 {
    match call {
        Call::AdamW(call) => call.gradient.len() as u64,
        _ => 0,
    }
}

/// Bytes of a message.
const fn sent(call: &Call) -> u64 {
    match call {
        Call::Send { from, .. } => from.region.bytes as u64,
        Call::Receive { to, .. } => to.region.bytes as u64,
        _ => 0,
    }
}

/// Bytes that a copy moves.
const fn copied(call: &Call) -> u64 {
    match call {
        Call::Copy { to, .. } => to.region.bytes as u64,
        _ => 0,
    }
}

/// The whole payload of one rank in bytes; of heads that go to several ranks, all that arrive.
const fn payload(call: &Call) -> u64 {
    let Call::Collective { exchange, .. } = call else { return 0 };
    let view = match exchange {
        Exchange::AllReduce { data, .. } | Exchange::SumNeighbours { data, .. } => data,
        Exchange::ReduceScatter { whole, .. }
        | Exchange::ReduceScatterInPlace { whole, .. }
        | Exchange::AllGather { whole, .. }
        | Exchange::AllGatherInPlace { whole } => whole,
        Exchange::AllToAll { from, .. } | Exchange::Shift { from, .. } => from,
        Exchange::Heads { from, to, .. } => {
            if from.region.bytes > to.region.bytes {
                from
            } else {
                to
            }
        }
    };
    view.region.bytes as u64
}

/// As [`payload`], in the type in which sums travel.
const fn on_the_wire(call: &Call) -> u64 {
    let Call::Collective { exchange, .. } = call else { return 0 };
    match exchange {
        Exchange::AllReduce { data: view, reduction }
        | Exchange::ReduceScatter { whole: view, reduction, .. }
        | Exchange::ReduceScatterInPlace { whole: view, reduction } => {
            view.len() as u64 * reduction.wire.size()
        }
        _ => payload(call),
    }
}
