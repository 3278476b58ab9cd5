//! Real configurations: parameter counts to the parameter, and what the families' graphs look like.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use meshwright::model::layer::{LayerKind, Position};
use meshwright::model::{Model, ModelError, MultiToken, hugging_face, load, load_with, preset, presets};
use proptest::prelude::*;
use serde_json::{Value, json};

fn fixture_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(format!("{name}.json"))
}

fn fixture(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(fixture_path(name)).unwrap()).unwrap()
}

fn model(name: &str) -> Model {
    load(fixture_path(name).to_str().unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Trained parameters of the published checkpoints, tied matrices once.
const FIXTURES: &[(&str, u64)] = &[
    ("gpt2", 124_439_808),
    ("gpt-neox-20b", 20_554_567_680),
    ("pythia-410m", 405_334_016),
    ("pythia-6.9b", 6_857_302_016),
    ("pythia-12b", 11_846_072_320),
    ("opt-125m", 125_239_296),
    ("opt-350m", 331_196_416),
    ("opt-1.3b", 1_315_758_080),
    ("opt-6.7b", 6_658_473_984),
    ("bloom-560m", 559_214_592),
    ("bloom-7b1", 7_069_016_064),
    ("bloom-176b", 176_247_271_424),
    ("falcon-rw-1b", 1_311_625_216),
    ("falcon-7b", 6_921_720_704),
    ("falcon-40b", 41_303_293_952),
    ("mpt-7b", 6_649_286_656),
    ("llama-3.2-1b", 1_235_814_400),
    ("llama-3.1-8b", 8_030_261_248),
    ("llama-3.1-70b", 70_553_706_496),
    ("mistral-7b-v0.3", 7_248_023_552),
    ("mistral-nemo-12b", 12_247_782_400),
    ("mixtral-8x7b", 46_702_792_704),
    ("qwen2.5-0.5b", 494_032_768),
    ("qwen2.5-7b", 7_615_616_512),
    ("qwen2.5-72b", 72_706_203_648),
    ("qwen3-0.6b", 596_049_920),
    ("qwen3-8b", 8_190_735_360),
    ("qwen3-32b", 32_762_123_264),
    ("qwen3-30b-a3b", 30_532_122_624),
    ("gemma-2b", 2_506_172_416),
    ("gemma-7b", 8_537_680_896),
    ("gemma-2-2b", 2_614_341_888),
    ("gemma-2-9b", 9_241_705_984),
    ("gemma-2-27b", 27_227_128_320),
    ("gemma-3-1b", 999_885_952),
    ("phi-3-mini-4k", 3_821_079_552),
    ("phi-4", 14_659_507_200),
    ("gpt-oss-20b", 20_914_757_184),
    ("gpt-oss-120b", 116_829_156_672),
    ("deepseek-v2-lite", 15_706_484_224),
    ("deepseek-v2", 235_741_434_880),
    // Checkpoints count the routers' correction biases too, which no gradient trains: one an expert and layer.
    ("glm-4.5-air", 106_852_251_264 - 45 * 128),
    // The checkpoint holds 358,337,791,296 with the multi-token prediction layer of 5,539,962,272.
    ("glm-4.5", 358_337_791_296 - 5_539_962_272 - 89 * 160),
];

const PRESETS: &[(&str, u64)] = &[
    ("gpt2", 124_439_808),
    ("gpt2-medium", 354_823_168),
    ("gpt2-large", 774_030_080),
    ("gpt2-xl", 1_557_611_200),
    ("gpt3-175b", 174_604_259_328),
    ("megatron-22b", 22_074_273_792),
    ("megatron-175b", 174_615_846_912),
    ("megatron-530b", 529_600_819_200),
    ("megatron-1t", 1_008_038_758_400),
    ("llama-2-7b", 6_738_415_616),
    ("llama-2-13b", 13_015_864_320),
    ("llama-2-70b", 68_976_648_192),
    ("llama-3.1-8b", 8_030_261_248),
    ("llama-3.1-70b", 70_553_706_496),
    ("llama-3.1-405b", 405_853_388_800),
    ("llama-3.2-1b", 1_235_814_400),
    ("llama-3.2-3b", 3_212_749_824),
    ("llama-3.3-70b", 70_553_706_496),
    ("mistral-7b", 7_241_732_096),
    ("mixtral-8x7b", 46_702_792_704),
    ("qwen2.5-7b", 7_615_616_512),
    ("qwen2.5-14b", 14_770_033_664),
    ("qwen2.5-32b", 32_763_876_352),
    ("qwen2.5-72b", 72_706_203_648),
    ("qwen3-8b", 8_190_735_360),
    ("qwen3-32b", 32_762_123_264),
    ("qwen3-30b-a3b", 30_532_122_624),
    ("qwen3-235b-a22b", 235_093_634_560),
    ("gemma-2-9b", 9_241_705_984),
    ("gemma-2-27b", 27_227_128_320),
    ("phi-3-medium", 13_960_238_080),
    ("gpt-oss-20b", 20_914_757_184),
    ("gpt-oss-120b", 116_829_156_672),
    // 671,026,419,200 with the routers' correction biases, which no gradient trains.
    ("deepseek-v3", 671_026_419_200 - 58 * 256),
    ("bloom-176b", 176_247_271_424),
];

#[test]
fn fixtures_have_the_published_parameters() {
    for (name, parameters) in FIXTURES {
        let model = model(name);
        assert_eq!(model.parameter_count(), *parameters, "{name}");
        let unknown: Vec<_> = model.warnings.iter().filter(|text| text.contains("unknown")).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

#[test]
fn presets_have_the_published_parameters() {
    let counted: Vec<_> =
        presets().iter().map(|preset| (preset.name, preset.model().unwrap().parameter_count())).collect();
    assert_eq!(counted, PRESETS);
}

#[test]
fn presets_agree_with_the_files() {
    let both = FIXTURES.iter().filter_map(|(name, _)| Some((*name, preset(name)?)));
    for (name, preset) in both {
        let (from_preset, from_file) = (preset.model().unwrap(), model(name));
        assert_eq!(from_preset.constants, from_file.constants, "{name}");
        assert!(from_preset.layers().eq(from_file.layers()), "{name}");
        assert_eq!(from_preset.max_sequence, from_file.max_sequence, "{name}");
    }
}

/// Configs as transformers 4 and 5 write them, with the parameters that each counts (`tests/models/write_configs.py`).
const WRITTEN: [&str; 2] =
    [include_str!("models/transformers-4.57.1.jsonl"), include_str!("models/transformers-5.24.0.jsonl")];

#[test]
fn written_configs_have_the_parameters_that_transformers_counts() {
    let mut types = BTreeSet::new();
    let mut faults = Vec::new();
    for text in
        [include_str!("models/transformers-4.57.1.jsonl"), include_str!("models/transformers-5.24.0.jsonl")]
    {
        assert!(text.lines().count() >= 45);
        for line in text.lines() {
            let Value::Object(entry) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
            let (name, config) = (entry["name"].as_str().unwrap(), &entry["config"]);
            let version = config["transformers_version"].as_str().unwrap();
            types.insert(config["model_type"].as_str().unwrap().to_owned());
            match hugging_face::import(config, name) {
                Ok(model) => {
                    let counted = model.parameter_count();
                    if counted != entry["parameters"].as_u64().unwrap() {
                        faults.push(format!("{name} of {version}: {counted}, not {}", entry["parameters"]));
                    }
                    let unknown = model.warnings.into_iter().filter(|text| text.contains("unknown"));
                    faults.extend(unknown.map(|warning| format!("{name} of {version}: {warning}")));
                }
                Err(error) => faults.push(format!("{name} of {version}: {error}")),
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(types.len() >= 20, "{types:?}");
}

fn attention_windows(model: &Model) -> Vec<Option<u64>> {
    let window = |kind: &LayerKind| match kind {
        LayerKind::Attention(attention) => Some(attention.window),
        _ => None,
    };
    model.layers().filter_map(|layer| window(&layer.kind)).collect()
}

#[test]
fn windows_alternate_as_the_families_lay_them_out() {
    assert_eq!(attention_windows(&model("gemma-2-2b"))[..3], [Some(4096), None, Some(4096)]);
    let gemma3 = attention_windows(&model("gemma-3-1b"));
    assert_eq!(gemma3[4..7], [Some(512), None, Some(512)]);
    assert_eq!(gemma3.iter().filter(|window| window.is_none()).count(), 4);
    assert_eq!(attention_windows(&model("gpt-oss-20b"))[..2], [Some(128), None]);
    assert_eq!(attention_windows(&preset("mistral-7b").unwrap().model().unwrap()), [Some(4096); 32]);
    assert_eq!(attention_windows(&model("mistral-7b-v0.3")), [None; 32]);
    let mut sliding = fixture("qwen2.5-0.5b");
    sliding["use_sliding_window"] = json!(true);
    sliding["max_window_layers"] = json!(20);
    let sliding = attention_windows(&hugging_face::import(&sliding, "sliding").unwrap());
    assert_eq!((sliding[19], sliding[20]), (None, Some(131_072)));
}

#[test]
fn parallel_blocks_feed_the_mlp_from_the_block_input_first() {
    for (name, own_norm) in [("falcon-7b", false), ("falcon-40b", true), ("pythia-410m", true)] {
        let model = model(name);
        assert_eq!(
            model.inputs(2),
            [0, 1],
            "{name}: the norm reads the embedding, the residual is attention's"
        );
        assert_eq!(model.inputs(3), [2], "{name}");
        let LayerKind::Mlp(mlp) = &model.layer(2).kind else { panic!("{name}") };
        assert_eq!(mlp.norm.is_some(), own_norm, "{name}");
    }
    let sequential = model("falcon-rw-1b");
    assert_eq!(sequential.inputs(2), [1]);
    let LayerKind::Attention(attention) = &sequential.layer(1).kind else { panic!() };
    assert_eq!(attention.position, Position::Alibi);
}

#[test]
fn blocks_are_dense_or_sparse_as_the_config_says() {
    let kinds = |model: &Model| -> String {
        model.layers().map(|layer| &layer.kind.name()[..1]).filter(|kind| *kind == "m").collect()
    };
    let names = |model: &Model| -> Vec<String> {
        let feed_forward = |kind: &LayerKind| matches!(kind, LayerKind::Mlp(_) | LayerKind::Moe(_));
        model.layers().filter(|layer| feed_forward(&layer.kind)).map(|layer| layer.name.clone()).collect()
    };
    let deepseek = preset("deepseek-v3").unwrap().model().unwrap();
    assert_eq!(kinds(&deepseek).len(), 61);
    assert_eq!(names(&deepseek)[2..4], ["block 2 mlp", "block 3 moe"]);
    let mut config = fixture("qwen3-30b-a3b");
    config["decoder_sparse_step"] = json!(2);
    config["mlp_only_layers"] = json!([3]);
    let mixed = names(&hugging_face::import(&config, "mixed").unwrap());
    assert_eq!(mixed[..4], ["block 0 mlp", "block 1 moe", "block 2 mlp", "block 3 mlp"]);
}

#[test]
fn opt_350m_norms_after_the_residual_and_narrows_its_table() {
    let model = model("opt-350m");
    let LayerKind::Attention(attention) = &model.layer(1).kind else { panic!() };
    assert!(attention.norm.is_none() && attention.residual_norm.is_some());
    let LayerKind::Head(head) = &model.layer(model.layers().len() - 2).kind else { panic!() };
    assert!(head.norm.is_none() && head.tied && head.table_width == Some(512));
    let LayerKind::Embedding(embedding) = &model.layer(0).kind else { panic!() };
    assert_eq!(embedding.positions, 2050);
}

#[test]
fn towers_are_named_and_left_out() {
    let config = fixture("gemma-3-4b");
    let nested = hugging_face::import(&config, "gemma-3-4b").unwrap();
    let alone = hugging_face::import(&config["text_config"], "gemma-3-4b").unwrap();
    assert!(nested.layers().eq(alone.layers()));
    let said = "the vision tower of vision_config (27 layers of width 1152, about 411 M parameters)";
    assert!(nested.warnings[0].starts_with(said), "{:?}", nested.warnings);
    // The checkpoint's count less its vision tower and projector.
    assert_eq!(nested.parameter_count(), 4_300_079_472 - 416_866_032 - 2_950_272);
}

#[test]
fn published_files_are_planned_as_transformers_loads_them() {
    let published = model("deepseek-v3");
    assert_eq!(
        published.warnings,
        [
            "quantization_config is left out: the model in full precision is planned",
            "1 multi-token prediction layer is left out, as transformers does; --mtp counts and prices it"
        ]
    );
    assert!(published.layers().eq(preset("deepseek-v3").unwrap().model().unwrap().layers()));
    assert_eq!(published.parameter_count(), 671_026_419_200 - 58 * 256);
    assert!(!published.config.unwrap().contains_key("quantization_config"));
    assert!(model("glm-4.5").warnings.iter().any(|text| text.starts_with("1 multi-token")));
}

/// The layer of GLM 4.5's checkpoint holds copies of the embedding and the head, a norm before the latter and the
/// router's correction biases besides.
#[test]
fn multi_token_prediction_is_counted_where_it_is_asked_for() {
    let counted = load_with(fixture_path("glm-4.5").to_str().unwrap(), MultiToken::Counted).unwrap();
    let plain = model("glm-4.5");
    assert_eq!(counted.blocks(), plain.blocks() + 1);
    let added = counted.parameter_count() - plain.parameter_count();
    assert_eq!(added, 5_539_962_272 - 2 * 151_552 * 5120 - 5120 - 160);
    let names: Vec<_> = counted
        .layers()
        .map(|layer| layer.name.as_str())
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .take(5)
        .collect();
    assert_eq!(names, ["loss", "head", "block 92 moe", "block 92 attention", "block 92 projection"]);
    let LayerKind::Head(head) = &counted.layer(counted.layers().len() - 2).kind else { panic!() };
    assert_eq!(head.passes, 2);
    assert!(
        counted.warnings.iter().any(|text| text.starts_with("1 multi-token prediction layer is counted"))
    );
}

#[test]
fn what_is_missing_takes_a_default_and_says_so() {
    let said = |config: Value| hugging_face::import(&config, "model").unwrap().warnings;
    let mut config = fixture("qwen3-30b-a3b");
    assert_eq!(said(config.clone()), [""; 0]);
    config.as_object_mut().unwrap().remove("num_experts");
    assert_eq!(said(config.clone()), ["num_experts is missing: 128, the default of qwen3_moe"]);
    // Written by transformers 5.
    config["num_local_experts"] = json!(16);
    assert_eq!(said(config.clone()), [""; 0]);
    let moe = hugging_face::import(&config, "model").unwrap();
    assert!(moe.layers().any(|layer| matches!(&layer.kind, LayerKind::Moe(moe) if moe.experts == 16)));
    config["num_experts"] = json!(128);
    let error = hugging_face::import(&config, "model").unwrap_err().to_string();
    assert_eq!(error, "num_experts 128 and num_local_experts 16 disagree; they are two names of one field");
    config["num_experts"] = Value::Null;
    assert_eq!(said(config), [""; 0]);

    let mut config = fixture("deepseek-v2-lite");
    config["num_experts_per_tok"] = Value::Null;
    let error = hugging_face::import(&config, "model").unwrap_err().to_string();
    assert!(error.starts_with("num_experts_per_tok null must be given, for there are 64 experts"), "{error}");
    config["n_routed_experts"] = Value::Null;
    let dense = hugging_face::import(&config, "model").unwrap();
    assert!(!dense.layers().any(|layer| matches!(layer.kind, LayerKind::Moe(_))));
}

#[test]
fn unknown_fields_are_warnings_and_unknown_types_errors() {
    let mut config = fixture("mpt-7b");
    config["flux_capacitor"] = json!(1.21);
    config["attn_config"]["sideways"] = json!(true);
    let warnings = hugging_face::import(&config, "mpt").unwrap().warnings;
    assert_eq!(
        warnings,
        ["unknown field `flux_capacitor` is ignored", "unknown field `sideways` is ignored"]
    );
    let unknown = json!({
        "model_type": "our_own", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu",
        "max_position_embeddings": 512, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
    });
    let error = hugging_face::import(&unknown, "ours").unwrap_err().to_string();
    assert!(error.starts_with("model_type `our_own` is not known; nearest: llama"), "{error}");
    let error = hugging_face::import(&json!({"model_type": "mamba2"}), "ours").unwrap_err().to_string();
    assert_eq!(error, "model_type mamba2 is not supported: it has state-space layers, which is not planned");
}

#[test]
fn impossible_sizes_are_errors_that_name_field_value_and_nearest() {
    let cases = [
        ("llama-3.1-8b", "hidden_size", json!(4097), "4096, 4128"),
        ("llama-3.1-8b", "hidden_size", json!(0), "1"),
        ("llama-3.1-8b", "hidden_size", json!(-4096), "1"),
        ("llama-3.1-8b", "hidden_size", json!(4096.5), "4096, 4097"),
        ("llama-3.1-8b", "hidden_size", json!(1e30), "4294967296"),
        ("llama-3.1-8b", "num_hidden_layers", json!(1_000_000_000_000_000_000_u64), "10000"),
        ("llama-3.1-8b", "num_key_value_heads", json!(6), "4, 8"),
        ("llama-3.1-8b", "num_key_value_heads", json!(64), "32"),
        ("llama-3.1-8b", "num_attention_heads", json!(null), ""),
        ("llama-3.1-8b", "vocab_size", json!("32000"), "32000"),
        ("llama-3.1-8b", "hidden_act", json!("tanhish"), "gelu"),
        ("llama-3.1-8b", "tie_word_embeddings", json!("no"), "true, false"),
        ("gpt2", "n_head", json!(0), "1"),
        ("gpt2", "n_embd", json!(770), ""),
        ("mixtral-8x7b", "num_experts_per_tok", json!(9), "8"),
        ("mixtral-8x7b", "num_local_experts", json!(0), "1"),
        ("gpt-oss-20b", "layer_types", json!(["full_attention"]), "24"),
        ("qwen3-30b-a3b", "mlp_only_layers", json!([48]), "47"),
        ("qwen3-30b-a3b", "decoder_sparse_step", json!(0), "1"),
    ];
    for (name, field, value, nearest) in cases {
        let mut config = fixture(name);
        config[field] = value.clone();
        let error = hugging_face::import(&config, name).map(|_| ()).unwrap_err();
        assert_eq!(error.field(), Some(field), "{name} {field} {value}: {error}");
        let expected = if field == "n_embd" { "768, 780" } else { nearest };
        assert_eq!(error.nearest().join(", "), expected, "{error}");
        assert!(error.to_string().starts_with(field), "{error}");
    }
}

#[test]
fn products_of_sizes_do_not_overflow() {
    let big = json!(1_u64 << 32);
    let mut config = fixture("mixtral-8x7b");
    for field in ["hidden_size", "intermediate_size", "vocab_size", "head_dim"] {
        config[field] = big.clone();
    }
    for heads in [1, 32, 1 << 20] {
        config["num_attention_heads"] = json!(heads);
        config["num_key_value_heads"] = json!(heads);
        assert!(hugging_face::import(&config, "huge").is_err());
    }
    let mut config = fixture("deepseek-v2");
    for field in ["q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "n_shared_experts"] {
        config[field] = big.clone();
    }
    config["moe_intermediate_size"] = big;
    assert!(hugging_face::import(&config, "huge").is_err());
}

static CONFIGS: OnceLock<Vec<Value>> = OnceLock::new();

fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0_u64..300).prop_map(Value::from),
        (0_u32..64).prop_map(|power| Value::from(1_u64 << power)),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop::collection::vec(0_u64..100, 0..4).prop_map(Value::from),
        Just(json!({"alibi": 3})),
    ]
}

/// The config of every published file and of every one that was written for the counts.
fn all_configs() -> Vec<Value> {
    let causal = fs::read_to_string(causal_path()).unwrap();
    let lines = WRITTEN.iter().flat_map(|text| text.lines()).chain(causal.lines());
    let written: Vec<Value> = lines
        .map(|line| {
            let entry: Value = serde_json::from_str(line).unwrap();
            entry["config"].clone()
        })
        .collect();
    FIXTURES.iter().map(|(name, _)| fixture(name)).chain(written).collect()
}

proptest! {
    #[test]
    fn mutated_configs_never_panic(
        which in any::<prop::sample::Index>(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), odd_value()), 1..4),
        remove in any::<prop::sample::Index>(),
    ) {
        let configs = CONFIGS.get_or_init(all_configs);
        let mut config = configs[which.index(configs.len())].clone();
        let fields = config.as_object_mut().unwrap();
        let names: Vec<String> = fields.keys().cloned().collect();
        fields.remove(&names[remove.index(names.len())]);
        for (index, value) in mutations {
            fields.insert(names[index.index(names.len())].clone(), value);
        }
        match hugging_face::import_with(&config, "mutated", MultiToken::Counted) {
            Ok(model) => prop_assert!(model.parameter_count() > 0 && model.blocks() > 0),
            Err(error) => prop_assert!(error.to_string().len() < 1000, "{error}"),
        }
    }
}

/// Model types of transformers that stand for a causal model, of which so many are counted to the parameter.
const CAUSAL: usize = 93;

/// The golden file that `tests/models/write_causal.py` writes.
fn causal_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/models/causal-5.24.0.jsonl")
}

#[test]
fn causal_types_are_counted_to_the_parameter_or_refused_with_the_part_that_is_strange() {
    let (mut right, mut refused) = (BTreeSet::new(), BTreeSet::new());
    let mut wrong = Vec::new();
    for line in fs::read_to_string(causal_path()).unwrap().lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let name = entry["type"].as_str().unwrap().to_owned();
        match (hugging_face::import(&entry["config"], &name), entry["parameters"].as_u64()) {
            (Ok(model), Some(counted)) if model.parameter_count() == counted => {
                right.insert(name);
            }
            (Ok(model), counted) => {
                wrong.push(format!("{name}: {} instead of {counted:?}", model.parameter_count()));
            }
            (Err(ModelError::Unsupported { .. }), _) => {
                refused.insert(name);
            }
            (Err(error), _) => wrong.push(format!("{name}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} right: {right:?}", right.len());
    assert!(right.len() >= CAUSAL, "{} types: {right:?}", right.len());
}

/// Families whose code is published with their weights, with what is published of one model each.
#[test]
fn families_with_code_of_their_own_have_the_parameters_of_their_checkpoints() {
    for (name, fields, parameters) in [
        (
            "internlm2-7b",
            json!({"model_type": "internlm2", "vocab_size": 92_544, "hidden_size": 4096, "intermediate_size": 14_336,
                "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "bias": false}),
            7_737_708_544,
        ),
        (
            "baichuan2-7b",
            json!({"model_type": "baichuan", "vocab_size": 125_696, "hidden_size": 4096, "intermediate_size": 11_008,
                "num_hidden_layers": 32, "num_attention_heads": 32, "model_max_length": 4096}),
            7_505_973_248,
        ),
        (
            "qwen-7b",
            json!({"model_type": "qwen", "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016,
                "num_hidden_layers": 32, "num_attention_heads": 32, "kv_channels": 128, "seq_length": 8192}),
            7_721_324_544,
        ),
        (
            "chatglm3-6b",
            json!({"model_type": "chatglm", "padded_vocab_size": 65_024, "hidden_size": 4096,
                "ffn_hidden_size": 13_696, "num_layers": 28, "num_attention_heads": 32, "multi_query_group_num": 2,
                "multi_query_attention": true, "kv_channels": 128, "add_qkv_bias": true, "seq_length": 8192}),
            6_243_584_000,
        ),
        (
            "minicpm-2b",
            json!({"model_type": "minicpm", "vocab_size": 122_753, "hidden_size": 2304, "intermediate_size": 5760,
                "num_hidden_layers": 40, "num_attention_heads": 36, "num_key_value_heads": 36}),
            2_724_880_896,
        ),
        (
            "deepseek-moe-16b",
            json!({"model_type": "deepseek", "vocab_size": 102_400, "hidden_size": 2048, "intermediate_size": 10_944,
                "moe_intermediate_size": 1408, "num_hidden_layers": 28, "num_attention_heads": 16,
                "num_key_value_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                "first_k_dense_replace": 1}),
            16_375_728_128_u64,
        ),
    ] {
        let model = hugging_face::import(&fields, name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(model.parameter_count(), parameters, "{name}");
    }
}
