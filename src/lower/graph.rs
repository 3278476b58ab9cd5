//! The ops of a unit as a graph over named values, before anything is decided about keeping them.

use smallvec::{SmallVec, smallvec};

use crate::lower::Category;
use crate::lower::kernel::{Into, Kernel, Matrix, Place};
use crate::lower::shape::Shape;
use crate::ops::{Collective, CollectiveKind, Elementwise, ElementwiseKind, Group, Linear, Op, RowNorm};
use crate::profile::engine::SavedTensor;
use crate::profile::recomputed::Part;
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

/// A few values.
pub type ValueIds = SmallVec<[ValueId; 4]>;

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
    /// The part of a block that makes it, where modules may recompute that.
    pub part: Option<Part>,
}

/// One op, what it reads and what it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub op: Op,
    /// What it computes, with the parameters of layer `layer`, counted from the unit's first.
    pub kernel: Kernel,
    pub layer: u16,
    pub stream: Stream,
    pub reads: ValueIds,
    pub writes: ValueIds,
    /// Works for a weight gradient only: zero-bubble schedules may run it later.
    pub weight: bool,
    /// Adds to the unit's weight gradient.
    pub adds_gradient: bool,
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
    /// The layer whose ops are being written, counted from the unit's first.
    pub layer: u16,
    /// The part of it.
    pub part: Option<Part>,
    pub values: Vec<Value>,
    pub forward: Vec<Node>,
    pub backward: Vec<Node>,
    into_backward: bool,
}

impl<'a> Builder<'a> {
    pub fn new(shape: Shape<'a>) -> Self {
        Self {
            shape,
            layer: 0,
            part: None,
            values: Vec::new(),
            forward: Vec::new(),
            backward: Vec::new(),
            into_backward: false,
        }
    }

    /// From here on, ops belong to the backward.
    pub fn start_backward(&mut self) {
        self.into_backward = true;
    }

    /// A value of `elements` elements of the compute type.
    pub fn activation(&mut self, name: &'static str, elements: u64, saved: Option<SavedTensor>) -> ValueId {
        let element = saved.map_or(self.shape.compute, |saved| self.shape.type_of(saved));
        let bytes = Bytes(elements * element.size());
        let part = self.part;
        self.value(Value { name, bytes, category: Category::Activations, saved, elements, part })
    }

    /// A value counted in bytes: statistics, masks, indices.
    pub fn raw(&mut self, name: &'static str, bytes: u64, saved: Option<SavedTensor>) -> ValueId {
        let (bytes, part) = (Bytes(bytes), self.part);
        self.value(Value { name, bytes, category: Category::Activations, saved, elements: 0, part })
    }

    /// A value that the engine stores only if its profile lists it.
    pub fn optional(&mut self, name: &'static str, bytes: u64, saved: SavedTensor) -> Option<ValueId> {
        self.shape.stores(saved).then(|| self.raw(name, bytes, Some(saved)))
    }

    /// Mean and reciprocal deviation of `rows` rows of `width` elements, and what else a norm of several kernels keeps.
    pub fn statistics(&mut self, name: &'static str, (rows, width): (u64, u64)) -> Option<ValueId> {
        let size = self.shape.statistic().size();
        let wide = self.optional(name, (2 + width) * rows * size, SavedTensor::WideNorm);
        wide.or_else(|| self.optional(name, 2 * rows * size, SavedTensor::NormStatistics))
    }

