//! The rows of the dense families with gated MLPs.

use super::{
    Absent::{Flag, Null, Size, Word},
    Build, FAMILY, Family, HEAD_NORMS,
};
use crate::model::hugging_face::{gated, parallel};

/// In the order in which they are listed to people.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family {
        model_type: "llama",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
            ("head_dim", Null),
        ],
        harmless: &["max_sequence_length"],
        build: Build::Own(gated::llama),
        ..FAMILY
    },
    Family {
        model_type: "mistral",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(14_336)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Size(8)),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(131_072)),
            ("tie_word_embeddings", Flag(false)), ("sliding_window", Size(4096)), ("layer_types", Null),
        ],
        build: Build::Own(gated::mistral),
        ..FAMILY
    },
    Family {
        model_type: "qwen2",
        fields: &[
            ("vocab_size", Size(151_936)), ("hidden_size", Size(4096)), ("intermediate_size", Size(22_016)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Size(32)),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(32_768)),
            ("tie_word_embeddings", Flag(false)), ("use_sliding_window", Flag(false)),
            ("sliding_window", Size(4096)), ("max_window_layers", Size(28)), ("layer_types", Null),
        ],
        harmless: &["use_mrope"],
        build: Build::Own(gated::qwen2),
        ..FAMILY
    },
    Family {
        model_type: "qwen3",
        fields: &[
            ("vocab_size", Size(151_936)), ("hidden_size", Size(4096)), ("intermediate_size", Size(22_016)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Size(32)),
            ("head_dim", Size(128)), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(32_768)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)),
            ("use_sliding_window", Flag(false)), ("sliding_window", Size(4096)), ("max_window_layers", Size(28)),
            ("layer_types", Null),
        ],
        build: Build::Own(gated::qwen3),
        ..FAMILY
    },
    Family {
        model_type: "gemma",
        fields: &[
            ("vocab_size", Size(256_000)), ("hidden_size", Size(3072)), ("intermediate_size", Size(24_576)),
            ("num_hidden_layers", Size(28)), ("num_attention_heads", Size(16)), ("num_key_value_heads", Size(16)),
            ("head_dim", Size(256)), ("hidden_act", Word("gelu_pytorch_tanh")), ("hidden_activation", Null),
            ("max_position_embeddings", Size(8192)), ("tie_word_embeddings", Flag(true)),
            ("attention_bias", Flag(false)),
        ],
        refused: &[BIDIRECTIONAL],
        build: Build::Own(gated::gemma),
        ..FAMILY
    },
    Family {
        model_type: "gemma2",
        fields: &[
            ("vocab_size", Size(256_000)), ("hidden_size", Size(2304)), ("intermediate_size", Size(9216)),
            ("num_hidden_layers", Size(26)), ("num_attention_heads", Size(8)), ("num_key_value_heads", Size(4)),
            ("head_dim", Size(256)), ("hidden_activation", Word("gelu_pytorch_tanh")),
            ("max_position_embeddings", Size(8192)), ("tie_word_embeddings", Flag(true)),
            ("attention_bias", Flag(false)), ("sliding_window", Size(4096)), ("layer_types", Null),
            ("final_logit_softcapping", Flag(true)), ("attn_logit_softcapping", Flag(true)),
        ],
        harmless: &["hidden_act", "query_pre_attn_scalar", "cache_implementation", "sliding_window_size"],
        refused: &[BIDIRECTIONAL],
        build: Build::Own(gated::gemma2),
        ..FAMILY
    },
    Family {
        model_type: "gemma3_text",
        fields: &[
            ("vocab_size", Size(262_208)), ("hidden_size", Size(2304)), ("intermediate_size", Size(9216)),
            ("num_hidden_layers", Size(26)), ("num_attention_heads", Size(8)), ("num_key_value_heads", Size(4)),
            ("head_dim", Size(256)), ("hidden_activation", Word("gelu_pytorch_tanh")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(true)),
            ("attention_bias", Flag(false)), ("sliding_window", Size(4096)), ("sliding_window_pattern", Size(6)),
            ("layer_types", Null), ("final_logit_softcapping", Null), ("attn_logit_softcapping", Null),
        ],
        aliases: &[("sliding_window_pattern", "_sliding_window_pattern")],
        harmless: &["query_pre_attn_scalar", "rope_local_base_freq", "cache_implementation"],
        refused: &[BIDIRECTIONAL],
        build: Build::Own(gated::gemma3),
        ..FAMILY
    },
    Family {
        model_type: "phi3",
        fields: &[
            ("vocab_size", Size(32_064)), ("hidden_size", Size(3072)), ("intermediate_size", Size(8192)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(4096)),
            ("tie_word_embeddings", Flag(false)), ("sliding_window", Null), ("layer_types", Null),
        ],
        harmless: &["original_max_position_embeddings", "interpolate_factor", "full_attn_mod"],
        refused: &[("attention_bias", "Phi-3 has no biases"), ("mlp_bias", "Phi-3 has no biases")],
        build: Build::Own(gated::mistral),
        ..FAMILY
    },
    Family {
        model_type: "olmo2",
        fields: &[
            ("vocab_size", Size(50_304)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)),
        ],
        build: Build::Own(gated::olmo2),
        ..FAMILY
    },
    Family {
        model_type: "granite",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
        ],
        harmless: &["embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"],
        build: Build::Own(gated::llama),
        ..FAMILY
    },
    Family {
        model_type: "glm4",
        fields: &[
            ("vocab_size", Size(151_552)), ("hidden_size", Size(4096)), ("intermediate_size", Size(13_696)),
            ("num_hidden_layers", Size(40)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Size(2)),
            ("head_dim", Size(128)), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(131_072)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(true)),
        ],
        build: Build::Own(gated::glm4),
        ..FAMILY
    },
    Family {
        model_type: "stablelm",
        fields: &[
            ("vocab_size", Size(50_304)), ("hidden_size", Size(2560)), ("intermediate_size", Size(6912)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Size(32)),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(4096)),
            ("tie_word_embeddings", Flag(false)), ("use_qkv_bias", Flag(false)),
            ("use_parallel_residual", Flag(false)),
        ],
        harmless: &["norm_eps", "rope_pct"],
        refused: &[HEAD_NORMS],
        build: Build::Own(parallel::stablelm),
        ..FAMILY
    },
    Family {
        model_type: "cohere",
        fields: &[
            ("vocab_size", Size(256_000)), ("hidden_size", Size(8192)), ("intermediate_size", Size(22_528)),
            ("num_hidden_layers", Size(40)), ("num_attention_heads", Size(64)), ("num_key_value_heads", Null),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(8192)),
            ("tie_word_embeddings", Flag(true)), ("attention_bias", Flag(false)),
        ],
        harmless: &["logit_scale"],
        refused: &[("use_qk_norm", "norms of queries and keys with weights of each head are not planned")],
        build: Build::Own(parallel::cohere),
        ..FAMILY
    },
];

const BIDIRECTIONAL: (&str, &str) = ("use_bidirectional_attention", "only causal attention is planned");
