//! Tests of the rules: each broken once, with its message and nearest legal values.

use proptest::prelude::*;
use proptest::strategy::Strategy as Generator;

use super::*;
use crate::model::layer::Projection;
use crate::model::{LayerKind, LossWeight, Model};
use crate::profile::capabilities::ShardGroups;
use crate::strategy::facts::Heads;
use crate::strategy::sample::{dense, facts, moe};
use crate::strategy::{Checkpoint, CheckpointMode, Draft, Strategy};

fn broken_by(text: &str, facts: &Facts) -> RuleBreak {
    match Draft::parse(text).unwrap().resolve(facts) {
        Ok(strategy) => panic!("{text} is legal: {strategy:?}"),
        Err(error) => error,
    }
}

#[test]
fn each_rule_says_what_is_wrong_and_what_would_be_right() {
    let cases: &[(&str, u64, &str, Rule, &str, &str)] = &[
        ("tp=3", 64, "embedded", Rule::Devices, "tp", "tp 3 does not divide 64 devices; 2 and 4 do"),
        ("tp=100", 64, "embedded", Rule::Devices, "tp", "tp 100 does not divide 64 devices; 32 does"),
        (
            "tp=2,pp=4,dp=4",
            64,
            "embedded",
            Rule::Devices,
            "dp",
            "tp 2 · cp 1 · pp 4 · dp 4 is 32 devices, not 64; dp 8 makes 64",
        ),
        (
            "tp=8,pp=16",
            64,
            "embedded",
            Rule::Devices,
            "pp",
            "tp 8 · cp 1 · pp 16 does not divide 64 devices; pp 8 does",
        ),
        (
            "micro=3",
            64,
            "embedded",
            Rule::Batch,
            "micro",
            "micro 3 does not divide the 8 sequences of a data rank; 2 and 4 do",
        ),
        (
            "accum=3",
            64,
            "embedded",
            Rule::Batch,
            "accum",
            "dp 64 · micro 1 · accum 3 is not the global batch of 512; accum 8 makes it",
        ),
        (
            "",
            48,
            "embedded",
            Rule::Batch,
            "pp",
            "dp 48 does not divide the global batch of 512; pp 3 leaves a dp that does",
        ),
        ("tp=6,dp=8", 48, "embedded", Rule::TensorHeads, "tp", "tp 6 does not divide 32 heads; 4 and 8 do"),
        (
            "tp=16",
            64,
            "torchtitan",
            Rule::TensorKeyValueHeads,
            "tp",
            "tp 16 does not divide 8 key-value heads; 8 does",
        ),
        (
            "cp=2,cp_kind=ulysses",
            64,
            "torchtitan",
            Rule::ContextOffered,
            "cp_kind",
            "torchtitan does not offer cp_kind ulysses; ring it does",
        ),
        (
            "cp=3,dp=16",
            48,
            "embedded",
            Rule::ContextSequence,
            "cp",
            "2 · cp 3 does not divide 4096 tokens; cp 2 and 4 do",
        ),
        (
            "cp=3,dp=16,cp_kind=ulysses",
            48,
            "embedded",
            Rule::ContextSequence,
            "cp",
            "cp 3 does not divide 4096 tokens; cp 2 and 4 do",
        ),
        (
            "cp=2,attention=materialised",
            64,
            "embedded",
            Rule::ContextAttention,
            "attention",
            "a ring of context ranks merges partial softmaxes, which takes fused attention; fused is legal",
        ),
        (
            "tp=8,cp=8,cp_kind=ulysses",
            64,
            "embedded",
            Rule::ContextHeads,
            "cp",
            "tp 8 · cp 8 does not divide the heads that ulysses spreads; cp 4 does",
        ),
        ("ep=2", 64, "embedded", Rule::ExpertModel, "ep", "this model has no experts; 1 is legal"),
        (
            "pp=1,sched=zb-h1",
            64,
            "embedded",
            Rule::SchedulePipeline,
            "sched",
            "sched zb-h1 needs a pipeline, and pp is 1; 1f1b is legal",
        ),
        (
            "pp=2,sched=gpipe",
            64,
            "megatron",
            Rule::ScheduleOffered,
            "sched",
            "megatron does not offer sched gpipe; 1f1b and interleaved it does",
        ),
        (
            "pp=2,virtual=2",
            64,
            "embedded",
            Rule::VirtualStages,
            "virtual",
            "sched 1f1b takes virtual 1, not 2; 1 is legal",
        ),
        (
            "pp=2,sched=interleaved,virtual=1000000000000000000",
            64,
            "embedded",
            Rule::VirtualStages,
            "virtual",
            "sched interleaved takes virtual 2 to 16, not 1000000000000000000; 16 is legal",
        ),
        (
            "pp=2,sched=zb-v,virtual=3",
            64,
            "embedded",
            Rule::VirtualStages,
            "virtual",
            "sched zb-v takes virtual 2, not 3; 2 is legal",
        ),
        (
            "pp=4,sched=interleaved,micro=16",
            64,
            "megatron",
            Rule::InterleavedRounds,
            "micro",
            "megatron interleaves whole rounds only, and accum 2 is not made of rounds of pp 4; micro 8 is legal",
        ),
        (
            "pp=2,cuts=8/4/4",
            64,
            "embedded",
            Rule::CutsCount,
            "cuts",
            "cuts names 3 chunks, and pp 2 · virtual 1 is 2; 8/8 is legal",
        ),
        (
            "pp=2,cuts=8/9",
            64,
            "embedded",
            Rule::CutsSum,
            "cuts",
            "cuts sum to 17 blocks, and the model has 16; 8/8 is legal",
        ),
        (
            "zero=1",
            64,
            "torchtitan",
            Rule::ZeroOffered,
            "zero",
            "torchtitan does not offer zero 1; 0 and 3 it does",
        ),
        (
            "pp=2,zero=2",
            64,
            "megatron",
            Rule::ZeroPipeline,
            "zero",
            "megatron offers no zero 2 with a pipeline; 0 and 1 are legal",
        ),
        ("zero=2,shard=7", 64, "embedded", Rule::Shard, "shard", "shard 7 does not divide dp 64; 4 and 8 do"),
        (
            "sync=scatter",
            64,
            "embedded",
            Rule::SyncZero,
            "sync",
            "sync scatter needs sharded state, and zero is 0; immediate and deferred are legal",
        ),
        (
            "zero=2,shard=8,sync=scatter",
            64,
            "deepspeed",
            Rule::SyncOffered,
            "sync",
            "deepspeed does not reduce so under zero 2; immediate is legal",
        ),
        (
            "zero=2,sync=deferred",
            64,
            "deepspeed",
            Rule::SyncOffered,
            "sync",
            "deepspeed does not reduce so under zero 2; immediate is legal",
        ),
        (
            "pp=2,ckpt=none/full/none",
            64,
            "embedded",
            Rule::CheckpointCount,
            "ckpt",
            "ckpt has 3 entries for 2 chunks; none, selective and full are legal",
        ),
        (
            "pp=2,ckpt=full:9",
            64,
            "embedded",
            Rule::CheckpointBlocks,
            "ckpt",
            "ckpt names 9 blocks of chunk 0, which has 8; none, full and full:8 are legal",
        ),
        (
            "pp=2,ckpt=none/full*4+none*3",
            64,
            "embedded",
            Rule::CheckpointBlocks,
            "ckpt",
            "ckpt names 7 blocks of chunk 1, which has 8; none, full and full:8 are legal",
        ),
        (
            "zero=3,offload=activations:1",
            64,
            "torchtitan",
            Rule::OffloadOffered,
            "offload",
            "torchtitan does not offload activations; none and optimizer:1+params:1 are legal",
        ),
        (
            "pp=4,offload=optimizer:1/0",
            64,
            "embedded",
            Rule::OffloadCount,
            "offload",
            "offload has 2 fractions for 4 stages; none is legal",
        ),
        (
            "zero=2,offload=params:1",
            64,
            "deepspeed",
            Rule::OffloadZero,
            "offload",
            "deepspeed does not offload so under zero 2; none and optimizer:1 are legal",
        ),
        (
            "zero=3,offload=optimizer:1",
            64,
            "torchtitan",
            Rule::OffloadTogether,
            "offload",
            "torchtitan offloads optimizer:1+params:1 together or nothing; none and optimizer:1+params:1 are legal",
        ),
        (
            "zero=1,offload=optimizer:0.5",
            64,
            "deepspeed",
            Rule::OffloadZero,
            "offload",
            "deepspeed does not offload so under zero 1; none and optimizer:1 are legal",
        ),
        (
            "pp=2,zero=1,offload=optimizer:1/0.5",
            64,
            "megatron",
            Rule::OffloadGrain,
            "offload",
            "megatron does not offload such fractions; none, optimizer:1, activations:1 and optimizer:1+activations:1 \
             are legal",
        ),
        (
            "pp=2,ckpt=full:3/none",
            64,
            "megatron",
            Rule::CheckpointGrain,
            "ckpt",
            "megatron recomputes no such mixture; none, selective and full are legal",
        ),
        (
            "ckpt=selective",
            64,
            "deepspeed",
            Rule::CheckpointOffered,
            "ckpt",
            "deepspeed does not recompute so; none and full are legal",
        ),
        (
            "tp=2,sp=on",
            64,
            "deepspeed",
            Rule::SequenceOffered,
            "sp",
            "deepspeed does not offer sp on; off it does",
        ),
        (
            "pp=2,cuts=8/8",
            64,
            "nanotron",
            Rule::CutsOffered,
            "cuts",
            "nanotron does not cut a model so; 9/7 is legal",
        ),
        (
            "tp=8",
            64,
            "torchtitan",
            Rule::ReplicationOffered,
            "zero",
            "torchtitan replicates state over dp 8 beside no other axis; 3 is legal",
        ),
        (
            "zero=3,reshard=off",
            64,
            "deepspeed",
            Rule::ReshardOffered,
            "reshard",
            "deepspeed does not offer reshard off; on it does",
        ),
        (
            "compress=8bit",
            64,
            "megatron",
            Rule::CompressionOffered,
            "compress",
            "megatron does not offer compress 8bit; none it does",
        ),
        (
            "loss=chunked",
            64,
            "megatron",
            Rule::LossOffered,
            "loss",
            "megatron does not offer loss chunked; full it does",
        ),
        (
            "attention=materialised",
            64,
            "torchtitan",
            Rule::AttentionOffered,
            "attention",
            "torchtitan does not offer attention materialised; fused it does",
        ),
        (
            "zero=3,offload=optimizer:1+params:1,overlap=off",
            64,
            "torchtitan",
            Rule::OverlapOffered,
            "overlap",
            "torchtitan copies what is offloaded beside computing; on is legal",
        ),
        (
            "grad=fp16",
            64,
            "megatron",
            Rule::GradientType,
            "grad",
            "gradients cannot be kept in fp16 under bf16; fp32 and bf16 are legal",
        ),
        (
            "cp=2,dp=1,zero=0",
            2,
            "torchtitan",
            Rule::ReplicationOffered,
            "zero",
            "torchtitan replicates state over dp 1 beside no other axis; 3 is legal",
        ),
        (
            "tp=2,cp=2,cp_kind=ulysses,sp=off",
            64,
            "deepspeed",
            Rule::Together,
            "cp",
            "deepspeed does not run tp and cp at once; 1 is legal",
        ),
        (
            "grad=fp64",
            64,
            "embedded",
            Rule::GradientType,
            "grad",
            "gradients cannot be kept in fp64 under bf16; fp32, bf16 and fp16 are legal",
        ),
        (
            "reduce=fp64",
            64,
            "embedded",
            Rule::ReduceType,
            "reduce",
            "gradients cannot be reduced in fp64 under bf16; fp32, bf16 and fp16 are legal",
        ),
    ];
    for &(text, devices, engine, rule, field, message) in cases {
        let broken = broken_by(text, &facts(&dense(), devices, engine));
        assert_eq!(broken.message, message, "{text}");
        assert_eq!((broken.rule, broken.field.as_str()), (rule, field), "{text}");
    }
}

