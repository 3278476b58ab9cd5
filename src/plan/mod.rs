//! The plan document: model, cluster, strategy, predictions and provenance in one file.

mod assemble;
mod cautions;
pub mod document;
pub mod engines;
mod evidence;
mod experts;
mod explain;
pub mod explanation;
mod file;
pub mod goodput;
pub mod gradients;
pub mod map;
pub mod mfu;
pub mod money;
pub mod over_time;
mod searched;
pub mod shell;
mod subject;
mod verdict;
mod why;

pub use assemble::{digest, prediction, simulate, simulate_draft};
pub use document::{
    Alternative, CategoryBytes, CauseSeconds, Interval, LadderStep, Plan, Prediction, RankPrediction,
    SafeMemory, SearchAccount, StrategyRecord, TimelineSpan,
};
pub use explain::explain;
pub use explanation::Explanation;
pub use file::{PlanFileError, VERSION, read};
pub use gradients::{GradientRecord, GradientSumRecord};
pub use over_time::{MemoryMoment, MemoryOverTime};
pub use searched::search;
