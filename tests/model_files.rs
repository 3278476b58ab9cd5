//! Model files: layer graphs both ways, their schema, and files that cannot be used.

use std::fs;
use std::path::{Path, PathBuf};

use meshwright::model::layer_graph::{self, Document};
use meshwright::model::{LossWeight, Model, ModelError, load, presets};
use proptest::prelude::*;
use serde_json::{Value, json};

const TWO_LOSSES: &str = include_str!("layer_graphs/two-losses.json");

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn same(left: &Model, right: &Model) -> bool {
    let edges =
        |model: &Model| (0..model.layers().len()).map(|layer| model.inputs(layer)).collect::<Vec<_>>();
    left.name == right.name
        && left.max_sequence == right.max_sequence
        && left.losses == right.losses
        && left.constants == right.constants
        && left.config == right.config
        && left.layers().eq(right.layers())
        && edges(left) == edges(right)
}

#[test]
fn documents_and_models_go_both_ways_and_keep_to_the_schema() {
    let schema = jsonschema::validator_for(layer_graph::schema().as_value()).unwrap();
    let two_losses = layer_graph::read(TWO_LOSSES, "two-losses.json").unwrap();
    let fixtures = ["falcon-7b", "opt-350m", "gemma-2-2b", "gpt-oss-20b", "deepseek-v2-lite", "mpt-7b"];
    let fixtures =
        fixtures.map(|name| load(root(&format!("tests/models/{name}.json")).to_str().unwrap()).unwrap());
    let presets = presets().iter().map(|preset| preset.model().unwrap());
    for model in fixtures.into_iter().chain(presets).chain([two_losses]) {
        let text = serde_json::to_string(&layer_graph::document(&model)).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let faults: Vec<_> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{}: {faults:?}", model.name);
        assert!(same(&model, &layer_graph::read(&text, "again").unwrap()), "{}", model.name);
    }
    assert!(schema.is_valid(&serde_json::from_str(TWO_LOSSES).unwrap()));
}

#[test]
fn the_schema_in_the_documentation_is_this_one() {
    let path = root("docs/schemas/layer-graph.schema.json");
    let schema = serde_json::to_string_pretty(&layer_graph::schema()).unwrap() + "\n";
    if std::env::var_os("MESHWRIGHT_BLESS").is_some() {
        fs::write(&path, &schema).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == schema, "run the tests with MESHWRIGHT_BLESS=1 to rewrite {}", path.display());
}

#[test]
fn a_repeat_chains_its_copies() {
    let model = layer_graph::read(TWO_LOSSES, "two-losses.json").unwrap();
    let layers: Vec<_> = model.layers().map(|layer| (layer.name.as_str(), layer.block)).collect();
    assert_eq!(
        layers[1..4],
        [("block 0 attention", Some(0)), ("block 0 mlp", Some(0)), ("block 1 attention", Some(1))]
    );
    assert_eq!(layers[7..], [("head", None), ("next token", None), ("features", None)]);
    let inputs: Vec<_> = (0..layers.len()).map(|layer| model.inputs(layer)).collect();
    assert_eq!(
        inputs,
        [vec![], vec![0], vec![1], vec![2], vec![3], vec![4], vec![5], vec![6], vec![7], vec![6]]
    );
    assert_eq!(model.losses[0].weight, LossWeight::Fixed(1.0));
    let adaptive = LossWeight::Adaptive { of: "tokens".to_owned(), at: "block 2 mlp".to_owned() };
    assert_eq!(model.losses[1].weight, adaptive);
    assert_eq!(model.parameter_count() - model.trainable_count(), 1512 * 64);
}

/// The document with one change, and what its error says.
#[test]
fn graphs_that_are_no_model_are_errors_that_name_the_layer() {
    let cases: [(&str, Value, &str); 20] = [
        ("/version", json!(2), "version 2 is not one we read"),
        ("/extra", json!(1), "unknown field `extra`"),
        ("/layers/1/inputs", json!(["head"]), "layer `block 0 attention` reads `head`, which does not stand"),
        ("/layers/1/inputs", json!([]), "layer `embedding` is read by no other layer"),
        ("/layers/0/inputs", json!(["mlp"]), "layer `embedding` reads `mlp`"),
        ("/layers/2/name", json!("attention"), "named by a repeat"),
        ("/layers/5/name", json!("head"), "layer `head` stands twice"),
        (
            "/layers/2/kind/mlp",
            json!({"hidden": 32, "intermediate": 8, "activation": "relu"}),
            "layer `block 0 mlp` has hidden 32, and its input",
        ),
        ("/layers/1/kind/attention/norm/width", json!(32), "norm width 32 is not the width"),
        ("/layers/1/kind/attention/projection/grouped/kv_heads", json!(u64::MAX), "nearest: 4"),
        ("/max_sequence", json!(u64::MAX), "nearest: 4294967296"),
        ("/layers/1/kind/attention/projection/grouped/kv_heads", json!(3), "nearest: 2, 4"),
        ("/layers/3/kind/head/vocabulary", json!(999), "layer `head` is tied, and no embedding"),
        ("/layers/4/inputs", json!(["mlp"]), "layer `head` is read by no other layer"),
        ("/layers/5/kind/loss", json!("cross_entropy"), "layer `features` is a cross-entropy"),
        ("/losses", json!([]), "losses [] is empty"),
        ("/losses/0/layer", json!("mlp"), "is named by the loss `tokens` and does not exist"),
        ("/losses/1/weight", json!("big"), "a number or"),
        ("/losses/1/weight/adaptive/of", json!("none"), "adaptive.of none names no loss; nearest: tokens"),
        ("/repeat/0/count", json!(1_000_000_000_000_u64), "nearest: 10000"),
    ];
    for (pointer, value, message) in cases {
        let mut document: Value = serde_json::from_str(TWO_LOSSES).unwrap();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        match document.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[field.parse::<usize>().unwrap()] = value,
            Value::Object(fields) => drop(fields.insert(field.to_owned(), value)),
            _ => panic!("{pointer}"),
        }
        let error =
            layer_graph::read(&document.to_string(), "graph.json").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(message), "{pointer}: {error}");
    }
}

