//! Model-state bytes a parameter of built programs, by engine and ZeRO stage, against what the engines' own sources
//! and estimators say.

use meshwright::lower::Category;
use meshwright::model::{self, Model};
use meshwright::profile::engines::engine;
use meshwright::program::instruction::Holds;
use meshwright::program::{RankProgram, build};
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::ElementType;

/// Ranks that share state.
const N: u64 = 8;

/// Every unit of this model divides by `N` and its vocabulary needs no padding, so that equality is exact.
fn even() -> Model {
    let config = r#"{"model_type":"llama","hidden_size":64,"num_hidden_layers":3,"num_attention_heads":4,
        "num_key_value_heads":4,"intermediate_size":128,"max_position_embeddings":64,"vocab_size":1024,
        "hidden_act":"silu","tie_word_embeddings":false}"#;
    model::from_text(config, "config.json", "even").expect("the configuration is legal")
}

fn rank(name: &str, text: &str, precision: ElementType, micro_batches: u64) -> RankProgram {
    let model = even();
    let engine = engine(name).expect("built in");
    let workload =
        Workload { global_batch: N * micro_batches, seq_len: 16, precision, dropout: 0.0, clip: 1.0 };
    let draft = Draft::parse(text).expect("the text is legal");
    let strategy = resolve(&draft, &model, N, &workload, engine)
        .unwrap_or_else(|error| panic!("{name}, {text}: {error:?}"));
    build(&model, &strategy, &workload, engine).ranks.remove(0)
}

/// Device bytes of parameters, gradients and optimizer state, times `N` over the parameters: whole numbers all.
fn device(rank: &RankProgram) -> u64 {
    let bytes: u64 = [Category::Parameters, Category::Gradients, Category::Optimizer]
        .into_iter()
        .map(|category| rank.persistent_bytes(category).0)
        .sum();
    a_parameter(bytes)
}

fn a_parameter(bytes: u64) -> u64 {
    let parameters = even().parameter_count();
    assert_eq!(bytes * N % parameters, 0, "{bytes} bytes of {parameters} parameters over {N} ranks");
    bytes * N / parameters
}

/// `whole` + `shared`/N bytes a parameter.
fn expect(name: &str, text: &str, precision: ElementType, whole: u64, shared: u64) {
    let rank = rank(name, text, precision, 1);
    assert_eq!(device(&rank), whole * N + shared, "{name}, {text}, {precision:?}");
}

const BF16: ElementType = ElementType::Bf16;
const FP32: ElementType = ElementType::Fp32;

#[test]
fn plain_data_parallel_in_single_precision_takes_16_bytes() {
    for name in ["embedded", "megatron", "torchtitan", "deepspeed", "colossalai"] {
        let supports = &engine(name).expect("built in").supports;
        if supports.zero.contains(&0) {
            expect(name, "zero=0", FP32, 16, 0);
        }
    }
}

#[test]
fn embedded() {
    expect("embedded", "zero=0", BF16, 18, 0);
    expect("embedded", "zero=1", BF16, 6, 12);
    expect("embedded", "zero=2", BF16, 2, 16);
    expect("embedded", "zero=3", BF16, 0, 18);
    expect("embedded", "zero=1,grad=bf16", BF16, 4, 12);
    expect("embedded", "zero=2,grad=bf16", BF16, 2, 14);
    expect("embedded", "zero=3,grad=bf16", BF16, 0, 16);
    expect("embedded", "zero=3", FP32, 0, 16);
}

#[test]
fn megatron() {
    expect("megatron", "zero=0", BF16, 18, 0);
    expect("megatron", "zero=1", BF16, 6, 12);
    expect("megatron", "zero=1", FP32, 8, 8);
}

#[test]
fn torchtitan_keeps_sharded_single_precision_parameters() {
    expect("torchtitan", "zero=0", BF16, 16, 0);
    expect("torchtitan", "zero=3", BF16, 0, 16);
}

#[test]
fn deepspeed_copies_gradients_to_32_bits_at_the_step() {
    for (stage, whole, shared) in [(1, 4, 12), (2, 2, 14), (3, 0, 16)] {
        let text = format!("zero={stage}");
        expect("deepspeed", &text, BF16, whole, shared);
        let rank = rank("deepspeed", &text, BF16, 1);
        let step = rank.frames.last().expect("one for the step");
        let copy: u64 = step.buffers.iter().map(|buffer| buffer.bytes.0).sum();
        assert_eq!(a_parameter(copy), 4, "{text}");
    }
}

#[test]
fn colossalai() {
    expect("colossalai", "zero=1", BF16, 4, 12);
    expect("colossalai", "zero=2", BF16, 2, 14);
    // Gemini: gradients take the place of parameter shards, unless several micro-batches are accumulated.
    expect("colossalai", "zero=3", BF16, 0, 14);
    assert_eq!(device(&rank("colossalai", "zero=3", BF16, 2)), 16);
}

#[test]
fn colossalai_offloads_its_optimizer() {
    let rank = rank("colossalai", "zero=2,offload=optimizer:1", BF16, 1);
    assert_eq!(device(&rank), 2 * N + 2);
    let states = rank.persistent.iter().filter(|state| state.holds.category() == Category::Optimizer);
    let host: u64 = states.map(|state| state.host.0).sum();
    // Weights and moments, and the gradients and parameters on their way.
    assert_eq!(a_parameter(host), 12 + 4);
}

#[test]
fn staging_is_listed_as_buffers() {
    for name in ["embedded", "megatron", "torchtitan", "deepspeed", "colossalai"] {
        let engine = engine(name).expect("built in");
        let stage = if name == "torchtitan" { 3 } else { 2 };
        let rank = rank(name, &format!("zero={stage},bucket=1K"), BF16, 1);
        let reduce = if name == "torchtitan" || name == "megatron" { 4 } else { 2 };
        let staged: u64 = rank
            .persistent
            .iter()
            .filter(|state| state.holds == Holds::ReductionBuckets)
            .map(|state| state.device.0)
            .sum();
        assert_eq!(staged, engine.buffers.reduce_buckets * 1000 * reduce, "{name}");
    }
}
