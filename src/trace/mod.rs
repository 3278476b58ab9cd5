//! The trace document: a measured run beside its prediction, and the shorter document that `execute` prints.

mod date;
mod document;
mod gradients;
pub mod published;
mod rows;
mod slice;

pub use date::today;
pub use document::{
    InstructionRecord, Machine, Moment, PlannedTime, Products, RankTrace, RunReport, StageTrace, StepTime,
    Trace, VERSION,
};
pub use gradients::{NamedGradient, ShardRecord};
pub use rows::{ExtentRow, MemoryRow, Resident, Space, TOTAL, TimeRow};
pub use slice::{ComposedStage, Slice, TimeFrom};
