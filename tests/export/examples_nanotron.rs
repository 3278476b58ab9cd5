//! nanotron's own examples, by the settings that shape a run: what they mean, and which is refused.

use meshwright::export::syntax::Syntax;
use meshwright::export::{ModelClue, Target};
use meshwright::model::{self, Model};

use crate::reading::Reading;

/// A configuration with these sizes; `rest` are lines of `parallelism`.
fn config(sizes: [u64; 4], batch: [u64; 3], rest: &str, is_wide: bool, shape: &str) -> String {
    let [dp, tp, pp, zero] = sizes;
    let [sequence, micro, accumulation] = batch;
    format!(
        "general:\n  project: debug\n  run: tiny\nparallelism:\n  dp: {dp}\n  tp: {tp}\n  pp: {pp}\n{rest}\
         tokens:\n  sequence_length: {sequence}\n  micro_batch_size: {micro}\n  batch_accumulation_per_replica: {accumulation}\n  \
         train_steps: 15\nmodel:\n  dtype: bfloat16\n  init_method:\n    std: 0.025\n  model_config:\n{shape}\
         optimizer:\n  zero_stage: {zero}\n  accumulate_grad_in_fp32: {is_wide}\n  clip_grad: 1.0\n  weight_decay: 0.01\n  \
         optimizer_factory:\n    name: adamW\n    adam_eps: 1.0e-08\n"
    )
}

fn shape(layers: u64, hidden: u64, kind: &str) -> String {
    format!(
        "    {kind}: true\n    num_hidden_layers: {layers}\n    hidden_size: {hidden}\n    intermediate_size: {}\n    \
         num_attention_heads: 16\n    num_key_value_heads: 16\n    vocab_size: 49152\n    max_position_embeddings: 4096\n    \
         tie_word_embeddings: false\n",
        4 * hidden
    )
}

/// The model that a file says that it is for.
fn model_of(text: &str) -> Model {
    let target = Target::parse("nanotron").unwrap_or_else(|(rule, _)| panic!("{rule}"));
    let document = Syntax::Yaml.read(text).unwrap();
    let reader = meshwright::export::Reader::new(&document);
    let Ok(Some(ModelClue::Config(config))) = target.dialect.model(&reader) else { panic!("no model") };
    model::from_text(&config.to_string(), "config.json", "example").unwrap()
}

fn reading<'a>(model: &'a Model, cluster: &'a str) -> Reading<'a> {
    Reading { target: "nanotron", model, cluster, global_batch: None, seq_len: None }
}

fn meant(text: &str, cluster: &str) -> Result<String, String> {
    let model = model_of(text);
    reading(&model, cluster).tried(text)
}

#[test]
fn r1_the_tiny_llama() {
    let rest = "  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\n  tp_linear_async_communication: true\n";
    let text = config([4, 2, 1, 0], [4096, 3, 1], rest, true, &shape(28, 2048, "is_llama_config"));
    assert_eq!(meant(&text, "1x8xh100-sxm").unwrap(), "tp=2,pp=1,dp=4,zero=0,micro=3,accum=1");
}

#[test]
fn r2_qwen() {
    let rest = "  context_parallel_size: 1\n  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\n  recompute_layer: false\n";
    let text = config([2, 2, 1, 0], [4096, 3, 1], rest, true, &shape(36, 2048, "is_qwen2_config"));
    assert_eq!(meant(&text, "1x4xh100-sxm").unwrap(), "tp=2,pp=1,dp=2,zero=0,micro=3,accum=1");
}

#[test]
fn r3_keeps_gradients_in_the_type_of_the_model() {
    let rest = "  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\n";
    let text = config([4, 2, 1, 0], [1024, 32, 8], rest, false, &shape(14, 1024, "is_llama_config"));
    let strategy = meant(&text, "1x8xh100-sxm").unwrap();
    assert!(strategy.starts_with("tp=2,pp=1,dp=4,zero=0,micro=32,accum=8,grad=bf16"), "{strategy}");
}

#[test]
fn r4_expert_parallelism_passes_no_check_of_nanotrons() {
    let rest = "  expert_parallel_size: 2\n  pp_engine: 1f1b\n  tp_mode: ALL_REDUCE\n";
    let text = config([1, 2, 1, 0], [4096, 2, 1], rest, true, &shape(12, 1024, "is_llama_config"));
    let refused = meant(&text, "1x4xh100-sxm").unwrap_err();
    assert!(
        refused.contains("expert_parallel_size") && refused.contains("no number of devices"),
        "{refused}"
    );
}

#[test]
fn a_pipeline_has_the_stages_that_costs_cut() {
    let rest = "  pp_engine: 1f1b\n";
    let text = config([1, 1, 4, 0], [4096, 1, 8], rest, true, &shape(24, 1024, "is_llama_config"));
    let strategy = meant(&text, "1x4xh100-sxm").unwrap();
    // 16.8 M of a block, 50.3 M of the head: thresholds at 6.75, 13.5, 20.25 blocks.
    assert!(strategy.contains("cuts=7/7/7/3"), "{strategy}");
    // A pipeline runs all forwards first where no engine is named.
    let text = text.replace("  pp_engine: 1f1b\n", "");
    assert!(meant(&text, "1x4xh100-sxm").unwrap().contains("sched=gpipe"));
}

#[test]
fn what_changes_a_run_is_refused_by_name() {
    let base = config([2, 2, 1, 1], [4096, 1, 4], "", true, &shape(12, 1024, "is_llama_config"));
    // One stage runs all forwards first too, where no engine is named.
    assert_eq!(
        meant(&base, "1x4xh100-sxm").unwrap(),
        "tp=2,pp=1,dp=2,sp=off,sched=gpipe,zero=1,micro=1,accum=4"
    );
    for (from, to, said) in [
        ("  dp: 2\n", "", "parallelism.dp"),
        ("  dp: 2\n", "  dp: 4\n", "is not the 4 devices"),
        ("zero_stage: 1", "zero_stage: 3", "zero_stage"),
        ("clip_grad: 1.0", "clip_grad: 0.0", "null does not clip"),
        ("name: adamW", "name: sgd", "adamW"),
        ("tp: 2\n", "tp: 2\n  tp_linear_async_communication: true\n", "REDUCE_SCATTER"),
        ("tp: 2\n", "tp: 2\n  moe_layer_recompute: true\n", "recompute_layer"),
        ("dtype: bfloat16", "dtype: int8", "dtype"),
    ] {
        let refused = meant(&base.replace(from, to), "1x4xh100-sxm").unwrap_err();
        assert!(refused.contains(said), "{to}: {refused}");
    }
    let without = base.replace("clip_grad: 1.0", "clip_grad: null");
    let model = model_of(&without);
    let read = reading(&model, "1x4xh100-sxm").understood(&without);
    assert_eq!(read.unwrap().meaning.clip, Some(0.0));
}
