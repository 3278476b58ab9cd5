//! Tests of strategy texts: every key, every way to go wrong, and what is printed parses back to itself.

use proptest::prelude::*;
use proptest::strategy::{Strategy as Generator, ValueTree};

use super::*;
use crate::strategy::sample::{BLOCKS, dense, facts, moe};
use crate::strategy::{Facts, Strategy};

#[test]
fn every_key_is_read_and_printed_in_contract_order() {
    let text = "tp=2,cp=2,pp=2,dp=8,sp=off,cp_kind=ulysses,ep=4,etp=1,capacity=1.5,sched=interleaved,virtual=4,\
                cuts=1/2/2/2/2/2/2/3,zero=3,shard=4,reshard=off,micro=2,accum=32,sync=scatter,\
                ckpt=full@2/full:1/full*1+selective*1/none@3/selective,\
                offload=optimizer:1/0.5+params:0.25+activations:0.125,overlap=off,compress=8bit,loss=chunked,\
                attention=materialised,bucket=25M,grad=bf16,reduce=fp32,order=shard-tp-cp-pp-replica";
    let facts = facts(&moe(), 64, "embedded");
    let draft = Draft::parse(text).unwrap();
    assert_eq!(draft.keys(), Key::ALL, "the test gives every key");
    // This engine has no buckets.
    let printed = text.replace("bucket=25M,", "");
    assert_eq!(draft.resolve(&facts).unwrap().text(facts.defaults), printed);

    let mut items: Vec<_> = text.split(',').collect();
    items.reverse();
    assert_eq!(Draft::parse(&items.join(" , ")).unwrap(), draft, "order and blanks do not matter");
}

#[test]
fn defaults_are_left_out() {
    let facts = facts(&dense(), 64, "embedded");
    for (text, printed) in [
        ("", "tp=1,pp=1,dp=64,zero=0,micro=1,accum=8"),
        ("tp=4,pp=2,zero=1,micro=2", "tp=4,pp=2,dp=8,zero=1,micro=2,accum=32"),
        (
            "tp=2,sp=on,cp=1,cp_kind=ring,ep=1,capacity=full,sched=1f1b,virtual=1,cuts=16,shard=32,reshard=on,\
             sync=deferred,ckpt=none,offload=none,overlap=on,compress=none,loss=full,attention=fused,\
             bucket=40000K,grad=fp32,reduce=bf16,order=tp-cp-shard-replica-pp",
            "tp=2,pp=1,dp=32,zero=0,micro=1,accum=16",
        ),
    ] {
        assert_eq!(Draft::parse(text).unwrap().resolve(&facts).unwrap().text(facts.defaults), printed);
    }
}

#[test]
fn values_are_read() {
    let draft = |text| Draft::parse(text).unwrap();
    assert_eq!(draft("bucket=5G").bucket, Some(5_000_000_000));
    assert_eq!(draft("bucket=7").bucket, Some(7));
    assert_eq!(draft("capacity=2").capacity, Some(Capacity::Factor(2.0)));
    assert_eq!(draft("ckpt=full:3").checkpoint, Some(vec![CheckpointEntry::First(3)]));
    assert_eq!(draft("cuts=0/16").cuts, Some(vec![0, 16]));
    assert_eq!(
        draft("offload=activations:-0+optimizer:1/0").offload,
        Some(vec![(OffloadCategory::Activations, vec![0.0]), (OffloadCategory::Optimizer, vec![1.0, 0.0])])
    );
    assert_eq!(draft("order=pp-dp-cp-tp").order.unwrap().to_string(), "pp-dp-cp-tp");
    assert_eq!(draft("  "), Draft::default());
}

