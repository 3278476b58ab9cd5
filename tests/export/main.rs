//! Plans as configurations of engines and back: the same strategy, the same prediction, for random legal plans.

mod example;
mod examples_accelerate;
mod examples_colossalai;
mod examples_deepspeed;
mod examples_maxtext;
mod examples_megatron;
mod examples_nanotron;
mod examples_torchtitan;
mod guide;
mod guide_points;
mod model_fields;
mod programs;
mod programs_page;
mod random;
mod reading;
mod round_trip;
mod schemas;
mod scripts;
mod yaml_files;

#[path = "../sampling/dice.rs"]
mod dice;
