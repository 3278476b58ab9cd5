//! Tests of defaults and of keys without effect.

use super::*;
use crate::strategy::sample::{dense, facts, moe};
use crate::units::ElementType;

fn printed(text: &str, facts: &Facts) -> String {
    match Draft::parse(text).unwrap().resolve(facts) {
        Ok(strategy) => strategy.text(facts.defaults),
        Err(error) => format!("{text}: {error}"),
    }
}

#[test]
fn what_is_left_out_takes_its_default() {
    let facts = facts(&moe(), 64, "embedded");
    let resolve = |text| Draft::parse(text).unwrap().resolve(&facts).unwrap();
    let plain = resolve("");
    assert_eq!((plain.tensor, plain.context, plain.pipeline, plain.data), (1, 1, 1, 64));
    assert_eq!((plain.micro_batch, plain.accumulation), (1, 8));
    assert_eq!((plain.sequence_parallel, plain.expert_tensor), (false, 1));
    assert_eq!(plain.cuts, [16]);
    assert_eq!(plain.checkpoint, [Checkpoint::uniform(CheckpointMode::None, 16)]);
    assert_eq!(plain.order, super::super::MeshOrder::default());

    let tensor = resolve("tp=4,ep=8,zero=2,dp=16,accum=32");
    assert!(tensor.sequence_parallel);
    assert_eq!(tensor.expert_tensor, 4, "ep 8 divides cp · dp = 16");
    assert_eq!((tensor.shard, tensor.sync), (16, GradientSync::Immediate));
    assert_eq!(resolve("tp=4,pp=8,ep=8").expert_tensor, 1, "ep 8 does not divide cp · dp = 2");

    let interleaved = resolve("pp=2,sched=interleaved,zero=1");
    assert_eq!((interleaved.virtual_stages, interleaved.sync), (2, GradientSync::Deferred));
    assert_eq!(interleaved.cuts, [4, 4, 4, 4]);
    assert_eq!(resolve("pp=2,sched=zb-v").virtual_stages, 2);
    assert_eq!(resolve("pp=2,offload=optimizer:0.5").offload.optimizer, [0.5, 0.5]);
}

#[test]
fn keys_without_effect_become_their_default() {
    let facts = facts(&dense(), 64, "embedded");
    for (text, without) in [
        ("micro=8,sync=immediate", "micro=8"),
        ("micro=8,sync=scatter", "micro=8"),
        ("micro=8,zero=2,sync=deferred", "micro=8,zero=2"),
        ("micro=8,sched=gpipe", "micro=8"),
        ("zero=2,reshard=off", "zero=2"),
        ("zero=0,shard=8", "zero=0"),
        ("zero=2,sync=scatter", "zero=2,sync=immediate"),
        ("sp=on", "sp=off"),
        ("cp_kind=ulysses", "cp=1"),
        ("capacity=full,etp=3", "ep=1"),
        ("overlap=off", "overlap=on"),
        ("offload=optimizer:0,overlap=off", "offload=none"),
        ("order=pp-dp-cp-tp", "tp=1"),
        ("tp=4,pp=16,sync=immediate,bucket=1M,reduce=fp32", "tp=4,pp=16"),
        ("ckpt=full:0", "ckpt=none"),
        ("ckpt=full:16", "ckpt=full"),
        ("ckpt=full*3+full*13", "ckpt=full"),
    ] {
        assert_eq!(printed(text, &facts), printed(without, &facts), "{text}");
    }
}

#[test]
fn keys_with_effect_stay() {
    let facts = facts(&moe(), 64, "embedded");
    for text in [
        "tp=1,pp=1,dp=64,sched=gpipe,zero=0,micro=1,accum=8",
        "tp=1,pp=1,dp=64,zero=0,micro=1,accum=8,sync=immediate",
        "tp=1,pp=1,dp=64,zero=2,shard=8,micro=1,accum=8,sync=scatter",
        "tp=1,pp=1,dp=64,zero=3,reshard=off,micro=1,accum=8,sync=deferred",
        "tp=2,pp=1,dp=32,zero=0,shard=8,micro=1,accum=16,order=shard-tp-cp-replica-pp",
        "tp=1,pp=1,dp=64,capacity=2,zero=0,micro=1,accum=8",
        "tp=1,pp=2,dp=32,zero=0,micro=1,accum=16,ckpt=full/none",
        "tp=1,pp=2,dp=32,cuts=16/0,zero=0,micro=1,accum=16,ckpt=full*2+none*3+selective*11/none",
        "tp=1,pp=2,dp=32,cuts=16/0,zero=0,micro=1,accum=16,ckpt=full:4/none",
        "tp=1,pp=2,dp=32,cuts=16/0,zero=0,micro=1,accum=16,ckpt=selective",
    ] {
        assert_eq!(printed(text, &facts), text);
    }
    let text = "tp=1,pp=1,dp=64,zero=1,micro=1,accum=8,bucket=1M";
    assert_eq!(printed(text, &self::facts(&dense(), 64, "deepspeed")), text);
    assert_ne!(printed(text, &self::facts(&dense(), 64, "torchtitan")), text);
}

#[test]
fn engines_that_fix_a_type_count_it_as_theirs() {
    let resolve = |text: &str, facts: &Facts| Draft::parse(text).unwrap().resolve(facts).unwrap();
    for (engine, kept, reduced) in [
        ("megatron", ElementType::Fp16, ElementType::Fp16),
        ("deepspeed", ElementType::Bf16, ElementType::Bf16),
        ("torchtitan", ElementType::Fp32, ElementType::Fp32),
        ("embedded", ElementType::Fp16, ElementType::Fp16),
    ] {
        let mut facts = facts(&dense(), 64, engine);
        // Those that keep what the strategy says keep no 16-bit type but the parameters'.
        if engine == "megatron" {
            facts.workload.precision = ElementType::Fp16;
        }
        let strategy = resolve("zero=3,grad=fp16,reduce=fp16", &facts);
        assert_eq!((strategy.gradient_type, strategy.reduce_type), (kept, reduced), "{engine}");
    }
    let facts = facts(&dense(), 64, "deepspeed");
    assert_eq!(printed("grad=fp32", &facts), "tp=1,pp=1,dp=64,zero=0,micro=1,accum=8");
}

#[test]
fn exact_precisions_keep_gradients_in_their_type() {
    let mut facts = facts(&dense(), 64, "embedded");
    for precision in [ElementType::Fp32, ElementType::Fp64] {
        facts.workload.precision = precision;
        facts.defaults = Defaults::new(&facts.workload, facts.profile);
        let same = format!("zero=1,grad={precision},reduce={precision}");
        assert_eq!(printed(&same, &facts), "tp=1,pp=1,dp=64,zero=1,micro=1,accum=8");
        let error = Draft::parse("zero=1,grad=bf16").unwrap().resolve(&facts).unwrap_err();
        assert_eq!((error.rule, error.nearest), (Rule::GradientType, vec![precision.to_string()]));
    }
}