#[test]
fn what_does_not_parse_names_field_value_and_nearest() {
    for (text, field, value, nearest, message) in [
        ("tp", "strategy", "tp", "tp=1", "`tp` is not of the form key=value; tp=1 is"),
        ("tp=1,", "strategy", "", "", "`` is not of the form key=value"),
        ("shed=1f1b", "shed", "shed", "sched", "there is no strategy key `shed`; did you mean sched?"),
        ("tp=2,pp=1,tp=2", "tp", "2", "", "tp is given twice"),
        ("tp=0", "tp", "0", "1", "tp 0 is below its least, 1"),
        ("dp=-4", "dp", "-4", "1", "dp -4 is below its least, 1"),
        ("pp=2.5", "pp", "2.5", "2", "pp `2.5` is not a whole number; 2 and 3 are"),
        ("cp=two", "cp", "two", "1", "cp `two` is not a number"),
        ("cp=", "cp", "", "1", "cp `` is not a number"),
        ("ep=0.5", "ep", "0.5", "1", "ep 0.5 is below its least, 1"),
        (
            "micro=18446744073709551616",
            "micro",
            "18446744073709551616",
            "18446744073709551615",
            "micro 18446744073709551616 is above its greatest, 18446744073709551615",
        ),
        ("accum=1e400", "accum", "1e400", "1", "accum `1e400` is not a number"),
        ("zero=4", "zero", "4", "3", "zero 4 is above its greatest, 3"),
        ("virtual=nan", "virtual", "nan", "1", "virtual `nan` is not a number"),
        ("cuts=8//8", "cuts", "8//8", "8/0/8", "cuts `` is not a number"),
        (
            "cuts=4294967296",
            "cuts",
            "4294967296",
            "4294967295",
            "cuts 4294967296 is above its greatest, 4294967295",
        ),
        ("sp=yes", "sp", "yes", "on", "sp `yes` is not known; on and off are"),
        ("cp_kind=Ring", "cp_kind", "Ring", "ring", "cp_kind `Ring` is not known; ring and ulysses are"),
        (
            "sched=2f2b",
            "sched",
            "2f2b",
            "1f1b",
            "sched `2f2b` is not known; gpipe, 1f1b, interleaved, zb-h1, zb-h2 and zb-v are",
        ),
        ("capacity=0", "capacity", "0", "1.25", "capacity 0 is not above 0"),
        ("capacity=inf", "capacity", "inf", "1.25", "capacity `inf` is not a number"),
        (
            "ckpt=some",
            "ckpt",
            "some",
            "none",
            "ckpt `some` is not known; none, selective, full, full:K and MODE*COUNT+MODE*COUNT are",
        ),
        ("ckpt=full:-1", "ckpt", "full:-1", "full:0", "ckpt -1 is below its least, 0"),
        ("ckpt=full*1+none", "ckpt", "full*1+none", "", "ckpt `none` is not known; MODE*COUNT is"),
        (
            "offload=optimizer",
            "offload",
            "optimizer",
            "optimizer:1",
            "offload `optimizer` is not known; none, optimizer:1, params:1 and activations:1 are",
        ),
        ("offload=params:1.5", "offload", "params:1.5", "params:1", "offload 1.5 is above its greatest, 1"),
        ("offload=params:-1", "offload", "params:-1", "params:0", "offload -1 is below its least, 0"),
        (
            "offload=params:0.2/2",
            "offload",
            "params:0.2/2",
            "params:0.2/1",
            "offload 2 is above its greatest, 1",
        ),
        ("cuts=8/2.5", "cuts", "8/2.5", "8/2", "cuts `2.5` is not a whole number; 2 and 3 are"),
        (
            "order=tp-foo",
            "order",
            "tp-foo",
            "tp-cp-dp-pp",
            "order `tp-foo` is not a permutation of tp, cp, dp and pp; tp-cp-dp-pp is",
        ),
        (
            "offload=params:1+params:1",
            "offload",
            "params:1+params:1",
            "",
            "offload `params:1+params:1` names params twice",
        ),
        ("bucket=0", "bucket", "0", "1", "bucket 0 is below its least, 1"),
        ("bucket=40m", "bucket", "40m", "1", "bucket `40m` is not a number"),
        ("grad=fp8", "grad", "fp8", "fp32", "grad `fp8` is not known; fp32, bf16 and fp16 are"),
        (
            "order=tp-cp-dp",
            "order",
            "tp-cp-dp",
            "tp-cp-dp-pp",
            "order `tp-cp-dp` is not a permutation of tp, cp, dp and pp; tp-cp-dp-pp is",
        ),
        (
            "order=tp-dp-cp-shard-pp",
            "order",
            "tp-dp-cp-shard-pp",
            "tp-cp-dp-pp",
            "order `tp-dp-cp-shard-pp` is not a permutation of tp, cp, dp and pp; tp-cp-dp-pp is",
        ),
    ] {
        let error = Draft::parse(text).unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!((error.field(), error.value()), (field, value), "{text}");
        assert_eq!(error.nearest().first().map_or("", String::as_str), nearest, "{text}");
        for near in error.nearest().iter().filter(|_| matches!(error, StrategyTextError::Value { .. })) {
            assert!(Draft::parse(&format!("{field}={near}")).is_ok(), "{text} was told {near}");
        }
    }
}

