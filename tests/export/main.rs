//! Plans as configurations of engines and back: the same strategy, the same prediction, for random legal plans.

mod examples_accelerate;
mod examples_deepspeed;
mod importing;
mod random;
mod round_trip;

#[path = "../sampling/mod.rs"]
mod sampling;
