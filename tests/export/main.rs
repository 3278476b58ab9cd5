//! Plans as configurations of engines and back: the same strategy, the same prediction, for random legal plans.

mod example;
mod examples_accelerate;
mod examples_deepspeed;
mod examples_megatron;
mod examples_torchtitan;
mod guide;
mod importing;
mod random;
mod round_trip;

#[path = "../sampling/mod.rs"]
mod sampling;
