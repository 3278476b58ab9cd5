//! Name lists against the checkpoints that these families publish, and layouts element by element.

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::model::parameters::parameters;
use crate::model::{Model, from_text, presets};

fn model(config: &str) -> Model {
    from_text(config, "test", "test").unwrap()
}

/// Stored names with their shapes, each once.
fn stored(model: &Model) -> BTreeMap<String, Vec<u64>> {
    tensors(model).into_iter().map(|tensor| (tensor.name, tensor.shape)).collect()
}

fn expected(list: &[(&str, &[u64])]) -> BTreeMap<String, Vec<u64>> {
    list.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect()
}

const GPT2: &str =
    r#"{"model_type":"gpt2","n_embd":8,"n_layer":1,"n_head":2,"vocab_size":11,"n_positions":6}"#;

const MIXTRAL: &str = r#"{"model_type":"mixtral","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":4,
    "num_key_value_heads":2,"intermediate_size":6,"vocab_size":11,"num_local_experts":2,
    "num_experts_per_tok":1}"#;

#[test]
fn gpt2_names_and_shapes() {
    let wanted = expected(&[
        ("transformer.wte.weight", &[11, 8]),
        ("transformer.wpe.weight", &[6, 8]),
        ("transformer.h.0.ln_1.weight", &[8]),
        ("transformer.h.0.ln_1.bias", &[8]),
        ("transformer.h.0.attn.c_attn.weight", &[8, 24]),
        ("transformer.h.0.attn.c_attn.bias", &[24]),
        ("transformer.h.0.attn.c_proj.weight", &[8, 8]),
        ("transformer.h.0.attn.c_proj.bias", &[8]),
        ("transformer.h.0.ln_2.weight", &[8]),
        ("transformer.h.0.ln_2.bias", &[8]),
        ("transformer.h.0.mlp.c_fc.weight", &[8, 32]),
        ("transformer.h.0.mlp.c_fc.bias", &[32]),
        ("transformer.h.0.mlp.c_proj.weight", &[32, 8]),
        ("transformer.h.0.mlp.c_proj.bias", &[8]),
        ("transformer.ln_f.weight", &[8]),
        ("transformer.ln_f.bias", &[8]),
    ]);
    assert_eq!(stored(&model(GPT2)), wanted);
}

#[test]
fn llama_names_and_shapes() {
    let config = r#"{"model_type":"llama","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":4,
        "num_key_value_heads":2,"intermediate_size":6,"vocab_size":11}"#;
    let wanted = expected(&[
        ("model.embed_tokens.weight", &[11, 8]),
        ("model.layers.0.input_layernorm.weight", &[8]),
        ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
        ("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
        ("model.layers.0.self_attn.v_proj.weight", &[4, 8]),
        ("model.layers.0.self_attn.o_proj.weight", &[8, 8]),
        ("model.layers.0.post_attention_layernorm.weight", &[8]),
        ("model.layers.0.mlp.gate_proj.weight", &[6, 8]),
        ("model.layers.0.mlp.up_proj.weight", &[6, 8]),
        ("model.layers.0.mlp.down_proj.weight", &[8, 6]),
        ("model.norm.weight", &[8]),
        ("lm_head.weight", &[11, 8]),
    ]);
    assert_eq!(stored(&model(config)), wanted);
}

