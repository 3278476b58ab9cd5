//! Instructions, the templates that micro-batches repeat, and the programs made of them.

use smallvec::SmallVec;

use crate::lower::{Category, Kernel, Stream};
use crate::ops::Op;
use crate::program::schedule::Pass;
use crate::units::Bytes;

/// Index of a buffer in the frame of its chunk.
pub type BufferId = u32;

/// What an instruction's time is put down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    Optimizer,
    Recompute,
    Compute,
    Communication,
    Copy,
}

impl Cause {
    pub const COUNT: usize = 5;
}

/// What travels between pipeline ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Payload {
    Activation,
    /// The gradient of the loss with this number.
    Gradient(u8),
}

/// One transfer of a micro-batch from a chunk to a neighbouring one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    pub from: u32,
    pub to: u32,
    pub payload: Payload,
}

/// Which of a rank's parameters: experts are gathered and summed in groups of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Dense,
    Expert,
}

/// A range of the elements whose optimizer state a rank owns, in the order of its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owned {
    pub start: u64,
    pub end: u64,
}

/// What an instruction performs, beside the shape of its op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Nothing: it waits, allocates or frees.
    Nothing,
    /// A kernel with the parameters of layer `layer` of the instruction's unit.
    Kernel {
        kernel: Kernel,
        layer: u16,
        adds_gradient: bool,
        /// What it adds to gradients is the first of a micro-batch: in micro-batch 0 it replaces what is there.
        starts: bool,
    },
    /// A message of the pipeline.
    Send,
    Receive,
    /// The unit's parameters from the host.
    FetchParameters,
    /// The unit's parameters from the shards of all ranks.
    GatherParameters(Part),
    /// Sums the unit's gradient over the op's group.
    ReduceGradient(Part),
    /// Adds the unit's reduced gradient to this rank's shard; the first of micro-batch 0 replaces what is there.
    KeepGradient {
        starts: bool,
    },
    /// What the unit keeps for its backward, to the host; and back.
    StashActivations,
    UnstashActivations,
    /// The gradient of a loss at a layer that an adaptive weight looks at (number `watch` of the layout's), copied
    /// out of its unit's; summed over the ranks of a part, over the tensor ranks that hold parts of it.
    CopyWatched {
        watch: u8,
    },
    SumWatched {
        watch: u8,
        part: Part,
    },
    SumWatchedPartial {
        watch: u8,
    },
    /// Its squares on this rank; their sum over the ranks that share the layer.
    WatchedSquares {
        watch: u8,
    },
    SumWatchedSquares {
        watch: u8,
    },
    /// What the gradients of a loss are weighed with, by the norms of what was looked at.
    LossWeight {
        loss: u8,
    },
    /// A unit's gradient, and the gradient that flows on, times the weight of a loss.
    WeighGradient {
        loss: u8,
    },
    WeighFlow {
        loss: u8,
    },
    /// Adds a unit's gradient of one loss, times its weight if that came late, to what is kept over the step; the
    /// first of micro-batch 0 replaces what is there.
    AddGradient {
        loss: u8,
        starts: bool,
    },
    /// Gradient shards over the replicas, once a step.
    SumReplicas(Part),
    /// Parts of gradients that tensor ranks hold.
    SumPartial,
    /// The tied table's gradient over the ranks that hold a copy.
    SumTied,
    /// The squares of the owned gradients; their sum over all ranks.
    GradientSquares,
    SumSquares,
    /// What clips gradients, by their squares.
    ClipFactor,
    /// The numbers that the host's step reads, to the host.
    CopyScalars,
    /// AdamW of what the host owns: gradients out, the step, parameters back.
    HostGradients(Owned),
    HostStep(Owned),
    HostParameters(Owned),
    /// AdamW of what the device owns. Parameters that live on the host come to it first, unless it has them in full
    /// precision, and go back.
    LoadParameters(Owned),
    DeviceStep(Owned),
    StoreParameters(Owned),
    /// Updated parameters to all ranks that hold them whole.
    GatherUpdated(Part),
    /// Gives back what the rank's call before has sent.
    FreeSent,
}

/// A set of streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Streams(u8);

impl Streams {
    /// No stream.
    pub const NONE: Self = Self(0);

    /// All streams but `own`.
    pub const fn all_but(own: Stream) -> Self {
        Self(!(1 << own as u8))
    }

    /// `stream` alone.
    pub const fn of(stream: Stream) -> Self {
        Self(1 << stream as u8)
    }

    /// Those of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Without `stream`.
    #[must_use]
    pub const fn without(self, stream: Stream) -> Self {
        Self(self.0 & !(1 << stream as u8))
    }

    /// Whether `stream` is one of them.
    pub const fn contains(self, stream: Stream) -> bool {
        self.0 & (1 << stream as u8) != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers of the streams, ascending.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..Stream::ALL.len()).filter(move |stream| self.0 & (1 << stream) != 0)
    }
}

/// A few buffers, or indices of instructions.
pub type Few = SmallVec<[u32; 4]>;

/// One thing that a rank does: an op on a stream, with what it waits for and what happens to buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub op: Op,
    pub task: Task,
    pub stream: Stream,
    pub cause: Cause,
    /// The unit (in model order) that it works for; none for the pipeline's and the step's own.
    pub unit: Option<u32>,
    /// Instructions of the same template that must be done before, by index; those before it on its own stream
    /// always must. A receive also waits for its send, and a send into an inbox until the message before it, of its
    /// kind, was received.
    pub waits: Few,
    /// Streams on which everything that earlier calls issued must be done before.
    pub behind: Streams,
    pub reads: Few,
    pub writes: Few,
    pub allocates: Few,
    pub frees: Few,
    pub message: Option<Message>,
    /// Host bytes that it allocates (positive) or frees.
    pub host: i64,
}