    pub fn value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        (self.values.len() - 1) as ValueId
    }

    pub fn elements(&self, id: ValueId) -> u64 {
        self.values[usize::from(id)].elements
    }

    pub fn push(&mut self, node: Node) {
        if self.into_backward { self.backward.push(node) } else { self.forward.push(node) }
    }

    pub fn compute(&mut self, kernel: Kernel, op: Op, reads: &[ValueId], writes: &[ValueId]) {
        self.push(Node {
            op,
            kernel,
            layer: self.layer,
            stream: Stream::Compute,
            reads: reads.into(),
            writes: writes.into(),
            weight: false,
            adds_gradient: false,
        });
    }

    /// An op that only works for the unit's weight gradient.
    pub fn gradient(&mut self, kernel: Kernel, op: Op, reads: &[ValueId]) {
        let op = match op {
            Op::Linear(product) => Op::Linear(Linear { over_tokens: true, ..product }),
            other => other,
        };
        self.push(Node {
            op,
            kernel,
            layer: self.layer,
            stream: Stream::Compute,
            reads: reads.into(),
            writes: ValueIds::new(),
            weight: true,
            adds_gradient: true,
        });
    }

    /// The product of `rows` tokens with a matrix.
    pub fn linear(
        &mut self,
        kernel: Kernel,
        (rows, depth, columns): (u64, u64, u64),
        reads: &[ValueId],
        writes: &[ValueId],
    ) {
        self.compute(kernel, self.product(1, rows, depth, columns), reads, writes);
    }

    /// A weight gradient of (columns × depth) from `rows` tokens.
    pub fn weight_gradient(
        &mut self,
        matrix: Matrix,
        (rows, depth, columns): (u64, u64, u64),
        reads: &[ValueId],
    ) {
        let op = self.product(1, columns, rows, depth);
        self.gradient(Kernel::WeightGradient(matrix), op, reads);
    }

    pub fn product(&self, batch: u64, rows: u64, depth: u64, columns: u64) -> Op {
        Op::Linear(Linear { batch, rows, columns, depth, element: self.shape.multiply, over_tokens: false })
    }

    pub fn elementwise(
        &mut self,
        kernel: Kernel,
        (kind, elements, operands): (ElementwiseKind, u64, u64),
        reads: &[ValueId],
        writes: &[ValueId],
    ) {
        let op = Elementwise { kind, elements, operands, element: self.shape.compute };
        self.compute(kernel, Op::Elementwise(op), reads, writes);
    }

    /// A norm of `input` into a new or given `output`.
    pub fn norm(
        &mut self,
        place: Place,
        width: u64,
        input: ValueId,
        output: ValueId,
        statistics: Option<ValueId>,
    ) {
        let writes: Vec<_> = [output].into_iter().chain(statistics).collect();
        let op = self.row_norm(input, width, false);
        self.compute(Kernel::Norm(place), op, &[input], &writes);
    }

    /// The backward of [`Self::norm`] from the output's `gradient` into `target`; where weight gradients are split
    /// off, those of the norm's own parameters are too.
    pub fn norm_gradient(
        &mut self,
        (place, into): (Place, Into),
        (width, trainable): (u64, bool),
        gradient: ValueId,
        (input, statistics): (ValueId, Option<ValueId>),
        target: ValueId,
    ) {
        let mut reads: ValueIds = smallvec![gradient, input];
        reads.extend(statistics);
        let op = self.row_norm(input, width, true);
        if trainable && self.shape.splits_weight {
            let op = self.row_norm(input, width, false);
            self.gradient(Kernel::NormWeight(place), op, &reads);
        }
        if into == Into::Add {
            reads.push(target);
        }
        self.push(Node {
            op,
            kernel: Kernel::NormGradient(place, into),
            layer: self.layer,
            stream: Stream::Compute,
            reads,
            writes: smallvec![target],
            weight: false,
            adds_gradient: trainable && !self.shape.splits_weight,
        });
    }

    pub fn row_norm(&self, input: ValueId, width: u64, backward: bool) -> Op {
        let rows = self.elements(input) / width.max(1);
        Op::Norm(RowNorm { rows, width, backward, element: self.shape.compute })
    }

    pub fn collective(
        &mut self,
        kernel: Kernel,
        (kind, group): (CollectiveKind, Group),
        bytes: Bytes,
        reads: &[ValueId],
        writes: &[ValueId],
    ) {
        self.exchange(kernel, Collective::new(kind, group, bytes), reads, writes);
    }

    /// The same, of a collective that is more than its kind, group and bytes.
    pub fn exchange(&mut self, kernel: Kernel, op: Collective, reads: &[ValueId], writes: &[ValueId]) {
        self.push(Node {
            op: Op::Collective(op),
            kernel,
            layer: self.layer,
            stream: Stream::Model,
            reads: reads.into(),
            writes: writes.into(),
            weight: false,
            adds_gradient: false,
        });
    }

    /// Sequence-parallel shards of `shard` gathered over the tensor group; `shard` itself without sequence
    /// parallelism.
    pub fn gather_sequence(&mut self, name: &'static str, shard: ValueId) -> ValueId {
        if !self.shape.sequence_parallel {
            return shard;
        }
        let whole = self.activation(name, self.elements(shard) * self.shape.tensor, None);
        let bytes = self.values[usize::from(whole)].bytes;
        let all_gather = (CollectiveKind::AllGather, Group::Tensor);
        self.collective(Kernel::Collective, all_gather, bytes, &[shard], &[whole]);
        whole
    }

    /// The input of a layer's first matrices, gathered; an engine may keep it so.
    pub fn gather_input(&mut self, name: &'static str, shard: ValueId) -> ValueId {
        let whole = self.gather_sequence(name, shard);
        if whole != shard && self.shape.stores(SavedTensor::GatheredInput) {
            self.values[usize::from(whole)].saved = Some(SavedTensor::GatheredInput);
        }
        whole
    }

    /// What [`Self::gather_input`] made of `shard`, for a weight gradient: kept, or gathered again.
    pub fn gather_input_again(&mut self, name: &'static str, shard: ValueId, whole: ValueId) -> ValueId {
        if self.shape.stores(SavedTensor::GatheredInput) {
            whole
        } else {
            self.gather_sequence_again(name, shard)
        }
    }

    /// [`Self::gather_sequence`] for a weight gradient alone.
    pub fn gather_sequence_again(&mut self, name: &'static str, shard: ValueId) -> ValueId {
        let whole = self.gather_sequence(name, shard);
        if whole != shard {
            let pass = if self.into_backward { &mut self.backward } else { &mut self.forward };
            if let Some(gather) = pass.last_mut() {
                gather.weight = true;
            }
        }
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
            let reduce_scatter = (CollectiveKind::ReduceScatter, Group::Tensor);
            self.collective(Kernel::Collective, reduce_scatter, bytes, &[partial], &[shard]);
            return shard;
        }
        self.sum_in_place(partial);
        partial
    }

    /// Partial sums of the tensor group, all-reduced in place.
    pub fn sum_in_place(&mut self, partial: ValueId) {
        if self.shape.tensor > 1 {
            let bytes = self.values[usize::from(partial)].bytes;
            let all_reduce = (CollectiveKind::AllReduce, Group::Tensor);
            self.collective(Kernel::Collective, all_reduce, bytes, &[partial], &[partial]);
        }
    }
}