#[test]
fn mixtral_names_and_shapes() {
    let wanted = expected(&[
        ("model.embed_tokens.weight", &[11, 8]),
        ("model.layers.0.input_layernorm.weight", &[8]),
        ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
        ("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
        ("model.layers.0.self_attn.v_proj.weight", &[4, 8]),
        ("model.layers.0.self_attn.o_proj.weight", &[8, 8]),
        ("model.layers.0.post_attention_layernorm.weight", &[8]),
        ("model.layers.0.block_sparse_moe.gate.weight", &[2, 8]),
        ("model.layers.0.block_sparse_moe.experts.0.w1.weight", &[6, 8]),
        ("model.layers.0.block_sparse_moe.experts.0.w2.weight", &[8, 6]),
        ("model.layers.0.block_sparse_moe.experts.0.w3.weight", &[6, 8]),
        ("model.layers.0.block_sparse_moe.experts.1.w1.weight", &[6, 8]),
        ("model.layers.0.block_sparse_moe.experts.1.w2.weight", &[8, 6]),
        ("model.layers.0.block_sparse_moe.experts.1.w3.weight", &[6, 8]),
        ("model.norm.weight", &[8]),
        ("lm_head.weight", &[11, 8]),
    ]);
    assert_eq!(stored(&model(MIXTRAL)), wanted);
}

/// The tensor that holds a row of a parameter.
fn holder(list: &[NamedTensor], role: Role, row: u64) -> &NamedTensor {
    let holds = |tensor: &&NamedTensor| {
        tensor.role == role && (tensor.first_row..tensor.first_row + tensor.rows).contains(&row)
    };
    list.iter().find(holds).unwrap()
}

#[test]
fn conv1d_and_packed_queries_keys_and_values_are_found_where_they_stand() {
    let list = tensors(&model(GPT2));
    // c_attn computes x·W with W of inputs × (queries, keys, values).
    let pairs = [(Role::Query, Role::QueryBias), (Role::Key, Role::KeyBias), (Role::Value, Role::ValueBias)];
    for (turn, (role, bias)) in pairs.into_iter().enumerate() {
        for (row, column) in [(0, 0), (3, 5), (7, 7)] {
            let tensor = holder(&list, role, row);
            assert_eq!(tensor.name, "transformer.h.0.attn.c_attn.weight");
            assert_eq!(tensor.position(row, column), column * 24 + 8 * turn as u64 + row, "{role}");
        }
        let bias = holder(&list, bias, 3);
        assert_eq!(bias.name, "transformer.h.0.attn.c_attn.bias");
        assert_eq!(bias.position(3, 0), 8 * turn as u64 + 3);
    }
    let down = holder(&list, Role::Down, 5);
    assert_eq!((down.name.as_str(), down.position(5, 30)), ("transformer.h.0.mlp.c_proj.weight", 30 * 8 + 5));
    let bias = holder(&list, Role::Norm, 8);
    assert_eq!((bias.name.as_str(), bias.position(9, 0)), ("transformer.h.0.ln_1.bias", 1));
}

#[test]
fn gates_stand_before_ups_and_experts_one_behind_the_other() {
    let list = tensors(&model(MIXTRAL));
    // Rows of `expert up`: gate of expert 0, up of expert 0, gate of expert 1, up of expert 1; six each.
    for (row, name) in [(0, "0.w1"), (5, "0.w1"), (6, "0.w3"), (12, "1.w1"), (23, "1.w3")] {
        let tensor = holder(&list, Role::ExpertUp, row);
        assert_eq!(tensor.name, format!("model.layers.0.block_sparse_moe.experts.{name}.weight"));
        assert_eq!(tensor.position(row, 3), row % 6 * 8 + 3);
    }
    assert!(holder(&list, Role::ExpertDown, 9).name.ends_with("experts.1.w2.weight"));
}

#[test]
fn bloom_and_neox_interleave_queries_keys_and_values_by_head() {
    let bloom = r#"{"model_type":"bloom","hidden_size":8,"n_layer":1,"n_head":2,"vocab_size":11}"#;
    let list = tensors(&model(bloom));
    // (heads, 3, head_dim) rows: the key of head 1 begins at row 1·12 + 4.
    let key = holder(&list, Role::Key, 5);
    assert_eq!(key.shape, [24, 8]);
    assert_eq!(key.position(5, 2), (12 + 4 + 1) * 8 + 2);
    assert_eq!(holder(&list, Role::ValueBias, 5).position(5, 0), 12 + 8 + 1);
    // Falcon 7B: all query heads, then the one key and the one value.
    let falcon = r#"{"model_type":"falcon","hidden_size":8,"n_layer":1,"n_head":4,"vocab_size":11}"#;
    let list = tensors(&model(falcon));
    assert_eq!(holder(&list, Role::Query, 7).position(7, 0), 7 * 8);
    assert_eq!(holder(&list, Role::Value, 1).position(1, 3), (8 + 2 + 1) * 8 + 3);
}

/// Every element of every parameter stands somewhere in bounds, no two at one place, and nothing is left over.
#[test]
fn parameters_and_stored_tensors_are_the_same_elements() {
    let small = [
        GPT2.to_owned(),
        MIXTRAL.to_owned(),
        r#"{"model_type":"bloom","hidden_size":8,"n_layer":2,"n_head":2,"vocab_size":11}"#.to_owned(),
        r#"{"model_type":"gpt_neox","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,
            "intermediate_size":6,"vocab_size":11}"#
            .to_owned(),
        r#"{"model_type":"opt","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,"ffn_dim":6,
            "vocab_size":11,"word_embed_proj_dim":4,"do_layer_norm_before":false,"max_position_embeddings":4}"#
            .to_owned(),
        r#"{"model_type":"falcon","hidden_size":8,"n_layer":1,"n_head":4,"vocab_size":11,
            "new_decoder_architecture":true,"num_kv_heads":2}"#
            .to_owned(),
        r#"{"model_type":"mpt","d_model":8,"n_layers":1,"n_heads":2,"vocab_size":11,"max_seq_len":4}"#.to_owned(),
        r#"{"model_type":"phi3","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":4,
            "num_key_value_heads":2,"intermediate_size":6,"vocab_size":11}"#
            .to_owned(),
        r#"{"model_type":"gemma2","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":4,"head_dim":2,
            "num_key_value_heads":2,"intermediate_size":6,"vocab_size":11}"#
            .to_owned(),
        r#"{"model_type":"qwen3_moe","hidden_size":8,"num_hidden_layers":2,"num_attention_heads":4,
            "num_key_value_heads":2,"intermediate_size":6,"moe_intermediate_size":3,"num_experts":2,
            "num_experts_per_tok":1,"vocab_size":11,"mlp_only_layers":[0]}"#
            .to_owned(),
    ];
    let graph = include_str!("../../../tests/layer_graphs/two-losses.json").to_owned();
    for text in small.into_iter().chain([graph]) {
        let model = model(&text);
        let list = tensors(&model);
        let mut seen = HashSet::new();
        let mut count = 0;
        for tensor in &list {
            for row in tensor.first_row..tensor.first_row + tensor.rows {
                for column in 0..tensor.columns {
                    let position = tensor.position(row, column);
                    assert!(position < tensor.elements(), "{tensor:?}");
                    assert!(seen.insert((tensor.name.clone(), position)), "{tensor:?}");
                    count += 1;
                }
            }
        }
        assert_eq!(count, model.parameter_count());
        let sizes: u64 = stored(&model).values().map(|shape| shape.iter().product::<u64>()).sum();
        assert_eq!(sizes, count, "{text}");
    }
}