impl Instruction {
    /// The host memory that it takes (positive) or gives back.
    pub const fn host_held(&self) -> i64 {
        Bytes(self.host.unsigned_abs()).aligned().0 as i64 * self.host.signum()
    }

    /// An instruction that waits for nothing and touches no buffer.
    pub fn plain(op: Op, task: Task, stream: Stream, cause: Cause) -> Self {
        Self {
            op,
            task,
            stream,
            cause,
            unit: None,
            waits: Few::new(),
            behind: Streams::NONE,
            reads: Few::new(),
            writes: Few::new(),
            allocates: Few::new(),
            frees: Few::new(),
            message: None,
            host: 0,
        }
    }
}

/// A tensor of a chunk's frame: there is one for each micro-batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    pub name: &'static str,
    pub bytes: Bytes,
    pub category: Category,
}

/// The buffers of a unit beside its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitBuffers {
    pub unit: u32,
    pub gathered: Option<BufferId>,
    pub fetched: Option<BufferId>,
    pub gradient: Option<BufferId>,
    /// Where gradients are kept whole over the step, that of one loss, until its weight is known.
    pub held: Option<BufferId>,
    /// What of its gradient is kept until the update, where that comes with the backward.
    pub late: Option<BufferId>,
}

impl UnitBuffers {
    /// Where its gradient is, if not where it is kept over the step.
    pub fn own_gradient(&self) -> Option<BufferId> {
        self.gradient.or(self.held)
    }
}

/// All buffers that one micro-batch may hold in one chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub buffers: Vec<Buffer>,
    /// One for each unit of the chunk, in model order.
    pub units: Vec<UnitBuffers>,
}

/// Instructions that are issued together: a pass of one chunk, or the optimizer step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// None for the optimizer step.
    pub pass: Option<Pass>,
    /// Which of the rank's frames its buffers live in.
    pub frame: u32,
    pub instructions: Vec<Instruction>,
    /// Buffers that it sends; the last instruction of the rank's next call, a [`Task::FreeSent`], frees them.
    pub sent: Vec<BufferId>,
}

/// One use of a template for one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub template: u32,
    pub micro: u32,
}

/// What a persistent buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// A unit's parameters, or this rank's shard of them.
    Parameters,
    /// A unit's whole parameters, gathered once a step.
    GatheredParameters,
    /// A unit's whole gradient.
    Gradients,
    /// This rank's shard of a unit's gradient.
    GradientShards,
    /// Moments and, where there are some, master weights; on the host with staging for gradients and parameters.
    OptimizerState,
    /// Staging of gradients on their way through a reduction.
    ReductionBuckets,
    /// A micro-batch's gradients in the parameters' type, beside wider ones that are kept.
    WorkingGradients,
    /// Tensors that stand in for gradients which were added elsewhere.
    PlaceholderGradients,
    /// The step's token ids.
    Tokens,
    /// The ids that a loss compares with.
    Targets,
    /// The numbers of the step ([`crate::program::scalars`]); on the host a copy of their head.
    Scalars,
    /// Where messages of one kind arrive before they are received.
    Inbox(Message),
    /// Scratch of kernels.
    Workspace,
}

impl Holds {
    /// What its memory is put down to.
    pub const fn category(self) -> Category {
        match self {
            Self::Parameters => Category::Parameters,
            Self::Gradients | Self::GradientShards | Self::WorkingGradients => Category::Gradients,
            Self::OptimizerState => Category::Optimizer,
            Self::GatheredParameters
            | Self::ReductionBuckets
            | Self::PlaceholderGradients
            | Self::Tokens
            | Self::Targets
            | Self::Scalars
            | Self::Inbox(_) => Category::Buffers,
            Self::Workspace => Category::Overhead,
        }
    }
}

/// State that a rank holds over the whole step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persistent {
    pub holds: Holds,
    /// The unit (in model order) that it belongs to, if to one.
    pub unit: Option<u32>,
    pub device: Bytes,
    pub host: Bytes,
}

/// What the ranks of one pipeline stage do in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankProgram {
    pub stage: u32,
    pub persistent: Vec<Persistent>,
    /// Units that use the table of another unit of this rank, and whose.
    pub lenders: Vec<(u32, u32)>,
    /// Which unit's instructions are the first to write to the gradient of a table that is lent.
    pub table_starts_with: Option<u32>,
    /// Sharded parameters are gathered once a step and kept.
    pub gathers_once: bool,
    /// Messages arrive in inboxes that hold one of each kind.
    pub has_inboxes: bool,
    /// One a chunk of this rank, then one for the optimizer step.
    pub frames: Vec<Frame>,
    pub templates: Vec<Template>,
    pub calls: Vec<Call>,
}

/// A step program: one rank program for each class of ranks; today a class is a pipeline stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub ranks: Vec<RankProgram>,
}

impl RankProgram {
    /// Device bytes held over the whole step, by category.
    pub fn persistent_bytes(&self, category: Category) -> Bytes {
        self.persistent
            .iter()
            .filter(|state| state.holds.category() == category)
            .map(|state| state.device)
            .sum()
    }

    /// Instructions that the rank issues in a step.
    pub fn instruction_count(&self) -> usize {
        self.calls.iter().map(|call| self.templates[call.template as usize].instructions.len()).sum()
    }
}
