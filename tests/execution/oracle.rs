//! Training in 64 bits on cores is what the oracle says.

use meshwright::execute::run::DeviceKind;
use meshwright::units::ElementType;

use crate::golden::{self, Oracle};

const ORACLE: Oracle = Oracle {
    device: DeviceKind::Cpu,
    precision: ElementType::Fp64,
    tolerance: 1e-9,
    last_tolerance: 1e-9,
    steps: 20,
};

fn check(name: &str, strategy: &str, devices: u64) {
    golden::check(name, strategy, devices, ORACLE);
}

#[test]
fn gpt2_on_one_rank() {
    check("gpt2", "tp=1,micro=4", 1);
}

#[test]
fn gpt2_on_eight_ranks() {
    check("gpt2", "tp=2,pp=2,dp=2,micro=1,zero=1", 8);
}

#[test]
fn llama_on_eight_ranks() {
    check("llama", "tp=2,cp=2,dp=2,micro=1,zero=3", 8);
}

#[test]
fn mixture_of_experts_on_four_ranks() {
    check("moe", "tp=2,dp=2,ep=2,micro=1,zero=2,capacity=full", 4);
}

#[test]
fn two_losses_on_two_ranks() {
    check("two_losses", "tp=1,pp=2,micro=2,zero=2", 2);
}

#[test]
fn llama_on_one_rank() {
    check("llama", "tp=1,micro=4", 1);
}

#[test]
fn mixture_of_experts_on_one_rank() {
    check("moe", "tp=1,micro=4,capacity=full", 1);
}

#[test]
fn two_losses_on_one_rank() {
    check("two_losses", "tp=1,micro=4", 1);
}

/// With several data ranks, a micro-batch is other sequences than on one: there the second golden file has no word.
#[test]
fn an_adaptive_weight_on_one_rank() {
    check("two_losses_adaptive", "tp=1,micro=4", 1);
    check("two_losses_adaptive_micro", "tp=1,micro=2,zero=2,ckpt=selective", 1);
}

#[test]
fn an_adaptive_weight_over_data_ranks() {
    check("two_losses_adaptive", "dp=4,micro=1,zero=3", 4);
    check("two_losses_adaptive", "dp=2,micro=2,zero=1,sync=immediate", 2);
    check("two_losses_adaptive", "dp=4,micro=1,zero=2,shard=2,ckpt=full", 4);
}

#[test]
fn an_adaptive_weight_over_tensor_ranks() {
    check("two_losses_adaptive", "tp=2,dp=2,micro=2,zero=3", 4);
    check("two_losses_adaptive_micro", "tp=4,micro=2,sp=off", 4);
    check("two_losses_adaptive_micro", "tp=4,micro=2,ckpt=full", 4);
}

#[test]
fn an_adaptive_weight_over_context_ranks() {
    check("two_losses_adaptive", "cp=2,dp=2,micro=2,zero=3,loss=chunked", 4);
    check("two_losses_adaptive_micro", "tp=2,cp=2,micro=2,cp_kind=ulysses,zero=1", 4);
    check("two_losses_adaptive_micro", "cp=2,micro=2,zero=3,sync=immediate", 2);
}
