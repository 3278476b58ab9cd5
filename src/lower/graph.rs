//! The ops of a unit as a graph over named values, before anything is decided about keeping them.

use crate::lower::Category;
use crate::lower::shape::Shape;
use crate::ops::{Collective, CollectiveKind, Elementwise, ElementwiseKind, Group, Linear, Op, RowNorm};
use crate::profile::engine::SavedTensor;
use crate::units::Bytes;

/// The order in which a rank issues instructions is one; each stream then runs its own in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    Compute,
    /// Collectives inside a layer: tensor, context and expert groups.
    Model,
    /// Collectives over parameters and gradients.
    Data,
    Send,
    Receive,
    CopyOut,
    CopyIn,
    /// Optimizer steps on the host.
    Host,
}

impl Stream {
    /// All streams.
    pub const ALL: [Self; 8] = [
        Self::Compute,
        Self::Model,
        Self::Data,
        Self::Send,
        Self::Receive,
        Self::CopyOut,
        Self::CopyIn,
        Self::Host,
    ];
}

/// Index of a value in its unit.
pub type ValueId = u16;

/// A tensor of one rank, micro-batch and unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub name: &'static str,
    pub bytes: Bytes,
    pub category: Category,
    /// What the engine profile calls it, where it decides whether to keep it.
    pub saved: Option<SavedTensor>,
    /// Elements of the compute type, where the value can be stored as integers; else 0.
    pub elements: u64,
}

/// One op, what it reads and what it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub op: Op,
    pub stream: Stream,
    pub reads: Vec<ValueId>,
    pub writes: Vec<ValueId>,
    /// Works for a weight gradient only: zero-bubble schedules may run it later.
    pub weight: bool,
}

/// A unit's ops, forward and backward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitGraph {
    pub values: Vec<Value>,
    pub forward: Vec<Node>,
    pub backward: Vec<Node>,
    /// The residual stream (bundle of edges) that enters; none for an embedding.
    pub input: Option<ValueId>,
    /// What leaves; none after a loss with nothing behind it.
    pub output: Option<ValueId>,
    /// Gradient that arrives for `output`.
    pub output_gradient: Option<ValueId>,
    /// Gradient that leaves for `input`.
    pub input_gradient: Option<ValueId>,
}

/// Writes a [`UnitGraph`], one op at a time.
pub struct Builder<'a> {
    pub shape: Shape<'a>,
    pub values: Vec<Value>,
    pub forward: Vec<Node>,
    pub backward: Vec<Node>,
    into_backward: bool,
}

impl<'a> Builder<'a> {
    pub fn new(shape: Shape<'a>) -> Self {
        Self { shape, values: Vec::new(), forward: Vec::new(), backward: Vec::new(), into_backward: false }
    }

    /// From here on, ops belong to the backward.
    pub fn start_backward(&mut self) {
        self.into_backward = true;
    }

    /// A value of `elements` elements of the compute type.
    pub fn activation(&mut self, name: &'static str, elements: u64, saved: Option<SavedTensor>) -> ValueId {
        let bytes = Bytes(elements * self.shape.compute.size());
        self.value(Value { name, bytes, category: Category::Activations, saved, elements })
    }

    /// A value counted in bytes: statistics, masks, indices.
    pub fn raw(&mut self, name: &'static str, bytes: u64, saved: Option<SavedTensor>) -> ValueId {
        self.value(Value { name, bytes: Bytes(bytes), category: Category::Activations, saved, elements: 0 })
    }

    /// A value that the engine stores only if its profile lists it.
    pub fn optional(&mut self, name: &'static str, bytes: u64, saved: SavedTensor) -> Option<ValueId> {
        self.shape.stores(saved).then(|| self.raw(name, bytes, Some(saved)))
    }

    pub fn value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        (self.values.len() - 1) as ValueId
    }

    pub fn elements(&self, id: ValueId) -> u64 {
        self.values[usize::from(id)].elements
    }

    pub fn node(&mut self, op: Op, stream: Stream, reads: &[ValueId], writes: &[ValueId], weight: bool) {
        let node = Node { op, stream, reads: reads.to_vec(), writes: writes.to_vec(), weight };
        if self.into_backward { self.backward.push(node) } else { self.forward.push(node) }
    }

    pub fn compute(&mut self, op: Op, reads: &[ValueId], writes: &[ValueId]) {
        self.node(op, Stream::Compute, reads, writes, false);
    }

    /// A matrix product of `rows` tokens.
    pub fn linear(&mut self, rows: u64, depth: u64, columns: u64, reads: &[ValueId], writes: &[ValueId]) {
        self.compute(self.product(1, rows, depth, columns), reads, writes);
    }

    /// A weight gradient of (columns × depth) from `rows` tokens.
    pub fn weight_gradient(&mut self, rows: u64, depth: u64, columns: u64, reads: &[ValueId]) {
        let op = self.product(1, columns, rows, depth);
        self.node(op, Stream::Compute, reads, &[], true);
    }

    pub fn product(&self, batch: u64, rows: u64, depth: u64, columns: u64) -> Op {
        Op::Linear(Linear { batch, rows, columns, depth, element: self.shape.multiply })
    }

    pub fn elementwise(
        &mut self,
        kind: ElementwiseKind,
        elements: u64,
        operands: u64,
        reads: &[ValueId],
        writes: &[ValueId],
    ) {
        let op = Elementwise { kind, elements, operands, element: self.shape.compute };
        self.compute(Op::Elementwise(op), reads, writes);
    }

    pub fn row_norm(
        &mut self,
        elements: u64,
        width: u64,
        backward: bool,
        reads: &[ValueId],
        writes: &[ValueId],
    ) {
        let op = RowNorm { rows: elements / width.max(1), width, backward, element: self.shape.compute };
        self.compute(Op::Norm(op), reads, writes);
    }

    pub fn collective(
        &mut self,
        kind: CollectiveKind,
        group: Group,
        bytes: Bytes,
        reads: &[ValueId],
        writes: &[ValueId],
        weight: bool,
    ) {
        let op = Op::Collective(Collective { kind, group, bytes });
        self.node(op, Stream::Model, reads, writes, weight);
    }

    /// Sequence-parallel shards of `shard` gathered over the tensor group; `shard` itself without sequence
    /// parallelism.
    pub fn gather_sequence(&mut self, name: &'static str, shard: ValueId, weight: bool) -> ValueId {
        if !self.shape.sequence_parallel {
            return shard;
        }
        let whole = self.activation(name, self.elements(shard) * self.shape.tensor, None);
        let bytes = self.values[usize::from(whole)].bytes;
        self.collective(CollectiveKind::AllGather, Group::Tensor, bytes, &[shard], &[whole], weight);
        whole
    }

    /// Partial sums of the tensor group made whole: reduce-scattered under sequence parallelism, all-reduced in
    /// place otherwise, untouched without tensor parallelism.
    pub fn reduce_sequence(
        &mut self,
        name: &'static str,
        partial: ValueId,
        saved: Option<SavedTensor>,
    ) -> ValueId {
        let bytes = self.values[usize::from(partial)].bytes;
        if self.shape.sequence_parallel {
            let shard = self.activation(name, self.elements(partial) / self.shape.tensor, saved);
            self.collective(CollectiveKind::ReduceScatter, Group::Tensor, bytes, &[partial], &[shard], false);
            return shard;
        }
        if self.shape.tensor > 1 {
            self.collective(CollectiveKind::AllReduce, Group::Tensor, bytes, &[partial], &[partial], false);
        }
        partial
    }
}