#[test]
fn experts_have_rules_of_their_own() {
    let cases: &[(&str, u64, Rule, &str, &[&str])] = &[
        (
            "ep=3",
            48,
            Rule::Batch,
            "dp 48 does not divide the global batch of 512; pp 3 leaves a dp that does",
            &["3"],
        ),
        ("ep=16", 64, Rule::Experts, "ep 16 does not divide 8 experts; ep 8 is legal", &["8"]),
        ("tp=4,etp=2", 64, Rule::ExpertTensor, "etp 2 is neither 1 nor tp 4; 1 and 4 are legal", &["1", "4"]),
        (
            "pp=16,ep=8",
            64,
            Rule::ExpertRanks,
            "ep 8 · etp 1 does not divide the 4 ranks of a stage; ep 4 is legal",
            &["4"],
        ),
        (
            "zero=1,shard=1,ep=2",
            64,
            Rule::ExpertReplicas,
            "ep 2 · etp 1 leaves ranks that 64 replicas do not divide; ep 1 is legal",
            &["1"],
        ),
    ];
    for &(text, devices, rule, message, nearest) in cases {
        let broken = broken_by(text, &facts(&moe(), devices, "embedded"));
        assert_eq!((broken.rule, broken.message.as_str()), (rule, message), "{text}");
        assert_eq!(broken.nearest, nearest, "{text}");
    }
}