#[test]
fn blocks_are_numbered_in_order() {
    let mut document: Document = serde_json::from_str(TWO_LOSSES).unwrap();
    document.repeat.clear();
    document.losses.truncate(1);
    document.layers.truncate(5);
    let error =
        |document: &Document| layer_graph::model(document.clone()).map(|_| ()).unwrap_err().to_string();
    assert!(error(&document).starts_with("blocks 0 are too few"));
    document.layers[1].block = Some(1);
    assert!(error(&document).ends_with("so 0 is next"));
    document.layers[1].block = Some(0);
    document.layers[3].block = Some(1);
    assert!(error(&document).starts_with("layer `mlp` is in no block and stands between blocks"));
}

#[test]
fn files_that_cannot_be_used_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).unwrap();
        path(name)
    };
    let config = fs::read(root("tests/models/gpt2.json")).unwrap();
    let deep = |bracket: &str| bracket.repeat(200_000);
    fs::File::create(folder.path().join("huge.json")).unwrap().set_len(1 << 30).unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    let cases = [
        ("lama-3.1-8b".to_owned(), "nearest: llama-3.1-8b"),
        (String::new(), "no model ``"),
        ("x".repeat(100_000), "no model"),
        ("nul\0byte".to_owned(), "no model"),
        (path("absent.json"), "no model"),
        (path("empty"), "the folder has no config.json"),
        (path("huge.json"), "1.00 GiB"),
        (write("cut.json", &config[..200]), "is not JSON"),
        (write("empty.json", b""), "is not JSON"),
        (write("latin.json", b"{\"name\": \"\xe9\"}"), "not UTF-8"),
        (write("list.json", b"[1]"), "is neither a Hugging Face config"),
        (write("other.json", b"{\"layers\": []}"), "is neither a Hugging Face config"),
        (write("deep.json", deep("[").as_bytes()), "recursion limit"),
        (write("deeper.json", (deep("{\"a\":") + "1" + &deep("}")).as_bytes()), "recursion limit"),
        (write("number.json", b"{\"model_type\": 7}"), "must be a string"),
        (write("graph.json", b"{\"version\": 1, \"layers\": [7]}"), "is not a layer graph"),
        ("/dev/zero".to_owned(), if cfg!(unix) { "not a regular file" } else { "no model" }),
    ];
    for (path, message) in cases {
        let error = load(&path).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(message), "{}: {error}", &path[..path.len().min(60)]);
        assert!(error.len() < 1000);
    }
}

#[test]
fn a_folder_gives_its_config_and_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("my-model");
    fs::create_dir(&inside).unwrap();
    fs::copy(root("tests/models/gpt2.json"), inside.join("config.json")).unwrap();
    for path in [inside.clone(), inside.join("config.json")] {
        let model = load(path.to_str().unwrap()).unwrap();
        assert_eq!((model.name.as_str(), model.parameter_count()), ("my-model", 124_439_808));
    }
}

proptest! {
    #[test]
    fn changed_layer_graphs_never_panic(
        at in any::<prop::sample::Index>(),
        replacement in prop_oneof![
            Just("0"), Just("-1"), Just("18446744073709551615"), Just("4294967296"), Just("\"x\""), Just("[]"),
            Just("null"), Just("{}"), Just("1e300"), Just("true"), Just(""),
        ],
    ) {
        // Numbers and words of the document are the runs that a mutation can hit.
        let bytes = TWO_LOSSES.as_bytes();
        let start = at.index(bytes.len());
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let end = start + bytes[start..].iter().take_while(|byte| word(byte)).count().max(1);
        let begin = start - bytes[..start].iter().rev().take_while(|byte| word(byte)).count();
        let text = format!("{}{replacement}{}", &TWO_LOSSES[..begin], &TWO_LOSSES[end..]);
        match layer_graph::read(&text, "changed") {
            Ok(model) => prop_assert!(model.blocks() > 0),
            Err(ModelError::NotALayerGraph { .. } | ModelError::Graph { .. } | ModelError::Value { .. }) => {}
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}

#[test]
fn an_unknown_type_is_read_as_the_family_whose_weights_lie_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({
        "model_type": "our_own", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu",
        "max_position_embeddings": 512, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
    });
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    let path = folder.path().to_str().unwrap();
    assert!(matches!(load(path), Err(ModelError::UnknownType { .. })));
    let parameters = 2 * 1000 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 128 + 2 * 64) + 64;
    let index = |bytes: u64| {
        let index = json!({"metadata": {"total_size": bytes}, "weight_map": {"a": "model-1.safetensors"}});
        fs::write(folder.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
    };
    index(2 * parameters + 128);
    assert!(matches!(load(path), Err(ModelError::UnknownType { .. })));
    index(2 * parameters);
    let model = load(path).unwrap();
    assert_eq!(model.parameter_count(), parameters);
    assert!(model.warnings[0].starts_with("model_type our_own is not known: it is read as llama"));
    // It is planned, and nobody claims to know its arithmetic.
    assert!(meshwright::model::tensors::trainable(&model).is_err());
}