#[test]
fn rows_of_every_parameter_of_every_preset_are_held_in_order() {
    for model in presets().iter().take(19).map(|preset| preset.model().unwrap()) {
        let list = tensors(&model);
        let mut rest = list.as_slice();
        for (index, layer) in model.layers().enumerate() {
            for parameter in parameters(&layer.kind) {
                let mut row = 0;
                while row < parameter.rows {
                    let (tensor, after) = rest.split_first().unwrap();
                    let found = (tensor.layer, tensor.role, tensor.first_row, tensor.columns);
                    assert_eq!(found, (index, parameter.role, row, parameter.columns));
                    row += tensor.rows;
                    rest = after;
                }
            }
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn initial_values_are_the_contracts() {
    let model = model(r#"{"model_type":"gpt2","n_embd":8,"n_layer":8,"n_head":2,"initializer_range":0.04}"#);
    let initial = |name: &str| tensors(&model).iter().find(|tensor| tensor.name == name).unwrap().initial;
    assert_eq!(initial("transformer.wte.weight"), Initial::Normal { deviation: 0.04 });
    assert_eq!(initial("transformer.h.0.attn.c_attn.weight"), Initial::Normal { deviation: 0.04 });
    assert_eq!(initial("transformer.h.0.attn.c_proj.weight"), Initial::Normal { deviation: 0.01 });
    assert_eq!(initial("transformer.h.7.mlp.c_proj.weight"), Initial::Normal { deviation: 0.01 });
    assert_eq!(initial("transformer.h.7.mlp.c_proj.bias"), Initial::Constant(0.0));
    assert_eq!(initial("transformer.ln_f.weight"), Initial::Constant(1.0));
    assert_eq!(initial("transformer.ln_f.bias"), Initial::Constant(0.0));
}

#[test]
fn what_is_not_trained_is_named() {
    let feature = |config: &str| trainable(&model(config)).map_err(|error| error.feature);
    assert_eq!(feature(GPT2), Ok(()));
    assert_eq!(feature(MIXTRAL), Ok(()));
    let deepseek = r#"{"model_type":"deepseek_v2","num_experts_per_tok":6}"#;
    assert_eq!(feature(deepseek), Err("multi-head latent attention".to_owned()));
    assert_eq!(feature(r#"{"model_type":"gpt_oss"}"#), Err("attention sinks".to_owned()));
    let yarn = r#"{"model_type":"llama","rope_scaling":{"rope_type":"yarn","factor":4.0}}"#;
    assert_eq!(feature(yarn), Err("rotary positions scaled by `yarn`".to_owned()));
    assert_eq!(feature(r#"{"model_type":"falcon"}"#), Err("a norm shared with attention".to_owned()));
}