#[test]
fn what_goes_alone_need_not_go_together() {
    let facts = facts(&moe(), 64, "deepspeed");
    for text in ["tp=2,ep=2", "pp=2,ep=2", "tp=2,pp=2", "ep=2,zero=1,offload=optimizer:1"] {
        assert!(Draft::parse(text).unwrap().resolve(&facts).is_ok(), "{text}");
    }
    for (text, rule, field) in [
        ("tp=2,pp=2,ep=2", Rule::Together, "ep"),
        ("cp=2,cp_kind=ulysses,pp=2", Rule::Together, "pp"),
        ("cp=2,cp_kind=ulysses,ep=2,zero=3", Rule::Together, "ep"),
        ("tp=2,ep=2,zero=1,offload=optimizer:1", Rule::OffloadBeside, "offload"),
    ] {
        let broken = broken_by(text, &facts);
        assert_eq!((broken.rule, broken.field.as_str()), (rule, field), "{text}: {}", broken.message);
        for value in &broken.nearest {
            let repaired = Draft::parse(&with(text, field, value)).unwrap().resolve(&facts);
            assert!(repaired.is_ok(), "{text}, {field} {value}: {repaired:?}");
        }
    }
}

#[test]
fn key_value_heads_are_replicated_where_the_engine_does_it() {
    for (engine, is_legal) in [("embedded", true), ("megatron", true), ("torchtitan", false)] {
        let result = Draft::parse("tp=16").unwrap().resolve(&facts(&dense(), 64, engine));
        assert_eq!(result.is_ok(), is_legal, "{engine}");
    }
}

