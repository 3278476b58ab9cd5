//! The rows of the families that are a shape and have mixtures of experts.

use super::{
    Absent::{Flag, Null, Size, Word},
    Build, FAMILY, Family,
};
use crate::model::hugging_face::shape::{
    ALL_HEADS_NORMS, EXPERTS, Experts, HEAD_NORMS, Heads, LLAMA, Norms, QueryKey, Shape, Shared, Sparse,
    Switch::{Field, Off, On},
    Unrotated, Width,
    Windows::{self, All, AllBut, AllButFirst, AllButPattern, Listed, Required},
};
use crate::model::layer::{NormKind, NormSpan};

const EPS5: (&str, f64) = ("rms_norm_eps", 1e-5);

const FACTORS: Option<&str> = Some("factors of its residual stream, scores or logits");

/// Scores, groups or weights that [`crate::model::constants::Router`] is not told.
const ROUTER: Option<&str> = Some("a router of its own kind");

const UNCOMPARED: Option<&str> = Some("layers that were not compared with those of transformers");

const AFTER_ROTATION: Option<&str> = Some("norms of queries and keys behind their rotation");

const TWO_ROTATIONS: Option<&str> = Some("rotary positions of their own in layers with windows");

/// In the order in which they are listed to people.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family {
        model_type: "aria_text",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(4096)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("num_experts", Size(8)),
            ("num_experts_per_tok", Size(2)), ("n_shared_experts", Size(2)),
        ],
        aliases: &[
            ("num_experts", "moe_num_experts"), ("num_experts_per_tok", "moe_topk"),
            ("n_shared_experts", "moe_num_shared_experts"),
        ],
        refused: &[
            ("mlp_bias", "biases in its shared experts are not planned"),
        ],
        build: Build::Of(&Shape {

            experts: Some(Experts { width: "intermediate_size", shared: Shared::Count("n_shared_experts"), ..EXPERTS }),
            otherwise: UNCOMPARED,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "axk1",
        fields: &[
            ("vocab_size", Size(163_840)), ("hidden_size", Size(7168)), ("intermediate_size", Size(18_432)),
            ("num_hidden_layers", Size(61)), ("num_attention_heads", Size(64)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(32_768)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("q_lora_rank", Size(1536)), ("kv_lora_rank", Size(512)),
            ("qk_nope_head_dim", Size(128)), ("qk_rope_head_dim", Size(64)), ("v_head_dim", Size(128)),
            ("num_experts", Size(192)), ("num_experts_per_tok", Size(8)), ("moe_intermediate_size", Size(2048)),
            ("n_shared_experts", Size(1)), ("mlp_layer_types", Null),
        ],
        aliases: &[
            ("num_experts", "n_routed_experts"),
        ],
        harmless: &[
            "num_key_value_heads", "output_router_logits", "routed_scaling_factor", "n_group", "topk_group",
            "norm_topk_prob", "rope_interleave", "qk_head_dim", "head_dim",
        ],
        build: Build::Of(&Shape {
            projection: Heads::Latent, norms: Norms::BehindExperts, interleaved: true,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), sparse: Sparse::BehindFirst(1), ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "cohere2_moe",
        fields: &[
            ("vocab_size", Size(256_000)), ("hidden_size", Size(8192)), ("intermediate_size", Size(22_528)),
            ("num_hidden_layers", Size(40)), ("num_attention_heads", Size(64)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(8192)),
            ("tie_word_embeddings", Flag(true)), ("attention_bias", Flag(false)),
            ("sliding_window", Size(4096)), ("layer_types", Null), ("sliding_window_pattern", Size(4)),
            ("num_experts", Size(8)), ("num_experts_per_tok", Size(2)), ("num_shared_experts", Size(0)),
            ("mlp_layer_types", Null), ("prefix_dense_intermediate_size", Null),
        ],
        harmless: &[
            "logit_scale", "output_router_logits", "shared_expert_combination_strategy", "expert_selection_fn",
            "prefix_dense_sliding_window_pattern", "norm_topk_prob",
        ],
        build: Build::Of(&Shape {
            norm: NormKind::LayerWithoutBias, norms: Norms::Shared, windows: AllButPattern,
            unrotated: Unrotated::Full, interleaved: true, width: Width::Of("prefix_dense_intermediate_size"),
            experts: Some(Experts { width: "intermediate_size", shared: Shared::Count("num_shared_experts"), ..EXPERTS }),
            epsilon: ("layer_norm_eps", 1e-5), otherwise: FACTORS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "dots1",
        fields: &[
            ("vocab_size", Size(152_064)), ("hidden_size", Size(4608)), ("intermediate_size", Size(10_944)),
            ("num_hidden_layers", Size(62)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(32)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(2048)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("sliding_window", Size(4096)), ("layer_types", Null),
            ("max_window_layers", Size(62)), ("num_experts", Null), ("num_experts_per_tok", Null),
            ("moe_intermediate_size", Size(1408)), ("n_shared_experts", Null),
            ("first_k_dense_replace", Size(0)),
            ("num_nextn_predict_layers", Null),
        ],
        aliases: &[
            ("num_experts", "n_routed_experts"),
        ],
        harmless: &[
            "output_router_logits", "n_group", "topk_group", "norm_topk_prob", "routed_scaling_factor",
        ],
        build: Build::Of(&Shape {
            query_key: HEAD_NORMS, windows: Listed,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), sparse: Sparse::Behind, ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "ernie4_5_moe",
        fields: &[
            ("vocab_size", Size(103_424)), ("hidden_size", Size(2560)), ("intermediate_size", Size(12_288)),
            ("num_hidden_layers", Size(28)), ("num_attention_heads", Size(20)),
            ("num_key_value_heads", Size(4)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(true)),
            ("num_experts", Size(64)), ("num_experts_per_tok", Size(6)), ("moe_intermediate_size", Size(1536)),
            ("n_shared_experts", Size(2)), ("moe_layer_start_index", Size(1)),
            ("moe_layer_end_index", Null), ("moe_layer_interval", Size(1)),
            ("num_nextn_predict_layers", Null),
        ],
        aliases: &[
            ("num_experts", "moe_num_experts"), ("num_experts_per_tok", "moe_k"),
            ("n_shared_experts", "moe_num_shared_experts"),
        ],
        harmless: &[
            "moe_norm_min", "output_router_logits", "router_aux_loss_coef",
        ],
        refused: &[
            ("use_bias", "biases are planned in its dense form only"),
        ],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, interleaved: true, epsilon: EPS5, theta: 5e5,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), sparse: Sparse::Between, ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "exaone_moe",
        fields: &[
            ("vocab_size", Size(102_400)), ("hidden_size", Size(4096)), ("intermediate_size", Size(16_384)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(32)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(2048)), ("tie_word_embeddings", Flag(false)),
            ("sliding_window", Size(4096)), ("layer_types", Null), ("sliding_window_pattern", Size(4)),
            ("num_experts", Size(64)), ("num_experts_per_tok", Size(8)), ("moe_intermediate_size", Size(1024)),
            ("n_shared_experts", Size(1)), ("first_k_dense_replace", Size(1)), ("mlp_layer_types", Null),
            ("num_nextn_predict_layers", Null),
        ],
        aliases: &[
            ("n_shared_experts", "num_shared_experts"),
        ],
        harmless: &[
            "output_router_logits", "norm_topk_prob", "routed_scaling_factor", "n_group", "topk_group",
        ],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, query_key: HEAD_NORMS, windows: AllButPattern,
            unrotated: Unrotated::WithoutWindow, epsilon: EPS5,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), sparse: Sparse::Behind, ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "flex_olmo",
        fields: &[
            ("vocab_size", Size(100_352)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(4096)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("num_experts", Size(7)),
            ("num_experts_per_tok", Size(5)),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "output_router_logits", "router_aux_loss_coef", "norm_topk_prob",
        ],
        build: Build::Of(&Shape {
            norms: Norms::Behind, query_key: ALL_HEADS_NORMS, theta: 5e5,
            experts: Some(Experts { width: "intermediate_size", ..EXPERTS }), otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "flint",
        fields: &[
            ("vocab_size", Size(150_144)), ("hidden_size", Size(2048)), ("intermediate_size", Size(6144)),
            ("num_hidden_layers", Size(49)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(4)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(262_144)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("sliding_window", Size(513)), ("layer_types", Null),
            ("num_experts", Size(256)), ("num_experts_per_tok", Size(6)), ("moe_intermediate_size", Size(512)),
            ("shared_expert_intermediate_size", Size(1024)), ("decoder_sparse_step", Size(1)),
            ("mlp_only_layers", Null),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "norm_topk_prob", "output_router_logits", "router_aux_loss_coef",
        ],
        build: Build::Of(&Shape {
            sinks: true, query_key: HEAD_NORMS, windows: Required,
            experts: Some(Experts { shared: Shared::Width("shared_expert_intermediate_size"), sparse: Sparse::Steps(2), ..EXPERTS }),
            otherwise: UNCOMPARED,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "glm4_moe_lite",
        fields: &[
            ("vocab_size", Size(154_880)), ("hidden_size", Size(2048)), ("intermediate_size", Size(10_240)),
            ("num_hidden_layers", Size(47)), ("num_attention_heads", Size(20)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(202_752)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("q_lora_rank", Size(768)), ("kv_lora_rank", Size(512)),
            ("qk_nope_head_dim", Size(192)), ("qk_rope_head_dim", Size(64)), ("v_head_dim", Size(256)),
            ("num_experts", Size(64)), ("num_experts_per_tok", Size(4)), ("moe_intermediate_size", Size(1536)),
            ("n_shared_experts", Size(1)), ("mlp_layer_types", Null), ("first_k_dense_replace", Size(1)),
            ("num_nextn_predict_layers", Null),
        ],
        aliases: &[
            ("num_experts", "n_routed_experts"),
        ],
        harmless: &[
            "num_key_value_heads", "output_router_logits", "routed_scaling_factor", "n_group", "topk_group",
            "norm_topk_prob", "rope_interleave", "qk_head_dim", "head_dim", "topk_method", "scoring_func",
            "ep_size",
        ],
        build: Build::Of(&Shape {
            projection: Heads::Latent, interleaved: true, epsilon: EPS5,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), sparse: Sparse::Behind, ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "granitemoe",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("num_experts", Size(8)),
            ("num_experts_per_tok", Size(2)),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier",
            "output_router_logits", "router_aux_loss_coef",
        ],
        build: Build::Of(&Shape {
            experts: Some(Experts { width: "intermediate_size", ..EXPERTS }), otherwise: FACTORS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "granitemoeshared",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("num_experts", Size(8)),
            ("num_experts_per_tok", Size(2)), ("shared_intermediate_size", Size(0)),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier",
            "output_router_logits", "router_aux_loss_coef",
        ],
        build: Build::Of(&Shape {

            experts: Some(Experts { width: "intermediate_size", shared: Shared::Width("shared_intermediate_size"), ..EXPERTS }),
            otherwise: FACTORS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "granitemoe_swa",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)),
            ("sliding_window", Size(128)), ("layer_types", Null), ("num_experts", Size(8)),
            ("num_experts_per_tok", Size(2)), ("shared_intermediate_size", Size(0)),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier",
            "output_router_logits", "router_aux_loss_coef", "layer_rope_theta",
        ],
        build: Build::Of(&Shape {
            sinks: true, windows: AllButFirst(4),
            experts: Some(Experts { width: "intermediate_size", shared: Shared::Width("shared_intermediate_size"), ..EXPERTS }),
            otherwise: FACTORS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "hunyuan_v1_moe",
        fields: &[
            ("vocab_size", Size(290_943)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("num_experts", Size(1)),
            ("num_experts_per_tok", Size(1)),
        ],
        aliases: &[
            ("num_experts_per_tok", "moe_topk"), ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "eod_token_id", "output_router_logits",
        ],
        refused: &[
            ("use_cla", "layers that share keys and values are not planned"),
            ("moe_layer_num_skipped", "dense first layers are not planned"),
        ],
        build: Build::Of(&Shape {
            query_key: HEAD_NORMS, epsilon: EPS5,
            experts: Some(Experts { width: "intermediate_size", shared: Shared::One, ..EXPERTS }),
            otherwise: AFTER_ROTATION,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "hy_v3",
        fields: &[
            ("vocab_size", Size(120_832)), ("hidden_size", Size(4096)), ("intermediate_size", Size(13_312)),
            ("num_hidden_layers", Size(80)), ("num_attention_heads", Size(64)),
            ("num_key_value_heads", Size(8)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("num_experts", Size(192)), ("num_experts_per_tok", Size(8)),
            ("moe_intermediate_size", Size(1536)), ("n_shared_experts", Size(1)), ("mlp_layer_types", Null),
            ("num_nextn_predict_layers", Null),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"), ("n_shared_experts", "num_shared_experts"),
        ],
        harmless: &[
            "router_scaling_factor", "enable_moe_fp32_combine", "output_router_logits", "first_k_dense_replace",
        ],
        refused: &[
            ("mlp_bias", "biases beside its experts are not planned"),
        ],
        build: Build::Of(&Shape {
            query_key: HEAD_NORMS, epsilon: EPS5, theta: 11_158_840.0,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), sparse: Sparse::BehindFirst(1), ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "kolibri1",
        fields: &[
            ("vocab_size", Size(128_000)), ("hidden_size", Size(2560)), ("num_hidden_layers", Size(50)),
            ("num_attention_heads", Size(48)), ("num_key_value_heads", Size(4)), ("head_dim", Size(128)),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(262_144)),
            ("tie_word_embeddings", Flag(false)), ("sliding_window", Size(513)), ("layer_types", Null),
            ("num_experts", Size(384)), ("num_experts_per_tok", Size(6)), ("moe_intermediate_size", Size(512)),
            ("shared_expert_intermediate_size", Size(512)),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "norm_topk_prob", "output_router_logits",
        ],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, norms: Norms::Around(On), query_key: HEAD_NORMS,
            windows: AllBut(5),
            experts: Some(Experts { shared: Shared::Width("shared_expert_intermediate_size"), ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "llama4_text",
        fields: &[
            ("vocab_size", Size(202_048)), ("hidden_size", Size(5120)), ("intermediate_size", Size(8192)),
            ("num_hidden_layers", Size(48)), ("num_attention_heads", Size(40)),
            ("num_key_value_heads", Size(8)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("sliding_window", Size(8192)), ("layer_types", Null),
            ("no_rope_layers", Null), ("no_rope_layer_interval", Size(4)), ("use_qk_norm", Flag(true)),
            ("intermediate_size_mlp", Size(16_384)), ("num_experts", Size(16)),
            ("num_experts_per_tok", Size(1)), ("moe_layers", Null), ("interleave_moe_layer_step", Size(1)),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"), ("sliding_window", "attention_chunk_size"),
        ],
        harmless: &[
            "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "attn_temperature_tuning",
            "floor_scale", "attn_scale", "for_llm_compressor",
        ],
        build: Build::Of(&Shape {

            query_key: Some(QueryKey { kind: NormKind::Plain, span: NormSpan::Head, when: Field("use_qk_norm"), rotated: true }),
            windows: Windows::Chunks, unrotated: Unrotated::Listed, interleaved: true,
            width: Width::Of("intermediate_size_mlp"), epsilon: EPS5, theta: 5e5,
            experts: Some(Experts { width: "intermediate_size", shared: Shared::One, sparse: Sparse::Interleaved, ..EXPERTS }),
            otherwise: Some("attention in chunks, planned as a window"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "mellum",
        fields: &[
            ("vocab_size", Size(98_304)), ("hidden_size", Size(2304)), ("intermediate_size", Size(7168)),
            ("num_hidden_layers", Size(28)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(4)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("sliding_window", Size(1024)), ("layer_types", Null),
            ("num_experts", Size(64)), ("num_experts_per_tok", Size(8)), ("moe_intermediate_size", Size(896)),
            ("mlp_layer_types", Null), ("num_nextn_predict_layers", Null),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"), ("num_nextn_predict_layers", "num_mtp_layers"),
        ],
        harmless: &[
            "norm_topk_prob", "output_router_logits", "router_aux_loss_coef", "mtp_layer_types",
            "mtp_mlp_layer_types",
        ],
        build: Build::Of(&Shape {
            query_key: HEAD_NORMS, windows: Listed, experts: Some(EXPERTS), otherwise: TWO_ROTATIONS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "minimax_m2",
        fields: &[
            ("vocab_size", Size(200_064)), ("hidden_size", Size(3072)), ("intermediate_size", Size(1536)),
            ("num_hidden_layers", Size(62)), ("num_attention_heads", Size(48)),
            ("num_key_value_heads", Size(8)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(196_608)), ("tie_word_embeddings", Flag(false)),
            ("num_experts", Size(256)), ("num_experts_per_tok", Size(8)),
            ("num_nextn_predict_layers", Null),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"), ("num_nextn_predict_layers", "num_mtp_modules"),
        ],
        harmless: &[
            "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "rotary_dim", "use_qk_norm",
            "qk_norm_type", "scoring_func", "use_routing_bias", "shared_intermediate_size", "attn_type_list",
            "use_mtp", "mtp_transformer_layers", "layernorm_full_attention_beta",
            "layernorm_linear_attention_beta", "layernorm_mlp_beta",
        ],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, query_key: ALL_HEADS_NORMS, theta: 5e6,
            experts: Some(Experts { width: "intermediate_size", ..EXPERTS }), otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "olmoe",
        fields: &[
            ("vocab_size", Size(50_304)), ("hidden_size", Size(2048)), ("intermediate_size", Size(2048)),
            ("num_hidden_layers", Size(16)), ("num_attention_heads", Size(16)), ("num_key_value_heads", Null),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(4096)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("num_experts", Size(64)),
            ("num_experts_per_tok", Size(8)),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "output_router_logits", "router_aux_loss_coef", "norm_topk_prob",
        ],
        refused: &[
            ("clip_qkv", "clamped queries, keys and values are not planned"),
        ],
        build: Build::Of(&Shape {
            query_key: ALL_HEADS_NORMS, epsilon: EPS5,
            experts: Some(Experts { width: "intermediate_size", ..EXPERTS }), otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "phimoe",
        fields: &[
            ("vocab_size", Size(32_064)), ("hidden_size", Size(4096)), ("intermediate_size", Size(6400)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(8)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("sliding_window", Null), ("lm_head_bias", Flag(false)),
            ("num_experts", Size(16)), ("num_experts_per_tok", Size(2)),
        ],
        aliases: &[
            ("num_experts", "num_local_experts"),
        ],
        harmless: &[
            "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "input_jitter_noise",
        ],
        build: Build::Of(&Shape {
            norm: NormKind::Layer, windows: All, head_bias: Field("lm_head_bias"), epsilon: EPS5, theta: 1e6,
            experts: Some(Experts { width: "intermediate_size", ..EXPERTS }), otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "sarvam_mla",
        fields: &[
            ("vocab_size", Size(262_144)), ("hidden_size", Size(4096)), ("intermediate_size", Size(16_384)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(64)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(4096)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("q_lora_rank", Null), ("kv_lora_rank", Size(512)),
            ("qk_nope_head_dim", Size(128)), ("qk_rope_head_dim", Size(64)), ("v_head_dim", Size(128)),
            ("num_experts", Size(128)), ("num_experts_per_tok", Size(8)), ("moe_intermediate_size", Size(2048)),
            ("n_shared_experts", Size(1)), ("first_k_dense_replace", Size(1)),
            ("num_nextn_predict_layers", Size(0)),
        ],
        aliases: &[
            ("num_experts", "n_routed_experts"), ("num_nextn_predict_layers", "num_mtp_layers"),
            ("n_shared_experts", "num_shared_experts"),
        ],
        harmless: &[
            "num_key_value_heads", "output_router_logits", "routed_scaling_factor", "n_group", "topk_group",
            "norm_topk_prob", "rope_interleave", "qk_head_dim", "head_dim",
        ],
        build: Build::Of(&Shape {
            projection: Heads::Latent, interleaved: true,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), sparse: Sparse::Behind, ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "sarvam_moe",
        fields: &[
            ("vocab_size", Size(262_144)), ("hidden_size", Size(4096)), ("intermediate_size", Size(8192)),
            ("num_hidden_layers", Size(19)), ("num_attention_heads", Size(64)),
            ("num_key_value_heads", Size(4)), ("head_dim", Size(64)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("num_experts", Size(128)), ("num_experts_per_tok", Size(6)),
            ("moe_intermediate_size", Size(1024)), ("use_qk_norm", Flag(true)), ("n_shared_experts", Size(1)),
            ("first_k_dense_replace", Size(1)), ("num_nextn_predict_layers", Size(0)),
        ],
        aliases: &[
            ("num_experts", "n_routed_experts"), ("num_nextn_predict_layers", "num_mtp_layers"),
            ("n_shared_experts", "num_shared_experts"), ("attention_bias", "use_qkv_bias"),
        ],
        harmless: &[
            "output_router_logits", "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob",
        ],
        build: Build::Of(&Shape {
            output_bias: Off,
            query_key: Some(QueryKey { kind: NormKind::Rms, span: NormSpan::Head, when: Field("use_qk_norm"), rotated: false }),
            theta: 8e6,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), sparse: Sparse::Behind, ..EXPERTS }),
            otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "solar_open",
        fields: &[
            ("vocab_size", Size(196_608)), ("hidden_size", Size(4096)), ("num_hidden_layers", Size(48)),
            ("num_attention_heads", Size(64)), ("num_key_value_heads", Size(8)), ("head_dim", Size(128)),
            ("hidden_act", Word("silu")), ("max_position_embeddings", Size(131_072)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("num_experts", Size(128)),
            ("num_experts_per_tok", Size(8)), ("moe_intermediate_size", Size(1280)),
            ("n_shared_experts", Size(1)),
        ],
        aliases: &[
            ("num_experts", "n_routed_experts"),
        ],
        harmless: &[
            "output_router_logits", "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob",
            "intermediate_size",
        ],
        refused: &[
            ("first_k_dense_replace", "its first layers have experts too"),
            ("use_qk_norm", "it has no norms of queries and keys"),
        ],
        build: Build::Of(&Shape {
            output_bias: Off, epsilon: EPS5, theta: 1e6,
            experts: Some(Experts { shared: Shared::Count("n_shared_experts"), ..EXPERTS }), otherwise: ROUTER,
            ..LLAMA
        }),
        ..FAMILY
    },
];
