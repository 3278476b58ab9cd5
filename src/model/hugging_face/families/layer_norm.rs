//! The rows of the families with layer norms and plain MLPs.

use super::{
    Absent::{Flag, Null, Size, Word},
    Build, FAMILY, Family, HEAD_NORMS,
};
use crate::model::hugging_face::{layer_norm, parallel};

/// In the order in which they are listed to people.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family {
        model_type: "gpt2",
        fields: &[
            ("vocab_size", Size(50_257)), ("max_position_embeddings", Size(1024)), ("hidden_size", Size(768)),
            ("num_hidden_layers", Size(12)), ("num_attention_heads", Size(12)), ("n_inner", Null),
            ("activation_function", Word("gelu_new")), ("tie_word_embeddings", Flag(true)),
        ],
        aliases: GPT2_ALIASES,
        harmless: SUMMARIES,
        build: Build::Own(layer_norm::gpt2),
        ..FAMILY
    },
    Family {
        model_type: "gptj",
        fields: &[
            ("vocab_size", Size(50_400)), ("max_position_embeddings", Size(2048)), ("hidden_size", Size(4096)),
            ("num_hidden_layers", Size(28)), ("num_attention_heads", Size(16)), ("rotary_dim", Size(64)),
            ("n_inner", Null), ("activation_function", Word("gelu_new")), ("tie_word_embeddings", Flag(false)),
        ],
        aliases: GPT2_ALIASES,
        harmless: SUMMARIES,
        build: Build::Own(parallel::gptj),
        ..FAMILY
    },
    Family {
        model_type: "gpt_neox",
        fields: &[
            ("vocab_size", Size(50_432)), ("hidden_size", Size(6144)), ("num_hidden_layers", Size(44)),
            ("num_attention_heads", Size(64)), ("intermediate_size", Size(24_576)), ("hidden_act", Word("gelu")),
            ("max_position_embeddings", Size(2048)), ("tie_word_embeddings", Flag(false)),
            ("use_parallel_residual", Flag(true)), ("attention_bias", Flag(true)),
        ],
        harmless: &["rotary_pct", "rotary_emb_base", "classifier_dropout", "attention_probs_dropout_prob",
            "hidden_dropout_prob"],
        build: Build::Own(layer_norm::gpt_neox),
        ..FAMILY
    },
    Family {
        model_type: "opt",
        fields: &[
            ("vocab_size", Size(50_272)), ("hidden_size", Size(768)), ("num_hidden_layers", Size(12)),
            ("ffn_dim", Size(3072)), ("max_position_embeddings", Size(2048)), ("do_layer_norm_before", Flag(true)),
            ("_remove_final_layer_norm", Flag(false)), ("word_embed_proj_dim", Null),
            ("num_attention_heads", Size(12)), ("activation_function", Word("relu")), ("enable_bias", Flag(true)),
            ("layer_norm_elementwise_affine", Flag(true)), ("tie_word_embeddings", Flag(true)),
        ],
        harmless: &["dropout", "activation_dropout", "layerdrop"],
        build: Build::Own(layer_norm::opt),
        ..FAMILY
    },
    Family {
        model_type: "bloom",
        fields: &[
            ("vocab_size", Size(250_880)), ("hidden_size", Size(64)), ("num_hidden_layers", Size(2)),
            ("num_attention_heads", Size(8)), ("seq_length", Null), ("tie_word_embeddings", Flag(true)),
        ],
        aliases: &[("hidden_size", "n_embed"), ("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head")],
        harmless: &[
            "n_inner", "slow_but_exact", "offset_alibi", "masked_softmax_fusion", "bias_dropout_fusion",
            "skip_bias_add", "skip_bias_add_qkv", "attention_softmax_in_fp32",
        ],
        refused: &[("apply_residual_connection_post_layernorm", "the residual is taken before the norm")],
        build: Build::Own(layer_norm::bloom),
        ..FAMILY
    },
    Family {
        model_type: "falcon",
        fields: &[
            ("vocab_size", Size(65_024)), ("hidden_size", Size(4544)), ("num_hidden_layers", Size(32)),
            ("num_attention_heads", Size(71)), ("num_ln_in_parallel_attn", Null), ("num_kv_heads", Null),
            ("alibi", Flag(false)), ("new_decoder_architecture", Flag(false)), ("multi_query", Flag(true)),
            ("parallel_attn", Flag(true)), ("bias", Flag(false)), ("max_position_embeddings", Size(2048)),
            ("ffn_hidden_size", Null), ("activation", Word("gelu")), ("tie_word_embeddings", Flag(true)),
        ],
        aliases: &[
            ("hidden_size", "n_embed"), ("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head"),
            ("num_kv_heads", "n_head_kv"),
        ],
        harmless: &["ff_factor"],
        refused: &[("apply_residual_connection_post_layernorm", "the residual is taken before the norm")],
        build: Build::Own(layer_norm::falcon),
        ..FAMILY
    },
    Family {
        model_type: "mpt",
        fields: &[
            ("hidden_size", Size(2048)), ("num_attention_heads", Size(16)), ("num_hidden_layers", Size(24)),
            ("expansion_ratio", Size(4)), ("max_seq_len", Size(2048)), ("vocab_size", Size(50_368)),
            ("learned_pos_emb", Flag(true)), ("attn_config", Null), ("no_bias", Flag(true)),
            ("norm_type", Word("low_precision_layernorm")), ("tie_word_embeddings", Flag(true)),
        ],
        aliases: &[
            ("hidden_size", "d_model"), ("num_attention_heads", "n_heads"), ("num_hidden_layers", "n_layers"),
        ],
        harmless: &[
            "emb_pdrop", "embedding_fraction", "init_config", "init_device", "logit_scale", "verbose",
            "tokenizer_name", "fc_type", "use_pad_tok_in_ffn",
        ],
        refused: &[("ffn_config", "only MPT's plain MLP is planned; remove it if its type is mptmlp")],
        inner: Some(("attn_config", &MPT_ATTENTION)),
        build: Build::Own(layer_norm::mpt),
    },
    Family {
        model_type: "phi",
        fields: &[
            ("vocab_size", Size(51_200)), ("hidden_size", Size(2048)), ("intermediate_size", Size(8192)),
            ("num_hidden_layers", Size(24)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("hidden_act", Word("gelu_new")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)),
        ],
        refused: &[HEAD_NORMS],
        build: Build::Own(parallel::phi),
        ..FAMILY
    },
    Family {
        model_type: "starcoder2",
        fields: &[
            ("vocab_size", Size(49_152)), ("hidden_size", Size(3072)), ("intermediate_size", Size(12_288)),
            ("num_hidden_layers", Size(30)), ("num_attention_heads", Size(24)), ("num_key_value_heads", Size(2)),
            ("hidden_act", Word("gelu_pytorch_tanh")), ("max_position_embeddings", Size(4096)),
            ("sliding_window", Null), ("layer_types", Null), ("use_bias", Flag(true)),
            ("tie_word_embeddings", Flag(true)),
        ],
        harmless: &["norm_epsilon", "residual_dropout", "embedding_dropout", "mlp_type", "norm_type"],
        build: Build::Own(layer_norm::starcoder2),
        ..FAMILY
    },
];

const GPT2_ALIASES: &[(&str, &str)] = &[
    ("hidden_size", "n_embd"),
    ("max_position_embeddings", "n_positions"),
    ("num_attention_heads", "n_head"),
    ("num_hidden_layers", "n_layer"),
];

/// Heads for other tasks, and constants of attention.
#[rustfmt::skip]
const SUMMARIES: &[&str] = &[
    "n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
    "summary_first_dropout", "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn",
    "rotary",
];

/// The object `attn_config` of MPT.
#[rustfmt::skip]
pub(super) static MPT_ATTENTION: Family = Family {
    fields: &[("attn_type", Word("multihead_attention")), ("kv_n_heads", Null), ("alibi", Flag(true))],
    harmless: &[
        "attn_impl", "clip_qkv", "softmax_scale", "attn_uses_sequence_id", "alibi_bias_max",
        "rope_impl", "rope_dail_config", "rope_hf_config", "fused_qkv",
    ],
    refused: &[
        ("prefix_lm", "only causal attention is planned"),
        ("qk_ln", "a norm over all queries and keys is not planned"),
        ("qk_gn", "a norm over all queries and keys is not planned"),
        ("rope", "rotary positions in MPT are not planned"),
    ],
    ..FAMILY
};
