//! Each field of our model's own types, changed alone, changes what is exported: an argument, or what no setting says.
//!
//! The fields come from the JSON schema of those types, so a new one fails here until every engine says what it does.

use meshwright::cluster;
use meshwright::export::exported::{narrowed, unsaid};
use meshwright::export::{Case, Decoder, Target, targets};
use meshwright::model::{self, Model, layer_graph};
use meshwright::search::Problem;
use meshwright::strategy::{Draft, Workload};
use meshwright::units::ElementType;
use serde_json::{Value, json};

/// Small models that have, together, every field.
const BASES: [(&str, &str); 7] = [
    (
        "llama",
        r#"{"model_type":"llama","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,
        "num_key_value_heads":2,"intermediate_size":128,"vocab_size":256,"max_position_embeddings":4096,
        "rope_theta":500000,"rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,
        "original_max_position_embeddings":8192}}"#,
    ),
    (
        "gpt",
        r#"{"model_type":"gpt2","n_embd":64,"n_layer":4,"n_head":4,"vocab_size":256,"n_positions":1024}"#,
    ),
    (
        "deepseek",
        r#"{"model_type":"deepseek_v3","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,
        "intermediate_size":128,"moe_intermediate_size":32,"n_routed_experts":16,"num_experts_per_tok":4,"vocab_size":256,
        "first_k_dense_replace":1,"q_lora_rank":32,"kv_lora_rank":16,"qk_nope_head_dim":16,"qk_rope_head_dim":8,
        "v_head_dim":16,"n_group":4,"topk_group":2,"max_position_embeddings":4096,"rope_scaling":{"type":"yarn",
        "factor":40,"original_max_position_embeddings":4096,"mscale":1.0,"mscale_all_dim":1.0,"beta_fast":32,"beta_slow":1}}"#,
    ),
    (
        "gemma",
        r#"{"model_type":"gemma2","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,
        "num_key_value_heads":2,"head_dim":16,"intermediate_size":128,"vocab_size":256,"sliding_window":128}"#,
    ),
    (
        "windows",
        r#"{"model_type":"gemma3_text","hidden_size":64,"num_hidden_layers":6,"num_attention_heads":4,
        "num_key_value_heads":2,"head_dim":16,"intermediate_size":128,"vocab_size":256,"sliding_window":128}"#,
    ),
    (
        "experts",
        r#"{"model_type":"mixtral","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,
        "num_key_value_heads":2,"intermediate_size":128,"num_local_experts":4,"num_experts_per_tok":2,"vocab_size":256}"#,
    ),
    (
        "sinks",
        r#"{"model_type":"gpt_oss","hidden_size":64,"num_hidden_layers":4,"num_attention_heads":4,"head_dim":16,
        "num_key_value_heads":2,"intermediate_size":128,"num_local_experts":4,"num_experts_per_tok":2,"vocab_size":256,
        "sliding_window":128}"#,
    ),
];

/// Types of the schema whose fields are of layers, with the kind of layer that holds them.
const LAYERS: [(&str, &str); 5] = [
    ("Embedding", "embedding"),
    ("Attention", "attention"),
    ("Mlp", "mlp"),
    ("Moe", "moe"),
    ("Head", "head"),
];

/// Types of the schema inside the constants, with their place.
const CONSTANTS: [(&str, &str); 4] = [
    ("Constants", "/constants"),
    ("Rotary", "/constants/rotary"),
    ("Router", "/constants/router"),
    ("Yarn", "/constants/rotary/scaling/yarn"),
];

/// Fields that stand for others, which are changed by themselves.
const SECTIONS: [&str; 2] = ["rotary", "router"];

/// A base, changed in one field.
struct Change {
    field: String,
    base: usize,
    model: Model,
}

fn schema() -> Value {
    serde_json::to_value(layer_graph::schema()).unwrap()
}

/// Names of the fields of the type `name`, with what the schema says of each.
fn fields(schema: &Value, name: &str) -> Vec<(String, Value)> {
    let definition = &schema["$defs"][name];
    let properties =
        definition["properties"].as_object().unwrap_or_else(|| panic!("the schema has no {name}"));
    properties.iter().map(|(field, of)| (field.clone(), of.clone())).collect()
}