#[test]
fn sequence_parallelism_cuts_what_context_parallelism_leaves() {
    let mut facts = facts(&dense(), 64, "embedded");
    facts.workload.seq_len = 12;
    let broken = broken_by("tp=8,cp=2", &facts);
    assert_eq!(
        broken.message,
        "tp 8 does not divide the 6 tokens of a context rank, as sequence parallelism needs; 2 does"
    );
    assert!(Draft::parse("tp=8,cp=2,sp=off").unwrap().resolve(&facts).is_ok());
}

#[test]
fn engines_refuse_at_once_what_they_would_refuse_at_their_start() {
    let tied = changed(dense(), |kind| {
        if let LayerKind::Head(head) = kind {
            head.tied = true;
        }
    });
    for (model, engine, seq_len, text, rule, field, repair) in [
        (dense(), "torchtitan", 4104, "tp=4,cp=2,zero=3", Rule::SequenceDivisor, "cp", "tp=4,zero=3"),
        (dense(), "torchtitan", 4100, "tp=4,zero=3", Rule::SequenceDivisor, "tp", "tp=2,zero=3"),
        (
            dense(),
            "megatron",
            4100,
            "cp=4,cp_kind=ulysses",
            Rule::SequenceDivisor,
            "cp",
            "cp=2,cp_kind=ulysses",
        ),
        (tied, "torchtitan", 4096, "pp=2,zero=3", Rule::Together, "pp", "zero=3"),
        (moe(), "megatron", 4096, "tp=2,sp=off", Rule::Together, "sp", "tp=2"),
    ] {
        let mut facts = facts(&model, 8, engine);
        facts.workload.seq_len = seq_len;
        let broken = broken_by(text, &facts);
        assert_eq!((broken.rule, broken.field.as_str()), (rule, field), "{text}: {}", broken.message);
        assert!(!broken.nearest.is_empty(), "{text}: {}", broken.message);
        assert!(Draft::parse(repair).unwrap().resolve(&facts).is_ok(), "{repair}");
    }
    // Nobody named cuts, so the message is about the pipeline.
    let mut facts = facts(&dense(), 64, "nanotron");
    facts.cut_costs.head = 1 << 60;
    let broken = broken_by("pp=8", &facts);
    assert_eq!((broken.rule, broken.field.as_str()), (Rule::CutsOffered, "pp"), "{}", broken.message);
}

