//! Instructions, the templates that micro-batches repeat, and the programs made of them.

use crate::lower::{Category, Stream};
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

/// One thing that a rank does: an op on a stream, with what it waits for and what happens to buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub op: Op,
    pub stream: Stream,
    pub cause: Cause,
    /// The unit (in model order) that it works for; none for the pipeline's and the step's own.
    pub unit: Option<u32>,
    /// Instructions of the same template that must be done before, by index; those before it on its own stream
    /// always must.
    pub waits: Vec<u32>,
    /// Waits for everything issued before it, on every stream.
    pub joins: bool,
    pub reads: Vec<BufferId>,
    pub writes: Vec<BufferId>,
    pub allocates: Vec<BufferId>,
    pub frees: Vec<BufferId>,
    pub message: Option<Message>,
    /// Host bytes that it allocates (positive) or frees.
    pub host: i64,
}

impl Instruction {
    /// An instruction that waits for nothing and touches no buffer.
    pub const fn plain(op: Op, stream: Stream, cause: Cause) -> Self {
        Self {
            op,
            stream,
            cause,
            unit: None,
            waits: Vec::new(),
            joins: false,
            reads: Vec::new(),
            writes: Vec::new(),
            allocates: Vec::new(),
            frees: Vec::new(),
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

/// All buffers that one micro-batch may hold in one chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    pub buffers: Vec<Buffer>,
}

/// Instructions that are issued together: a pass of one chunk, or the optimizer step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// None for the optimizer step.
    pub pass: Option<Pass>,
    /// Which of the rank's frames its buffers live in.
    pub frame: u32,
    pub instructions: Vec<Instruction>,
    /// Buffers that it sends; they are freed at the end of the rank's next call.
    pub sent: Vec<BufferId>,
}

/// One use of a template for one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub template: u32,
    pub micro: u32,
}

/// State that a rank holds over the whole step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persistent {
    pub name: &'static str,
    pub category: Category,
    pub device: Bytes,
    pub host: Bytes,
}

/// What the ranks of one pipeline stage do in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankProgram {
    pub stage: u32,
    pub persistent: Vec<Persistent>,
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
        self.persistent.iter().filter(|state| state.category == category).map(|state| state.device).sum()
    }

    /// Instructions that the rank issues in a step.
    pub fn instruction_count(&self) -> usize {
        self.calls.iter().map(|call| self.templates[call.template as usize].instructions.len()).sum()
    }
}
