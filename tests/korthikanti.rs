//! Saved activation bytes against Korthikanti et al. 2022 (arXiv 2205.05198), table 2, to the byte.

use meshwright::lower::Shape;
use meshwright::lower::unit::{UnitKind, graph, lower, units};
use meshwright::model;
use meshwright::profile::choices::CheckpointMode;
use meshwright::profile::engines::engine;
use meshwright::strategy::{Draft, Workload, resolve};
use meshwright::units::ElementType;
use proptest::prelude::*;

/// A GPT of two blocks with f = 4h.
fn gpt(heads: u64, head_dim: u64, seq: u64) -> meshwright::model::Model {
    let hidden = heads * head_dim;
    let config = format!(
        r#"{{"model_type":"gpt2","n_embd":{hidden},"n_layer":2,"n_head":{heads},"n_positions":{seq},
            "vocab_size":512,"n_inner":{},"activation_function":"gelu_new"}}"#,
        4 * hidden
    );
    model::from_text(&config, "config.json", "gpt").expect("the configuration is legal")
}

/// Bytes that one block keeps from forward to backward.
fn saved(heads: u64, head_dim: u64, seq: u64, micro: u64, keys: &str, tensor: u64) -> u64 {
    let engine = engine("megatron").expect("built in");
    let workload =
        Workload { global_batch: micro, seq_len: seq, precision: ElementType::Bf16, dropout: 0.1, clip: 1.0 };
    let model = gpt(heads, head_dim, seq);
    let text = format!("tp={tensor},micro={micro},attention=materialised,{keys}");
    let draft = Draft::parse(&text).expect("the text is legal");
    let strategy = resolve(&draft, &model, tensor, &workload, engine).expect("the strategy is legal");
    let shape = Shape::new(&strategy, &workload, engine);
    let unit = units(&model).into_iter().find(|unit| unit.kind == UnitKind::Block(1)).expect("two blocks");
    let mode = strategy.checkpoint[0].modes().nth(1).expect("two blocks");
    assert_eq!(keys.contains("selective"), mode == CheckpointMode::Selective);
    lower(&graph(&model, &unit, shape), shape, mode, true).kept_bytes().0
}

proptest! {
    #[test]
    fn table_2(heads_a_rank in 1_u64..5, head_dim in 1_u64..9, tensor in prop::sample::select(vec![1_u64, 2, 4, 8]),
               seq_a_rank in 1_u64..9, micro in 1_u64..4) {
        let (a, t, b) = (heads_a_rank * tensor, tensor, micro);
        let d = head_dim * 8;
        let h = a * d;
        let s = seq_a_rank * 8;
        let sbh = s * b * h;
        let scores = 5 * a * s * s * b;
        prop_assert_eq!(saved(a, d, s, b, "sp=off", t), 10 * sbh + 24 * sbh / t + scores / t);
        prop_assert_eq!(saved(a, d, s, b, "sp=on", t), (34 * sbh + scores) / t);
        prop_assert_eq!(saved(a, d, s, b, "sp=off,ckpt=selective", t), 10 * sbh + 24 * sbh / t);
        prop_assert_eq!(saved(a, d, s, b, "sp=on,ckpt=selective", t), 34 * sbh / t);
        prop_assert_eq!(saved(a, d, s, b, "sp=off,ckpt=full", t), 2 * sbh);
        prop_assert_eq!(saved(a, d, s, b, "sp=on,ckpt=full", t), 2 * sbh / t);
    }
}