/// `model` with its first layer of a kind changed.
fn changed(mut model: Model, change: impl Fn(&mut LayerKind)) -> Model {
    model.graph.node_weights_mut().for_each(|layer| change(&mut layer.kind));
    model
}

#[test]
fn widths_and_wholly_visible_sequences_count() {
    let narrow = changed(moe(), |kind| {
        if let LayerKind::Moe(moe) = kind {
            moe.intermediate = 1_001;
            moe.shared_intermediate = 2_002;
        }
    });
    let facts_of = |model| facts(model, 64, "embedded");
    let broken = broken_by("tp=4", &facts_of(&narrow));
    assert_eq!(broken.message, "tp 4 does not divide the MLP width 2002; 2 does");
    let broken = broken_by("tp=2", &facts_of(&narrow));
    assert_eq!(broken.message, "etp 2 does not divide the expert width 1001; 1 does");

    let mut facts = facts_of(&changed(dense(), |kind| {
        if let LayerKind::Attention(attention) = kind {
            attention.causal = false;
        }
    }));
    facts.workload.seq_len = 64;
    assert!(Draft::parse("cp=64,zero=1").unwrap().resolve(&facts).is_ok(), "a ring without a causal mask");
}

#[test]
fn adaptive_losses_need_both_gradients_on_one_rank() {
    let mut model = dense();
    model.losses[0].weight = LossWeight::Adaptive { of: "loss".to_owned(), at: "head".to_owned() };
    let facts = facts(&model, 64, "embedded");
    assert!(Draft::parse("tp=8").unwrap().resolve(&facts).is_ok());
    assert_eq!(broken_by("pp=2", &facts).message, "an adaptive loss weight needs pp 1, not 2; 1 is legal");
}

#[test]
fn engines_that_lack_experts_or_shard_groups_say_so() {
    let mut profile = crate::profile::engines::engine("embedded").unwrap().clone();
    profile.supports.expert_parallel.value = false;
    profile.supports.shard_groups.value = ShardGroups::None;
    let model = moe();
    let facts = Facts::new(&model, 64, &crate::strategy::sample::workload(), &profile);
    assert_eq!(broken_by("ep=8", &facts).message, "embedded offers no expert parallelism; 1 is legal");
    assert_eq!(
        broken_by("zero=1,shard=8", &facts).message,
        "embedded shards over all of dp 64, not over 8; 64 is legal"
    );
}

