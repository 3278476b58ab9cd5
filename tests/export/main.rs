//! Plans as configurations of engines and back: the same strategy, the same prediction, for random legal plans.

mod example_text;
mod examples_colossalai;
mod examples_maxtext;
mod examples_nanotron;
mod random;
mod round_trip;
mod schemas;

#[path = "../sampling/mod.rs"]
mod sampling;
