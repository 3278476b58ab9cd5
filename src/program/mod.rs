//! The step program: what each class of ranks does in one optimizer step, and its verifier.
//!
//! A program never sees a device: it says what happens, in which order and with which buffers. The simulator
//! prices and plays it; the executor performs it.

pub mod access;
pub mod build;
pub mod fault;
pub mod frame;
pub mod gradients;
pub mod instruction;
pub mod issue_order;
pub mod layout;
mod packing;
pub mod passes;
pub mod placing;
pub mod reduction;
pub mod scalars;
pub mod schedule;
pub mod state;
mod step;
pub mod submission;
pub mod verify;
mod waits;
mod weighing;
mod writer;

pub use build::build;
pub use gradients::GradientBuffer;
pub use instruction::{
    Buffer, BufferId, Call, Cause, Frame, Instruction, Message, Payload, Persistent, Program, RankProgram,
    Streams, Template,
};
pub use layout::Layout;
pub use schedule::{Action, Pass, order};
