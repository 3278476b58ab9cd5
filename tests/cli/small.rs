//! Plans of small models, and what executing them gives.

use serde_json::{Value, json};

use crate::place::Place;

pub const DENSE: &str =
    r#"{"model_type":"gpt2","n_embd":16,"n_layer":4,"n_head":4,"vocab_size":32,"n_positions":16}"#;
pub const EXPERTS: &str = r#"{"model_type":"mixtral","hidden_size":16,"intermediate_size":32,"num_hidden_layers":2,
    "num_attention_heads":4,"num_key_value_heads":2,"vocab_size":32,"max_position_embeddings":16,
    "num_local_experts":4,"num_experts_per_tok":2,"rms_norm_eps":1e-5,"rope_theta":1e4,"sliding_window":null,
    "tie_word_embeddings":false,"hidden_act":"silu"}"#;

/// A plan of `model` on `ranks` CPU ranks, in `plan.json`.
pub fn planned(place: &Place, model: &str, ranks: u64, batch: u64, strategy: &str) {
    place.write("small.json", model);
    let line = format!(
        "simulate small.json --cluster 1x{ranks}xcpu --global-batch {batch} --seq-len 16 --precision fp32 \
         --strategy {strategy} --out plan.json"
    );
    let run = place.line(&line);
    assert_eq!(run.code, 0, "{strategy}\n{}", run.stderr);
}

/// The report and the trace of `execute` with `flags`.
pub fn executed(place: &Place, flags: &str) -> (Value, Value) {
    let run = place.line(&format!("execute plan.json {flags} --trace trace.json --json"));
    assert_eq!(run.code, 0, "{flags}\n{}", run.stderr);
    (run.json(), serde_json::from_str(&place.read("trace.json")).unwrap())
}

/// Rows of `rank` in the table `table`.
pub fn rows<'a>(document: &'a Value, table: &str, rank: u64) -> Vec<&'a Value> {
    let rows = document[table].as_array().unwrap().iter();
    rows.filter(|row| row["rank"] == json!(rank)).collect()
}
