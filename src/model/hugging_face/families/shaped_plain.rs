//! The rows of the older dense families that are a shape: layer norms, plain MLPs, biases.

use super::{
    Absent::{Flag, Null, Size, Word},
    Build, FAMILY, Family,
};
use crate::model::hugging_face::shape::{
    GPT, Heads, LLAMA, Norms, Positions, QueryKey, Shape,
    Switch::{Field, Last, Off, On},
    Width,
    Windows::AllButFirst,
};
use crate::model::layer::{NormKind, NormSpan};

/// In the order in which they are listed to people.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family {
        model_type: "persimmon",
        fields: &[
            ("vocab_size", Size(262_144)), ("hidden_size", Size(4096)), ("intermediate_size", Size(16_384)),
            ("num_hidden_layers", Size(36)), ("num_attention_heads", Size(64)), ("hidden_act", Word("relu2")),
            ("max_position_embeddings", Size(16_384)), ("tie_word_embeddings", Flag(false)),
            ("qk_layernorm", Flag(true)),
        ],
        build: Build::Of(&Shape {
            norm: NormKind::Layer, input_bias: On, output_bias: On, gated: false, mlp_bias: On,
            query_key: Some(QueryKey { kind: NormKind::Layer, span: NormSpan::Head, when: Field("qk_layernorm"), rotated: false }),
            share: 0.5, epsilon: ("layer_norm_eps", 1e-5),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "codegen",
        fields: &[
            ("vocab_size", Size(50_400)), ("hidden_size", Size(4096)), ("intermediate_size", Null),
            ("num_hidden_layers", Size(28)), ("num_attention_heads", Size(16)),
            ("hidden_act", Word("gelu_new")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)),
        ],
        aliases: &[
            ("hidden_size", "n_embd"), ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer"),
            ("intermediate_size", "n_inner"), ("hidden_act", "activation_function"),
        ],
        harmless: &[
            "n_ctx", "rotary_dim", "summary_type", "summary_use_proj", "summary_activation",
            "summary_proj_to_labels", "summary_first_dropout", "scale_attn_weights", "rotary",
        ],
        build: Build::Of(&Shape {
            norm: NormKind::Layer, norms: Norms::Shared, input_bias: Off, output_bias: Off, gated: false,
            width: Width::OrFourTimes, mlp_bias: On, head_bias: On, interleaved: true,
            epsilon: ("layer_norm_epsilon", 1e-5), otherwise: Some("rotary positions of a part of each head"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "ctrl",
        fields: &[
            ("vocab_size", Size(246_534)), ("hidden_size", Size(1280)), ("intermediate_size", Size(8192)),
            ("num_hidden_layers", Size(48)), ("num_attention_heads", Size(16)), ("hidden_act", Word("relu")),
            ("max_position_embeddings", Size(256)), ("tie_word_embeddings", Flag(true)),
        ],
        aliases: &[
            ("hidden_size", "n_embd"), ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer"), ("intermediate_size", "dff"),
        ],
        harmless: &[
            "n_ctx", "from_tf", "summary_type", "summary_use_proj", "summary_activation",
            "summary_proj_to_labels", "summary_first_dropout",
        ],
        build: Build::Of(&Shape {
            position: Positions::Sinusoidal, width: Width::Given, head_bias: On,
            epsilon: ("layer_norm_epsilon", 1e-6), otherwise: Some("scaled embeddings"),
            ..GPT
        }),
        ..FAMILY
    },
    Family {
        model_type: "biogpt",
        fields: &[
            ("vocab_size", Size(42_384)), ("hidden_size", Size(1024)), ("intermediate_size", Size(4096)),
            ("num_hidden_layers", Size(24)), ("num_attention_heads", Size(16)), ("hidden_act", Word("gelu")),
            ("max_position_embeddings", Size(1024)), ("tie_word_embeddings", Flag(true)),
        ],
        harmless: &[
            "hidden_dropout_prob", "attention_probs_dropout_prob", "scale_embedding", "layerdrop",
            "activation_dropout",
        ],
        build: Build::Of(&Shape {
            position: Positions::Learned(2), width: Width::Given, epsilon: ("layer_norm_eps", 1e-12),
            otherwise: Some("scaled embeddings"),
            ..GPT
        }),
        ..FAMILY
    },
    Family {
        model_type: "gpt-sw3",
        fields: &[
            ("vocab_size", Size(50_257)), ("hidden_size", Size(768)), ("intermediate_size", Null),
            ("num_hidden_layers", Size(12)), ("num_attention_heads", Size(12)),
            ("hidden_act", Word("gelu_new")), ("max_position_embeddings", Size(1024)),
            ("tie_word_embeddings", Flag(true)),
        ],
        aliases: &[
            ("hidden_size", "n_embd"), ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer"),
            ("intermediate_size", "n_inner"), ("hidden_act", "activation_function"),
        ],
        harmless: &[
            "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
            "summary_first_dropout", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
            "reorder_and_upcast_attn",
        ],
        build: Build::Of(&GPT),
        ..FAMILY
    },
    Family {
        model_type: "gpt_bigcode",
        fields: &[
            ("vocab_size", Size(50_257)), ("hidden_size", Size(768)), ("intermediate_size", Null),
            ("num_hidden_layers", Size(12)), ("num_attention_heads", Size(12)),
            ("hidden_act", Word("gelu_pytorch_tanh")), ("max_position_embeddings", Size(1024)),
            ("tie_word_embeddings", Flag(true)), ("multi_query", Flag(true)),
        ],
        aliases: &[
            ("hidden_size", "n_embd"), ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer"),
            ("intermediate_size", "n_inner"), ("hidden_act", "activation_function"),
        ],
        harmless: &[
            "scale_attn_weights", "attention_softmax_in_fp32", "scale_attention_softmax_in_fp32",
            "num_key_value_heads", "inference_runner", "validate_runner_input", "pre_allocate_kv_cache",
            "max_sequence_length", "max_batch_size", "attention_type", "n_ctx",
        ],
        build: Build::Of(&Shape {
            projection: Heads::OneIf("multi_query"),
            ..GPT
        }),
        ..FAMILY
    },
    Family {
        model_type: "gpt_neo",
        fields: &[
            ("vocab_size", Size(50_257)), ("hidden_size", Size(2048)), ("intermediate_size", Null),
            ("num_hidden_layers", Size(24)), ("num_attention_heads", Size(16)),
            ("hidden_act", Word("gelu_new")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(true)), ("sliding_window", Size(256)), ("layer_types", Null),
        ],
        aliases: &[
            ("num_hidden_layers", "num_layers"), ("num_attention_heads", "num_heads"),
            ("hidden_act", "activation_function"), ("sliding_window", "window_size"),
            ("layer_types", "attention_layers"),
        ],
        harmless: &[
            "attention_types", "resid_dropout", "embed_dropout", "classifier_dropout",
        ],
        build: Build::Of(&Shape {
            input_bias: Off, windows: AllButFirst(2), otherwise: Some("scores that are not scaled"),
            ..GPT
        }),
        ..FAMILY
    },
    Family {
        model_type: "gpt_neox_japanese",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(2560)), ("num_hidden_layers", Size(32)),
            ("num_attention_heads", Size(32)), ("hidden_act", Word("gelu")),
            ("max_position_embeddings", Size(2048)), ("tie_word_embeddings", Flag(true)),
            ("intermediate_multiple_size", Size(4)),
        ],
        harmless: &[
            "rotary_pct", "rotary_emb_base",
        ],
        build: Build::Of(&Shape {
            norm: NormKind::Layer, input_bias: Off, output_bias: Last, gated: false, width: Width::Multiple,
            epsilon: ("layer_norm_eps", 1e-5),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "openai-gpt",
        fields: &[
            ("vocab_size", Size(40_478)), ("hidden_size", Size(768)), ("num_hidden_layers", Size(12)),
            ("num_attention_heads", Size(12)), ("hidden_act", Word("gelu")),
            ("max_position_embeddings", Size(512)), ("tie_word_embeddings", Flag(true)),
        ],
        aliases: &[
            ("hidden_size", "n_embd"), ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer"), ("hidden_act", "afn"),
        ],
        harmless: &[
            "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
            "summary_first_dropout", "n_ctx", "n_special", "predict_special_tokens",
        ],
        build: Build::Of(&Shape {
            norms: Norms::OfSums,
            ..GPT
        }),
        ..FAMILY
    },
    Family {
        model_type: "xglm",
        fields: &[
            ("vocab_size", Size(256_008)), ("hidden_size", Size(1024)), ("intermediate_size", Size(4096)),
            ("num_hidden_layers", Size(24)), ("num_attention_heads", Size(16)), ("hidden_act", Word("gelu")),
            ("max_position_embeddings", Size(2048)), ("tie_word_embeddings", Flag(true)),
        ],
        aliases: &[
            ("hidden_size", "d_model"), ("num_hidden_layers", "num_layers"),
            ("num_attention_heads", "attention_heads"), ("intermediate_size", "ffn_dim"),
            ("hidden_act", "activation_function"),
        ],
        harmless: &[
            "dropout", "activation_dropout", "layerdrop", "scale_embedding",
        ],
        build: Build::Of(&Shape {
            position: Positions::Sinusoidal, width: Width::Given, otherwise: Some("scaled embeddings"),
            ..GPT
        }),
        ..FAMILY
    },
];