#[test]
fn experts_are_split_as_engines_split_them() {
    let model = moe();
    let titan = facts(&model, 64, "torchtitan");
    let message = "torchtitan does not split experts over 1 rank without expert parallelism; 4 is legal";
    assert_eq!(broken_by("tp=4,etp=1,zero=3", &titan).message, message);
    assert_eq!(broken_by("zero=3,shard=1", &titan).rule, Rule::ShardOffered);
    for text in ["tp=4,zero=3", "tp=4,ep=8,etp=1,zero=3", "cp=2,zero=3,shard=1"] {
        assert!(Draft::parse(text).unwrap().resolve(&titan).is_ok(), "{text}");
    }
    let colossal = facts(&model, 64, "colossalai");
    assert_eq!(broken_by("tp=4,ep=8,etp=1,zero=1", &colossal).rule, Rule::ExpertTensorOffered);
}

#[test]
fn pytorch_interleaves_equal_rounds() {
    let mut facts = facts(&dense(), 8, "torchtitan");
    for (batch, is_legal) in [(2, true), (4, true), (7, true), (8, true), (9, false), (10, true)] {
        facts.workload.global_batch = batch;
        let result = Draft::parse("tp=2,pp=4,sched=interleaved").unwrap().resolve(&facts);
        assert_eq!(result.is_ok(), is_legal, "{batch} micro-batches over 4 stages");
    }
}

#[test]
fn a_batch_too_small_for_a_pipeline_names_the_size_to_change() {
    let mut facts = facts(&dense(), 64, "colossalai");
    facts.workload.global_batch = 8;
    let broken = broken_by("pp=8", &facts);
    assert_eq!((broken.rule, broken.field.as_str()), (Rule::PipelinedMicroBatches, "tp"));
    for size in &broken.nearest {
        let repaired = Draft::parse(&with("pp=8", "tp", size)).unwrap().resolve(&facts);
        assert!(repaired.is_ok(), "tp {size}: {repaired:?}");
    }
}

#[test]
fn strategies_made_by_hand_are_judged_without_a_panic() {
    let facts = facts(&moe(), 64, "embedded");
    let legal_one = Draft::parse("tp=2,pp=2,zero=1").unwrap().resolve(&facts).unwrap();
    let changes: &[fn(&mut Strategy)] = &[
        |s| s.tensor = 0,
        |s| s.data = u64::MAX,
        |s| s.expert = 0,
        |s| s.expert = u64::MAX,
        |s| s.expert_tensor = 0,
        |s| s.shard = 0,
        |s| s.micro_batch = 0,
        |s| s.virtual_stages = u64::MAX,
        |s| s.bucket = 0,
        |s| s.zero = 9,
        |s| s.capacity = super::super::Capacity::Factor(f64::NAN),
        |s| s.offload.optimizer = vec![0.5, 2.0],
        |s| s.order.0[0] = s.order.0[1],
        |s| s.cuts.clear(),
        |s| s.checkpoint = vec![Checkpoint::uniform(CheckpointMode::Full, 9); 2],
    ];
    assert!(legal(&legal_one, &facts));
    for (index, change) in changes.iter().enumerate() {
        let mut strategy = legal_one.clone();
        change(&mut strategy);
        assert!(!legal(&strategy, &facts), "change {index}");
        let error = check(&strategy, &facts).unwrap_err();
        assert!(!error.message.is_empty() && !error.field.is_empty());
    }
}

/// `text` with `key` as in `value`.
fn with(text: &str, key: &str, value: &str) -> String {
    let others = text.split(',').filter(|item| !item.is_empty() && !item.starts_with(&format!("{key}=")));
    others.map(str::to_owned).chain([format!("{key}={value}")]).collect::<Vec<_>>().join(",")
}

