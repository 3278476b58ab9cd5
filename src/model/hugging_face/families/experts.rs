//! The rows of the families with mixtures of experts.

use super::{
    Absent::{Flag, Null, Size, Word},
    Build, FAMILY, Family,
};
use crate::model::hugging_face::experts;

/// In the order in which they are listed to people.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family {
        model_type: "mixtral",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(14_336)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Size(8)),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(131_072)),
            ("tie_word_embeddings", Flag(false)), ("sliding_window", Null), ("layer_types", Null),
            ("num_experts_per_tok", Size(2)), ("num_local_experts", Size(8)),
        ],
        aliases: &[("num_local_experts", "num_experts")],
        harmless: &["output_router_logits", "router_aux_loss_coef", "router_jitter_noise"],
        build: Build::Own(experts::mixtral),
        ..FAMILY
    },
    Family {
        model_type: "qwen2_moe",
        fields: &[
            ("vocab_size", Size(151_936)), ("hidden_size", Size(2048)), ("intermediate_size", Size(5632)),
            ("num_hidden_layers", Size(24)), ("num_attention_heads", Size(16)), ("num_key_value_heads", Size(16)),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(32_768)),
            ("tie_word_embeddings", Flag(false)), ("qkv_bias", Flag(true)),
            ("use_sliding_window", Flag(false)), ("sliding_window", Size(4096)), ("max_window_layers", Size(28)),
            ("layer_types", Null), ("decoder_sparse_step", Size(1)), ("moe_intermediate_size", Size(1408)),
            ("shared_expert_intermediate_size", Size(5632)), ("num_experts_per_tok", Size(4)),
            ("num_experts", Size(60)), ("mlp_only_layers", Null),
        ],
        aliases: &[("num_experts", "num_local_experts")],
        harmless: &["norm_topk_prob", "output_router_logits", "router_aux_loss_coef"],
        build: Build::Own(experts::qwen2_moe),
        ..FAMILY
    },
    Family {
        model_type: "qwen3_moe",
        fields: &[
            ("vocab_size", Size(151_936)), ("hidden_size", Size(2048)), ("intermediate_size", Size(6144)),
            ("num_hidden_layers", Size(24)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Size(4)),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(32_768)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)),
            ("use_sliding_window", Flag(false)), ("sliding_window", Size(4096)), ("layer_types", Null),
            ("decoder_sparse_step", Size(1)), ("moe_intermediate_size", Size(768)),
            ("num_experts_per_tok", Size(8)), ("num_experts", Size(128)), ("mlp_only_layers", Null),
        ],
        aliases: &[("num_experts", "num_local_experts")],
        harmless: &["max_window_layers", "norm_topk_prob", "output_router_logits", "router_aux_loss_coef"],
        build: Build::Own(experts::qwen3_moe),
        ..FAMILY
    },
    Family {
        model_type: "gpt_oss",
        fields: &[
            ("num_hidden_layers", Size(36)), ("num_local_experts", Size(128)), ("vocab_size", Size(201_088)),
            ("hidden_size", Size(2880)), ("intermediate_size", Size(2880)), ("head_dim", Size(64)),
            ("num_attention_heads", Size(64)), ("num_key_value_heads", Size(8)), ("sliding_window", Size(128)),
            ("tie_word_embeddings", Flag(false)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("num_experts_per_tok", Size(4)), ("layer_types", Null),
            ("attention_bias", Flag(true)),
        ],
        aliases: &[("num_local_experts", "num_experts"), ("num_experts_per_tok", "experts_per_token")],
        harmless: &[
            "initial_context_length", "swiglu_limit", "swiglu_alpha", "output_router_logits",
            "router_aux_loss_coef", "ntk_alpha", "ntk_beta", "rope_scaling_factor",
        ],
        build: Build::Own(experts::gpt_oss),
        ..FAMILY
    },
    Family {
        model_type: "glm4_moe",
        fields: &[
            ("vocab_size", Size(151_552)), ("hidden_size", Size(4096)), ("intermediate_size", Size(10_944)),
            ("num_hidden_layers", Size(46)), ("num_attention_heads", Size(96)), ("num_key_value_heads", Size(8)),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(131_072)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("use_qk_norm", Flag(false)),
            ("moe_intermediate_size", Size(1408)), ("num_experts_per_tok", Size(8)), ("n_shared_experts", Size(1)),
            ("n_routed_experts", Size(128)), ("first_k_dense_replace", Size(1)),
            ("num_nextn_predict_layers", Null),
        ],
        aliases: ROUTED_ALIASES,
        harmless: &["routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob", "topk_method",
            "scoring_func", "output_router_logits", "router_aux_loss_coef"],
        build: Build::Own(experts::glm4_moe),
        ..FAMILY
    },
    Family {
        model_type: "deepseek_v2",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(2048)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("first_k_dense_replace", Size(0)), ("moe_layer_freq", Size(1)),
            ("kv_lora_rank", Size(512)), ("q_lora_rank", Size(1536)), ("n_routed_experts", Size(64)),
            ("n_shared_experts", Size(2)), ("qk_nope_head_dim", Size(128)), ("qk_rope_head_dim", Size(64)),
            ("v_head_dim", Size(128)), ("num_experts_per_tok", Null), ("moe_intermediate_size", Size(1407)),
            ("num_nextn_predict_layers", Null),
        ],
        aliases: ROUTED_ALIASES,
        harmless: DEEPSEEK_HARMLESS,
        refused: &[("mlp_bias", "biases in its MLPs are not planned")],
        build: Build::Own(experts::deepseek),
        ..FAMILY
    },
    Family {
        model_type: "deepseek_v3",
        fields: &[
            ("vocab_size", Size(129_280)), ("hidden_size", Size(7168)), ("intermediate_size", Size(18_432)),
            ("moe_intermediate_size", Size(2048)), ("num_hidden_layers", Size(61)),
            ("num_attention_heads", Size(128)), ("n_shared_experts", Size(1)), ("n_routed_experts", Size(256)),
            ("kv_lora_rank", Size(512)), ("q_lora_rank", Size(1536)), ("qk_rope_head_dim", Size(64)),
            ("v_head_dim", Size(128)), ("qk_nope_head_dim", Size(128)), ("num_experts_per_tok", Size(8)),
            ("first_k_dense_replace", Size(3)), ("moe_layer_freq", Size(1)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(4096)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("num_nextn_predict_layers", Null),
        ],
        aliases: ROUTED_ALIASES,
        harmless: DEEPSEEK_HARMLESS,
        build: Build::Own(experts::deepseek),
        ..FAMILY
    },
];

const ROUTED_ALIASES: &[(&str, &str)] =
    &[("n_routed_experts", "num_local_experts"), ("num_nextn_predict_layers", "num_mtp_layers")];

/// Routing rules, auxiliary losses and bookkeeping; latent attention has as many key-value heads as heads.
#[rustfmt::skip]
const DEEPSEEK_HARMLESS: &[&str] = &[
    "num_key_value_heads", "head_dim", "routed_scaling_factor", "n_group", "topk_group", "topk_method",
    "scoring_func", "norm_topk_prob", "aux_loss_alpha", "seq_aux", "ep_size", "rope_interleave",
    "qk_head_dim", "output_router_logits", "router_aux_loss_coef",
];
