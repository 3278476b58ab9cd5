//! Small models of each kind that the embedded backend trains.

use meshwright::model::{self, Model};
use serde_json::{Value, json};

/// GPT-2: learned positions, biases, layer norms, a tied head; an odd vocabulary.
pub fn gpt2() -> Model {
    hugging_face(json!({
        "model_type": "gpt2", "vocab_size": 61, "n_positions": 32, "n_embd": 16, "n_layer": 4, "n_head": 4,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true
    }))
}

/// Llama: rotary positions, two key-value heads for eight heads, gated, an untied head.
pub fn llama() -> Model {
    hugging_face(json!({
        "model_type": "llama", "vocab_size": 61, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "tie_word_embeddings": false, "max_position_embeddings": 32,
        "initializer_range": 0.1
    }))
}

/// Mixtral: two of four experts a token.
pub fn mixtral() -> Model {
    hugging_face(json!({
        "model_type": "mixtral", "vocab_size": 61, "hidden_size": 16, "intermediate_size": 8,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_act": "silu",
        "num_local_experts": 4, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": false, "max_position_embeddings": 32, "initializer_range": 0.1
    }))
}

/// The oracle's trunk with scores that have a soft cap and a window, as in Gemma 2.
pub fn capped() -> Model {
    let golden: Value = serde_json::from_str(include_str!("../oracle/golden/two_losses.json")).unwrap();
    let mut graph = golden["layer_graph"].clone();
    let layers = graph["layers"].as_array_mut().unwrap();
    let attention = layers.iter_mut().find(|layer| layer["name"] == "attention").unwrap();
    attention["kind"]["attention"]["soft_cap"] = json!(true);
    attention["kind"]["attention"]["window"] = json!(6);
    let mut model = model::from_text(&graph.to_string(), "golden", "golden").unwrap();
    model.constants.score_cap = 0.5;
    model
}

/// BLOOM: linear biases by the distance of a key.
pub fn bloom() -> Model {
    hugging_face(json!({
        "model_type": "bloom", "vocab_size": 61, "hidden_size": 24, "n_layer": 2, "n_head": 6,
        "layer_norm_epsilon": 1e-5, "initializer_range": 0.1
    }))
}

/// Two losses over one trunk, of the oracle.
pub fn two_losses() -> Model {
    let golden: Value = serde_json::from_str(include_str!("../oracle/golden/two_losses.json")).unwrap();
    model::from_text(&golden["layer_graph"].to_string(), "golden", "golden").unwrap()
}

/// The oracle's two losses and one of features behind the trunk, with these weights, in this order.
pub fn adaptive(losses: &[(&str, Value)], is_moe: bool) -> Model {
    let golden: Value = serde_json::from_str(include_str!("../oracle/golden/two_losses.json")).unwrap();
    let mut graph = golden["layer_graph"].clone();
    let layers = graph["layers"].as_array_mut().unwrap();
    let features = json!({"name": "features", "kind": {"loss": "mean_squared_error"}, "inputs": ["mlp"]});
    if losses.iter().any(|(name, _)| *name == "features") {
        layers.push(features);
    }
    if is_moe {
        let mlp = layers.iter_mut().find(|layer| layer["name"] == "mlp").unwrap();
        mlp["kind"] = json!({"moe": {
            "hidden": 32, "experts": 4, "top_k": 2, "intermediate": 16, "gated": true, "activation": "silu",
            "norm": {"kind": "rms", "width": 32}
        }});
    }
    let terms = losses.iter().map(|(name, weight)| json!({"name": name, "layer": name, "weight": weight}));
    graph["losses"] = terms.collect();
    model::from_text(&graph.to_string(), "golden", "golden").unwrap()
}

fn hugging_face(config: Value) -> Model {
    model::from_text(&config.to_string(), "config.json", "small").unwrap()
}