#[test]
fn nearest_values_are_legal() {
    let facts = facts(&dense(), 64, "embedded");
    let heads = Facts { heads: vec![Heads { query: 25, key_value: 25, causal: true }], ..facts.clone() };
    assert_eq!(broken_by("tp=25", &heads).nearest, ["1"], "of 64 devices and 25 heads");
    for text in ["tp=3", "tp=64", "pp=5", "zero=2,shard=7", "micro=3", "cp=64,cp_kind=ulysses"] {
        let broken = broken_by(text, &facts);
        assert!(!broken.nearest.is_empty(), "{text}");
        for value in &broken.nearest {
            let repaired = with(text, &broken.field, value);
            let result = Draft::parse(&repaired).unwrap().resolve(&facts);
            assert!(result.is_ok(), "{text} was told {repaired}: {result:?}");
        }
    }
}

/// Few values of every key, legal and not.
fn any_text() -> impl Generator<Value = String> {
    let values: &'static [(&str, &[&str])] = &[
        ("tp", &["2", "3", "4", "5", "8", "16", "25", "26", "64"]),
        ("cp", &["2", "3", "8", "16"]),
        ("pp", &["2", "3", "4", "7", "8", "16"]),
        ("dp", &["1", "2", "5", "8", "12", "48"]),
        ("sp", &["on", "off"]),
        ("cp_kind", &["ring", "ulysses"]),
        ("ep", &["2", "3", "8", "16"]),
        ("etp", &["1", "2", "4"]),
        ("sched", &["gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"]),
        ("virtual", &["1", "2", "3", "9"]),
        ("cuts", &["8/8", "4/4/4/4", "5/5", "16"]),
        ("zero", &["0", "1", "2", "3"]),
        ("shard", &["1", "2", "3", "4"]),
        ("micro", &["1", "2", "3", "16", "64"]),
        ("accum", &["1", "2", "6", "8"]),
        ("sync", &["immediate", "scatter", "deferred"]),
        ("ckpt", &["full", "full:9", "none/full", "selective*3"]),
        ("offload", &["none", "optimizer:1", "params:0.5/1", "params:1", "activations:1"]),
        ("compress", &["none", "8bit"]),
        ("loss", &["full", "chunked"]),
        ("attention", &["fused", "materialised"]),
        ("grad", &["fp32", "bf16", "fp64"]),
    ];
    let item =
        prop::sample::select(values).prop_flat_map(|(key, values)| (Just(key), prop::sample::select(values)));
    prop::collection::vec(item, 1..5)
        .prop_map(|items| items.into_iter().fold(String::new(), |text, (key, value)| with(&text, key, value)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn a_nearest_value_is_not_refused_for_its_key(
        text in any_text(),
        devices in prop::sample::select(vec![1_u64, 8, 12, 25, 48, 64, 100]),
        batch in prop::sample::select(vec![1_u64, 8, 10, 384, 512]),
        engine in prop::sample::select(vec!["embedded", "megatron", "torchtitan", "deepspeed", "colossalai", "nanotron", "nemo", "internevo", "maxtext", "llm-foundry"]),
        heads in prop::sample::select(vec![25_u64, 32]),
        is_moe in any::<bool>(),
    ) {
        let model = changed(if is_moe { moe() } else { dense() }, |kind| match kind {
            LayerKind::Attention(attention) if heads == 25 => {
                let projection = Projection::Grouped { kv_heads: 25, head_dim: 64 };
                (attention.heads, attention.projection) = (25, projection);
            }
            _ => {}
        });
        let mut facts = facts(&model, devices, engine);
        facts.workload.global_batch = batch;
        let Err(broken) = Draft::parse(&text).unwrap().resolve(&facts) else { return Ok(()) };
        for near in &broken.nearest {
            let repaired = with(&text, &broken.field, near);
            let again = Draft::parse(&repaired).unwrap().resolve(&facts);
            let field = again.as_ref().err().map(|again| again.field.as_str());
            prop_assert!(field != Some(broken.field.as_str()), "{text}: {broken}\n{repaired}: {again:?}");
        }
    }
}
