//! The rows of families that are a shape and whose code is published with their weights.

use super::{
    Absent::{Flag, Null, Size, Word},
    Build, FAMILY, Family,
};
use crate::model::hugging_face::shape::{
    EXPERTS, Experts, LLAMA, Shape, Shared, Sparse,
    Switch::{Field, Off, On},
    Width,
};

/// In the order in which they are listed to people.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family {
        model_type: "baichuan",
        fields: &[
            ("vocab_size", Size(125_696)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(4096)), ("tie_word_embeddings", Flag(false)),
        ],
        aliases: &[("max_position_embeddings", "model_max_length")],
        harmless: &["z_loss_weight", "_from_model_config"],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, otherwise: Some("ALiBi or normed rows of its head in some of its sizes"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "chatglm",
        fields: &[
            ("vocab_size", Size(65_024)), ("hidden_size", Size(4096)), ("intermediate_size", Size(13_696)),
            ("num_hidden_layers", Size(28)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Size(128)), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("add_qkv_bias", Flag(false)),
        ],
        aliases: &[
            ("vocab_size", "padded_vocab_size"), ("intermediate_size", "ffn_hidden_size"),
            ("num_hidden_layers", "num_layers"), ("num_key_value_heads", "multi_query_group_num"),
            ("head_dim", "kv_channels"), ("max_position_embeddings", "seq_length"),
        ],
        harmless: &[
            "apply_query_key_layer_scaling", "attention_softmax_in_fp32", "bias_dropout_fusion", "fp32_residual_connection",
            "layernorm_epsilon", "multi_query_attention", "original_rope", "post_layer_norm", "rmsnorm", "rope_ratio",
            "classifier_dropout",
        ],
        refused: &[
            ("add_bias_linear", "biases of its other layers are not planned"),
            ("apply_residual_connection_post_layernorm", "the residual is taken before the norm"),
            ("pre_seq_len", "a trained prefix is not planned"),
        ],
        build: Build::Of(&Shape {
            input_bias: Field("add_qkv_bias"), output_bias: Off, share: 0.5, interleaved: true,
            epsilon: ("layernorm_epsilon", 1e-5),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "internlm",
        fields: &[
            ("vocab_size", Size(103_168)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(2048)), ("tie_word_embeddings", Flag(false)), ("bias", Flag(true)),
        ],
        harmless: &["rotary"],
        build: Build::Of(&Shape { input_bias: Field("bias"), output_bias: Field("bias"), ..LLAMA }),
        ..FAMILY
    },
    Family {
        model_type: "internlm2",
        fields: &[
            ("vocab_size", Size(103_168)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("bias", Flag(true)),
        ],
        build: Build::Of(&Shape { input_bias: Field("bias"), output_bias: Field("bias"), ..LLAMA }),
        ..FAMILY
    },
    Family {
        model_type: "minicpm",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(true)), ("attention_bias", Flag(false)),
        ],
        harmless: &["scale_emb", "scale_depth", "dim_model_base"],
        refused: &[("num_experts", "its form with experts is not planned")],
        build: Build::Of(&Shape {
            otherwise: Some("factors of its residual stream and logits"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "qwen",
        fields: &[
            ("vocab_size", Size(151_936)), ("hidden_size", Size(4096)), ("intermediate_size", Size(22_016)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("head_dim", Size(128)),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(8192)),
            ("tie_word_embeddings", Flag(false)),
        ],
        aliases: &[("head_dim", "kv_channels"), ("max_position_embeddings", "seq_length")],
        harmless: &[
            "bf16", "fp16", "fp32", "attn_dropout_prob", "emb_dropout_prob", "no_bias",
            "onnx_safe", "rotary_emb_base", "rotary_pct", "scale_attn_weights", "use_dynamic_ntk", "use_flash_attn",
            "use_logn_attn", "use_cache_kernel", "use_cache_quantization", "softmax_in_fp32",
        ],
        build: Build::Of(&Shape {
            input_bias: On, output_bias: Off, width: Width::Half,
            epsilon: ("layer_norm_epsilon", 1e-6), otherwise: Some("scores that grow with long sequences"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "deepseek",
        fields: &[
            ("vocab_size", Size(102_400)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(30)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("num_experts", Null),
            ("num_experts_per_tok", Null), ("moe_intermediate_size", Size(1407)), ("n_shared_experts", Null),
            ("first_k_dense_replace", Size(0)),
        ],
        aliases: &[("num_experts", "n_routed_experts")],
        harmless: &["aux_loss_alpha", "norm_topk_prob", "scoring_func", "seq_aux", "moe_layer_freq"],
        build: Build::Of(&Shape {
            experts: Some(Experts {
                shared: Shared::Count("n_shared_experts"), sparse: Sparse::Behind, ..EXPERTS
            }),
            otherwise: Some("a router of its own kind"),
            ..LLAMA
        }),
        ..FAMILY
    },
];