/// Texts of whole strategies, most of them legal on 64 devices.
fn texts() -> impl Generator<Value = String> {
    fn one_of(key: &'static str, values: &'static [&'static str]) -> BoxedStrategy<String> {
        let values = prop::sample::select(values);
        prop::option::of(values)
            .prop_map(move |value| value.map_or(String::new(), |value| format!("{key}={value}")))
            .boxed()
    }
    let sizes = vec![
        one_of("tp", &["1", "2", "4"]),
        one_of("cp", &["1", "2"]),
        one_of("sp", &["on", "off"]),
        one_of("cp_kind", &["ring", "ulysses"]),
        one_of("ep", &["1", "2", "4", "8"]),
        one_of("capacity", &["1", "1.5", "full"]),
    ];
    let pipeline = prop::sample::select(vec![
        "pp=2,sched=interleaved",
        "pp=2,sched=interleaved,virtual=4,cuts=0/2/3/3/1/2/2/3,ckpt=full/none/full:2/selective*2+full*1/none/none/none/none",
        "pp=4,sched=zb-v,ckpt=selective",
        "pp=4,sched=gpipe,ckpt=full/none/none/selective,offload=optimizer:1/0.5/0.25/0",
        "pp=2,sched=zb-h2,cuts=7/9,ckpt=full:5",
        "pp=1,ckpt=full:3",
        "sched=gpipe",
        "pp=1,ckpt=selective*16",
    ]);
    let rest = vec![
        one_of("zero", &["0", "1", "2", "3"]),
        one_of("shard", &["1", "2", "4"]),
        one_of("reshard", &["on", "off"]),
        one_of("micro", &["1", "2", "4"]),
        one_of("sync", &["immediate", "scatter", "deferred"]),
        one_of("overlap", &["on", "off"]),
        one_of("compress", &["none", "8bit", "4bit"]),
        one_of("loss", &["full", "chunked"]),
        one_of("attention", &["fused", "materialised"]),
        one_of("bucket", &["1", "1500", "25M", "40M", "2G"]),
        one_of("grad", &["fp32", "bf16", "fp16"]),
        one_of("reduce", &["fp32", "bf16", "fp16"]),
        one_of("order", &["pp-tp-cp-dp", "shard-tp-cp-pp-replica", "tp-cp-replica-shard-pp", "dp-pp-cp-tp"]),
    ];
    (sizes, pipeline, rest).prop_map(|(sizes, pipeline, rest)| {
        let items = sizes.into_iter().chain([pipeline.to_owned()]).chain(rest);
        items.filter(|item| !item.is_empty()).collect::<Vec<_>>().join(",")
    })
}

fn assert_round_trip(strategy: &Strategy, facts: &Facts) -> Result<(), TestCaseError> {
    let text = strategy.text(facts.defaults);
    let again = Draft::parse(&text).map(|draft| draft.resolve(facts));
    prop_assert_eq!(again, Ok(Ok(strategy.clone())), "{}", text);
    Ok(())
}

proptest! {
    #[test]
    fn what_is_printed_parses_back_to_itself(
        text in texts(),
        engine in prop::sample::select(vec!["embedded", "megatron", "torchtitan", "deepspeed", "colossalai"]),
        is_moe in any::<bool>(),
    ) {
        let model = if is_moe { moe() } else { dense() };
        let facts = facts(&model, 64, engine);
        if let Ok(strategy) = Draft::parse(&text).unwrap().resolve(&facts) {
            prop_assert_eq!(strategy.cuts.iter().sum::<u32>(), BLOCKS);
            let draft = strategy.draft(facts.defaults);
            let said = draft.keys().into_iter().filter_map(|key| Some(format!("{key}={}", draft.value(key)?)));
            prop_assert_eq!(Draft::parse(&said.collect::<Vec<_>>().join(",")), Ok(draft));
            assert_round_trip(&strategy, &facts)?;
            let mut twice = strategy.clone();
            twice.normalise(&facts);
            prop_assert_eq!(twice, strategy);
        }
    }

    #[test]
    fn what_is_told_instead_of_a_value_parses(
        key in prop::sample::select(Key::ALL),
        value in "[a-z0-9./+:*-]{0,8}|(full|half)[:*][0-9.x-]{1,4}(/(none|some))?|(optimizer|params):[0-9./-]{1,6}",
    ) {
        if let Err(error @ StrategyTextError::Value { .. }) = Draft::parse(&format!("{key}={value}")) {
            for near in error.nearest() {
                prop_assert!(Draft::parse(&format!("{key}={near}")).is_ok(), "{key}={value} was told {near}");
            }
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = Draft::parse(&text);
    }

    #[test]
    fn no_near_text_panics(
        items in prop::collection::vec(
            (prop::sample::select(Key::ALL), "[0-9a-z:/*+.-]{0,12}|[0-9]{1,20}|full:[0-9]{1,10}|(full|none)\\*[0-9]{1,10}"),
            0..6,
        ),
    ) {
        let text = items.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
        if let Ok(draft) = Draft::parse(&text) {
            for model in [dense(), moe()] {
                let facts = facts(&model, 64, "embedded");
                if let Ok(strategy) = draft.resolve(&facts) {
                    assert_round_trip(&strategy, &facts)?;
                }
            }
        }
    }
}

#[test]
fn most_generated_texts_are_legal() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let facts = facts(&moe(), 64, "embedded");
    let legal = (0..200)
        .filter(|_| {
            let text = texts().new_tree(&mut runner).unwrap().current();
            Draft::parse(&text).unwrap().resolve(&facts).is_ok()
        })
        .count();
    assert!(legal > 60, "only {legal} of 200");
}