/// Values of another kind or size than `old`, for a field that the schema describes so.
fn others(schema: &Value, of: &Value, old: &Value) -> Vec<Value> {
    if let Some(reference) = of["$ref"].as_str() {
        return others(schema, schema.pointer(reference.trim_start_matches('#')).unwrap(), old);
    }
    let mut list = Vec::new();
    for way in ["anyOf", "oneOf", "allOf"] {
        for inner in of[way].as_array().into_iter().flatten() {
            list.extend(others(schema, inner, old));
        }
    }
    if let Some(word) = of.get("const") {
        list.push(word.clone());
    }
    list.extend(of["enum"].as_array().into_iter().flatten().cloned());
    let kinds: Vec<&str> = match &of["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    for kind in kinds {
        match (kind, old) {
            ("boolean", old) => list.push(json!(old != &json!(true))),
            ("integer", Value::Number(old)) => {
                let old = old.as_u64().unwrap();
                list.extend([json!(old * 2), json!(old + 1), json!(old / 2)]);
            }
            ("integer", _) => list.extend([json!(64), json!(2)]),
            ("number", Value::Number(old)) => list.push(json!(old.as_f64().unwrap() / 2.0)),
            ("number", _) => list.push(json!(0.75)),
            ("null", _) => list.push(Value::Null),
            ("object", old) => {
                let properties = of["properties"].as_object().cloned().unwrap_or_default();
                // An object that is there with one field changed, or one made up.
                match old {
                    Value::Object(fields) if properties.keys().all(|name| fields.contains_key(name)) => {
                        for (name, of) in &properties {
                            for value in others(schema, of, &fields[name]) {
                                let mut changed = fields.clone();
                                changed.insert(name.clone(), value);
                                list.push(Value::Object(changed));
                            }
                        }
                    }
                    _ => {
                        let made = properties.iter().map(|(name, of)| {
                            let value = match (name.as_str(), others(schema, of, &Value::Null).first()) {
                                ("width", _) => json!(64),
                                (_, value) => value.cloned().unwrap_or_default(),
                            };
                            (name.clone(), value)
                        });
                        list.push(Value::Object(made.collect()));
                    }
                }
            }
            ("array", _) => list.push(json!([1.0, 2.0])),
            _ => {}
        }
    }
    list.retain(|value| value != old);
    list
}

fn documents() -> Vec<Value> {
    let document = |(name, config): &(&str, &str)| {
        let model = model::from_text(config, "config.json", name).expect("the configuration is legal");
        let mut document = layer_graph::document(&model);
        document.config = None;
        serde_json::to_value(document).unwrap()
    };
    BASES.iter().map(document).collect()
}

fn made(document: &Value) -> Option<Model> {
    model::from_text(&document.to_string(), "graph.json", "graph").ok()
}

/// `document` with `value` in `field` of all layers of a kind; widths that must agree agree.
fn with_layer_field(document: &Value, kind: &str, field: &str, value: &Value) -> Option<Value> {
    let mut changed = document.clone();
    let mut is_there = false;
    for layer in changed["layers"].as_array_mut()? {
        let (own, inside) = layer["kind"].as_object_mut()?.iter_mut().next()?;
        let is_shared = matches!(field, "hidden" | "vocabulary") && inside.get(field).is_some();
        if !(own == kind || is_shared) {
            continue;
        }
        let Some(inside) = inside.as_object_mut() else { continue };
        let old = inside.get(field).cloned();
        inside.insert(field.to_owned(), value.clone());
        is_there = true;
        if field == "hidden" {
            for norm in ["norm", "output_norm", "residual_norm"] {
                if inside.get(norm).is_some_and(|norm| Some(&norm["width"]) == old.as_ref()) {
                    inside[norm]["width"] = value.clone();
                }
            }
        }
    }
    is_there.then_some(changed)
}

/// What the field of all layers of a kind is now, in the first of them.
fn layer_field(document: &Value, kind: &str, field: &str) -> Option<Value> {
    let layers = document["layers"].as_array()?;
    let inside = layers.iter().find_map(|layer| layer["kind"].get(kind))?;
    Some(inside.get(field).cloned().unwrap_or_default())
}

