//! What a rank says it is doing, so that ranks which disagree can be told how.

use std::fmt;

use super::Reduction;
use crate::lower::Stream;
use crate::ops::Group;
use crate::program::instruction::{Message, Payload};
use crate::units::ElementType;

/// One of a rank's groups, as used from one of its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channel {
    pub group: Group,
    pub stream: Stream,
}

/// What tells apart the messages from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    pub message: u32,
    pub micro_batch: u32,
    pub step: u32,
}

impl Tag {
    /// Of the message of micro-batch `micro` in step `step`.
    pub const fn new((message, micro_batch): (Message, u32), step: u64) -> Self {
        let payload = match message.payload {
            Payload::Activation => 0,
            Payload::Gradient(loss) => 1 + loss as u32,
        };
        let number = (message.from * 64 + payload) * 2 + (message.to < message.from) as u32;
        Self { message: number, micro_batch, step: step as u32 }
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    AllReduce(Reduction),
    ReduceScatter(Reduction),
    AllGather,
    AllToAll,
    RingShift,
    Barrier,
    Exchange,
    Message,
}

/// One call of one rank. Members of a group must agree in all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// Calls of this rank on this channel before this one; 0 for messages.
    pub sequence: u64,
    pub operation: Operation,
    /// Elements of the whole slice.
    pub elements: usize,
    pub element: ElementType,
}

/// A call and who made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    pub rank: usize,
    pub call: Call,
}

/// Where calls meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Channel(Channel),
    Message { from: usize, to: usize, tag: Tag },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, reduction) = match self {
            Self::AllReduce(reduction) => ("all-reduce", Some(reduction)),
            Self::ReduceScatter(reduction) => ("reduce-scatter", Some(reduction)),
            Self::AllGather => ("all-gather", None),
            Self::AllToAll => ("all-to-all", None),
            Self::RingShift => ("ring shift", None),
            Self::Barrier => ("barrier", None),
            Self::Exchange => ("exchange", None),
            Self::Message => ("message", None),
        };
        f.write_str(name)?;
        let Some(Reduction { wire, scale }) = reduction else { return Ok(()) };
        write!(f, " over {wire}")?;
        scale.map_or(Ok(()), |scale| write!(f, " times {scale}"))
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { sequence, operation, elements, element } = self.call;
        write!(f, "rank {}: {operation} of {elements} {element} elements", self.rank)?;
        match operation {
            Operation::Message => Ok(()),
            _ => write!(f, " as call {sequence}"),
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} group on stream {:?}", self.group, self.stream)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(channel) => channel.fmt(f),
            Self::Message { from, to, tag: Tag { message, micro_batch, step } } => {
                write!(
                    f,
                    "message {message} of micro-batch {micro_batch}, step {step}, from rank {from} to {to}"
                )
            }
        }
    }
}
