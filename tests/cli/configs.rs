//! Hugging Face configs as people have them: what is left out or missing is said, what cannot be is refused.

use crate::place::Place;

const SIMULATE: &str =
    "--cluster 8x8xh100-sxm --strategy ep=64,zero=1 --global-batch 64 --seq-len 512 --json";
const MOE: &str = r#"{"model_type":"deepseek_v3","hidden_size":256,"intermediate_size":512,"num_hidden_layers":4,
"num_attention_heads":4,"vocab_size":1000,"max_position_embeddings":512,"q_lora_rank":64,"kv_lora_rank":32,
"qk_nope_head_dim":32,"qk_rope_head_dim":16,"v_head_dim":32,"n_routed_experts":64,"num_experts_per_tok":4,
"n_shared_experts":1,"moe_intermediate_size":128,"first_k_dense_replace":1,"moe_layer_freq":1,
"hidden_act":"silu","tie_word_embeddings":false,"num_nextn_predict_layers":1}"#;

#[test]
fn multi_token_prediction_is_left_out_or_priced() {
    let place = Place::new();
    place.write("config.json", MOE);
    let plain = place.line(&format!("simulate config.json {SIMULATE}")).json();
    let priced = place.line(&format!("simulate config.json {SIMULATE} --mtp")).json();
    let says = |document: &serde_json::Value, text: &str| {
        let warnings = document["warnings"].as_array().unwrap();
        warnings.iter().any(|warning| warning.as_str().unwrap().starts_with(text))
    };
    assert!(
        says(&plain, "1 multi-token prediction layer is left out, as transformers does; --mtp"),
        "{plain}"
    );
    assert!(says(&priced, "1 multi-token prediction layer is counted"), "{priced}");
    assert_eq!((&plain["model"]["layers"], &priced["model"]["layers"]), (&4.into(), &5.into()));
    for field in ["step_time_s", "peak_memory_bytes"] {
        let number = |document: &serde_json::Value| document["prediction"][field].as_f64().unwrap();
        assert!(number(&priced) > number(&plain), "{field}");
    }
    let gpt2 = place.line(&format!("simulate gpt2 {} --mtp", SIMULATE.replace("ep=64,", ""))).json();
    assert!(says(&gpt2, "--mtp changes nothing: gpt2 has no multi-token prediction layers"), "{gpt2}");
}

#[test]
fn a_rope_type_that_is_not_known_is_an_input_error() {
    let place = Place::new();
    let rope = r#""rope_scaling":{"rope_type":"yaarn","factor":4},"num_nextn"#;
    place.write("config.json", MOE.replace("\"num_nextn", rope));
    let run = place.line(&format!("simulate config.json {SIMULATE}"));
    assert_eq!(run.code, 3, "{}", run.stderr);
    let error = &run.json()["error"];
    assert_eq!((&error["field"], &error["value"]), (&"rope_scaling.rope_type".into(), &"yaarn".into()));
    assert_eq!(error["nearest"][0], "yarn");
}