/// All models that differ from a base in one field, and the names of all fields.
fn changes(documents: &[Value]) -> (Vec<Change>, Vec<String>) {
    let schema = schema();
    let (mut list, mut names) = (Vec::new(), Vec::new());
    for (base, document) in documents.iter().enumerate() {
        let mut add = |field: String, changed: Option<Value>| {
            if let Some(model) = changed.as_ref().and_then(made) {
                list.push(Change { field, base, model });
            }
        };
        for (definition, kind) in LAYERS {
            for (field, of) in fields(&schema, definition) {
                let name = format!("{kind}.{field}");
                if !names.contains(&name) {
                    names.push(name.clone());
                }
                let Some(old) = layer_field(document, kind, &field) else { continue };
                for value in others(&schema, &of, &old) {
                    add(name.clone(), with_layer_field(document, kind, &field, &value));
                }
            }
        }
        for (definition, place) in CONSTANTS {
            let inside = document.pointer(place).and_then(Value::as_object);
            for (field, of) in fields(&schema, definition) {
                if SECTIONS.contains(&field.as_str()) {
                    continue;
                }
                let name = format!("{}.{field}", place.trim_start_matches('/').replace('/', "."));
                if !names.contains(&name) {
                    names.push(name.clone());
                }
                let Some(inside) = inside else { continue };
                for value in others(&schema, &of, inside.get(&field).unwrap_or(&Value::Null)) {
                    let mut changed = document.clone();
                    changed.pointer_mut(place).unwrap()[&field] = value;
                    add(name.clone(), Some(changed));
                }
            }
        }
    }
    (list, names)
}

/// All that an export of `model` to `target` says.
fn said(target: Target, model: &Model) -> String {
    let profile = narrowed(target).expect("its profile is there");
    let cluster = cluster::load("1x2xh100-sxm").unwrap();
    let workload =
        Workload { global_batch: 8, seq_len: 1024, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    let problem = Problem::new(model, &cluster, workload, &profile, None);
    let resolved = |text: &str| Draft::parse(text).unwrap().resolve(&problem.facts).ok();
    let texts = ["zero=0", "zero=1", "zero=3", "zero=3,ckpt=full", "zero=2", "zero=3,ckpt=selective"];
    let strategy = texts.into_iter().find_map(resolved);
    let strategy = strategy.unwrap_or_else(|| panic!("{} has no strategy", target.text()));
    let case = Case { problem: &problem, strategy: &strategy };
    let dialect = target.dialect;
    let text = dialect.text(&case, &dialect.settings(&case), &[]);
    let (unsaid, _) = unsaid(target, &case);
    format!("{text}\n{:?}\n{unsaid:?}", dialect.companions(&case))
}

#[test]
fn every_field_of_a_model_is_written_or_named_by_every_engine() {
    let documents = documents();
    let (changes, names) = changes(&documents);
    let bases: Vec<Model> = documents.iter().map(|document| made(document).unwrap()).collect();
    let decoders: Vec<Option<Decoder>> = bases.iter().map(Decoder::of).collect();
    // A constant that nothing of the base looks at is no change.
    let counts: Vec<&Change> = changes
        .iter()
        .filter(|change| {
            let now = Decoder::of(&change.model);
            now.is_none() || now != decoders[change.base]
        })
        .collect();
    let unseen: Vec<&String> =
        names.iter().filter(|name| !counts.iter().any(|change| change.field == **name)).collect();
    // Norms are as wide as the stream, or as a head.
    assert_eq!(unseen, Vec::<&String>::new(), "fields that no change of a base reaches");
    let silent: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = targets()
            .map(|target| {
                let (bases, counts) = (&bases, &counts);
                scope.spawn(move || {
                    let before: Vec<String> = bases.iter().map(|model| said(target, model)).collect();
                    let is_silent = |change: &&&Change| said(target, &change.model) == before[change.base];
                    let silent = counts.iter().filter(is_silent);
                    let named = silent.map(|change| {
                        format!("{}: {} of {}", target.text(), change.field, BASES[change.base].0)
                    });
                    named.collect::<Vec<_>>()
                })
            })
            .collect();
        runs.into_iter().flat_map(|run| run.join().expect("no panic")).collect()
    });
    assert!(silent.is_empty(), "{} changes are passed over:\n{}", silent.len(), silent.join("\n"));
}
