//! Floor 9: the plan document: model, cluster, strategy, predictions and provenance in one file.

pub mod document;

pub use document::{
    Alternative, CategoryBytes, CauseSeconds, Interval, LadderStep, Plan, Prediction, RankPrediction,
    SearchAccount, StrategyRecord, TimelineSpan,
};
