//! The rows of dense families that are a shape, with gated MLPs or of their kin.

use super::{
    Absent::{Flag, Null, Size, Word},
    Build, FAMILY, Family,
};
use crate::model::hugging_face::shape::{
    ALL_HEADS_NORMS, HEAD_NORMS, Heads, LLAMA, Norms, QueryKey, Shape,
    Switch::{Field, Off, On},
    Unrotated,
    Windows::{self, All, AllBut, AllButFirst, AllButPattern},
};
use crate::model::layer::{NormKind, NormSpan};

const EPS5: (&str, f64) = ("rms_norm_eps", 1e-5);

const FACTORS: Option<&str> = Some("factors of its residual stream, scores or logits");

const AFTER_ROTATION: Option<&str> = Some("norms of queries and keys behind their rotation");

const SCALED_QUERIES: Option<&str> = Some("queries that grow with their place");

const TWO_ROTATIONS: Option<&str> = Some("rotary positions of their own in layers with windows");

/// Norms without weights.
const PLAIN_NORMS: Option<QueryKey> =
    Some(QueryKey { kind: NormKind::Plain, span: NormSpan::Head, when: On, rotated: false });

/// In the order in which they are listed to people.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family {
        model_type: "arcee",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(2560)), ("intermediate_size", Size(18_432)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("relu2")), ("max_position_embeddings", Size(4096)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
        ],
        build: Build::Of(&Shape {
            gated: false, mlp_bias: Field("mlp_bias"), epsilon: EPS5,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "cwm",
        fields: &[
            ("vocab_size", Size(128_256)), ("hidden_size", Size(6144)), ("intermediate_size", Size(21_504)),
            ("num_hidden_layers", Size(64)), ("num_attention_heads", Size(48)),
            ("num_key_value_heads", Size(8)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("sliding_window", Size(8192)), ("layer_types", Null), ("mlp_bias", Flag(false)),
        ],
        refused: &[
            ("attention_bias", "it has no biases"),
        ],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, mlp_bias: Field("mlp_bias"), windows: AllButFirst(4), epsilon: EPS5, theta: 1e6,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "ernie4_5",
        fields: &[
            ("vocab_size", Size(103_424)), ("hidden_size", Size(1024)), ("intermediate_size", Size(3072)),
            ("num_hidden_layers", Size(18)), ("num_attention_heads", Size(16)),
            ("num_key_value_heads", Size(2)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(true)),
            ("use_bias", Flag(false)),
        ],
        build: Build::Of(&Shape {
            input_bias: Field("use_bias"), output_bias: Field("use_bias"), mlp_bias: Field("use_bias"),
            epsilon: EPS5, theta: 5e5, interleaved: true,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "exaone",
        fields: &[
            ("vocab_size", Size(102_400)), ("hidden_size", Size(4096)), ("intermediate_size", Size(14_336)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(8)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(4096)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
        ],
        aliases: &[
            ("num_hidden_layers", "num_layers"), ("hidden_act", "activation_function"),
            ("rms_norm_eps", "layer_norm_epsilon"),
        ],
        harmless: &[
            "embed_dropout",
        ],
        build: Build::Of(&Shape {
            mlp_bias: Field("mlp_bias"), epsilon: EPS5, theta: 5e5,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "exaone4",
        fields: &[
            ("vocab_size", Size(102_400)), ("hidden_size", Size(4096)), ("intermediate_size", Size(16_384)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(32)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(2048)), ("tie_word_embeddings", Flag(false)),
            ("sliding_window", Size(4096)), ("layer_types", Null), ("sliding_window_pattern", Size(4)),
        ],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, norms: Norms::Behind, query_key: HEAD_NORMS,
            windows: AllButPattern, unrotated: Unrotated::WithoutWindow, epsilon: EPS5,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "glm",
        fields: &[
            ("vocab_size", Size(151_552)), ("hidden_size", Size(4096)), ("intermediate_size", Size(13_696)),
            ("num_hidden_layers", Size(40)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(2)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(true)),
        ],
        build: Build::Of(&Shape {
            output_bias: Off, share: 0.5, interleaved: true, epsilon: ("rms_norm_eps", 1.5625e-7),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "helium",
        fields: &[
            ("vocab_size", Size(48_000)), ("hidden_size", Size(2560)), ("intermediate_size", Size(7040)),
            ("num_hidden_layers", Size(24)), ("num_attention_heads", Size(20)),
            ("num_key_value_heads", Size(20)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(4096)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
        ],
        build: Build::Of(&Shape {
            output_bias: Off, mlp_bias: Field("mlp_bias"), interleaved: true, epsilon: ("rms_norm_eps", 1e-8),
            theta: 1e5,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "hunyuan_v1_dense",
        fields: &[
            ("vocab_size", Size(290_943)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)),
        ],
        harmless: &[
            "eod_token_id", "use_qk_norm", "attention_head_dim", "org_vocab_size", "use_rotary_pos_emb",
            "norm_type", "cla_share_factor",
        ],
        refused: &[
            ("use_cla", "layers that share keys and values are not planned"),
        ],
        build: Build::Of(&Shape {
            query_key: HEAD_NORMS, epsilon: EPS5, otherwise: AFTER_ROTATION,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "hyperclovax",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
            ("use_post_norm", Flag(true)),
        ],
        harmless: &[
            "embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier",
        ],
        build: Build::Of(&Shape {
            mlp_bias: Field("mlp_bias"), norms: Norms::Around(Field("use_post_norm")), otherwise: FACTORS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "internlm3",
        fields: &[
            ("vocab_size", Size(128_512)), ("hidden_size", Size(4096)), ("intermediate_size", Size(10_240)),
            ("num_hidden_layers", Size(48)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(2)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(32_768)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
        ],
        aliases: &[
            ("attention_bias", "qkv_bias"), ("mlp_bias", "bias"),
        ],
        build: Build::Of(&Shape {
            mlp_bias: Field("mlp_bias"), epsilon: EPS5,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "iquestcoder",
        fields: &[
            ("vocab_size", Size(76_800)), ("hidden_size", Size(5120)), ("intermediate_size", Size(27_648)),
            ("num_hidden_layers", Size(80)), ("num_attention_heads", Size(40)),
            ("num_key_value_heads", Size(8)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
        ],
        refused: &[
            ("clip_qkv", "clamped queries, keys and values are not planned"),
        ],
        build: Build::Of(&Shape {
            mlp_bias: Field("mlp_bias"), epsilon: EPS5,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "ministral",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(14_336)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(8)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(false)),
            ("sliding_window", Size(4096)), ("layer_types", Null),
        ],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, windows: All,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "ministral3",
        fields: &[
            ("vocab_size", Size(131_072)), ("hidden_size", Size(4096)), ("intermediate_size", Size(14_336)),
            ("num_hidden_layers", Size(34)), ("num_attention_heads", Size(32)),
            ("num_key_value_heads", Size(8)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(262_144)), ("tie_word_embeddings", Flag(false)),
            ("sliding_window", Null), ("layer_types", Null),
        ],
        build: Build::Of(&Shape {
            input_bias: Off, output_bias: Off, windows: All, epsilon: EPS5, theta: 1e6,
            otherwise: SCALED_QUERIES,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "nanochat",
        fields: &[
            ("vocab_size", Size(50_304)), ("hidden_size", Size(768)), ("intermediate_size", Size(8192)),
            ("num_hidden_layers", Size(12)), ("num_attention_heads", Size(6)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("relu2")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)),
            ("final_logit_softcapping", Flag(true)),
        ],
        build: Build::Of(&Shape {
            norm: NormKind::Plain, gated: false, query_key: PLAIN_NORMS,
            otherwise: Some("RMS norms without weights, and one more behind the embedding"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "olmo",
        fields: &[
            ("vocab_size", Size(50_304)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)),
        ],
        refused: &[
            ("clip_qkv", "clamped queries, keys and values are not planned"),
        ],
        build: Build::Of(&Shape {
            norm: NormKind::Plain,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "olmo3",
        fields: &[
            ("vocab_size", Size(50_304)), ("hidden_size", Size(4096)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(2048)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)),
            ("sliding_window", Size(4096)), ("layer_types", Null),
        ],
        build: Build::Of(&Shape {
            norms: Norms::Behind, query_key: ALL_HEADS_NORMS, windows: AllBut(4), epsilon: EPS5, theta: 5e5,
            otherwise: TWO_ROTATIONS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "seed_oss",
        fields: &[
            ("vocab_size", Size(155_136)), ("hidden_size", Size(4096)), ("intermediate_size", Size(27_648)),
            ("num_hidden_layers", Size(64)), ("num_attention_heads", Size(80)),
            ("num_key_value_heads", Size(8)), ("head_dim", Size(128)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(524_288)), ("tie_word_embeddings", Flag(false)),
            ("attention_bias", Flag(true)), ("attention_out_bias", Flag(false)), ("mlp_bias", Flag(false)),
        ],
        harmless: &[
            "residual_dropout",
        ],
        build: Build::Of(&Shape {
            output_bias: Field("attention_out_bias"), mlp_bias: Field("mlp_bias"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "smollm3",
        fields: &[
            ("vocab_size", Size(128_256)), ("hidden_size", Size(2048)), ("intermediate_size", Size(11_008)),
            ("num_hidden_layers", Size(36)), ("num_attention_heads", Size(16)),
            ("num_key_value_heads", Size(4)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(32_768)), ("tie_word_embeddings", Flag(true)),
            ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)), ("use_sliding_window", Flag(false)),
            ("no_rope_layers", Null), ("no_rope_layer_interval", Size(4)), ("sliding_window", Null),
            ("layer_types", Null),
        ],
        harmless: &[
            "max_window_layers",
        ],
        build: Build::Of(&Shape {
            mlp_bias: Field("mlp_bias"), windows: Windows::Unrotated, unrotated: Unrotated::Listed, theta: 2e6,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "vaultgemma",
        fields: &[
            ("vocab_size", Size(256_000)), ("hidden_size", Size(2304)), ("intermediate_size", Size(9216)),
            ("num_hidden_layers", Size(26)), ("num_attention_heads", Size(8)), ("num_key_value_heads", Size(4)),
            ("head_dim", Size(256)), ("hidden_act", Word("gelu_pytorch_tanh")),
            ("max_position_embeddings", Size(8192)), ("tie_word_embeddings", Flag(true)),
            ("attention_bias", Flag(false)), ("sliding_window", Size(4096)), ("layer_types", Null),
            ("final_logit_softcapping", Flag(true)), ("attn_logit_softcapping", Flag(true)),
        ],
        aliases: &[
            ("hidden_act", "hidden_activation"),
        ],
        harmless: &[
            "query_pre_attn_scalar",
        ],
        build: Build::Of(&Shape {
            windows: AllBut(2), otherwise: Some("scaled embeddings and norm weights less 1"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "granite_swa",
        fields: &[
            ("vocab_size", Size(100_352)), ("hidden_size", Size(2560)), ("intermediate_size", Size(8192)),
            ("num_hidden_layers", Size(24)), ("num_attention_heads", Size(20)),
            ("num_key_value_heads", Size(4)), ("head_dim", Null), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(8192)), ("tie_word_embeddings", Flag(true)),
            ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)), ("sliding_window", Size(128)),
            ("layer_types", Null),
        ],
        harmless: &[
            "embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier",
            "layer_rope_theta",
        ],
        build: Build::Of(&Shape {
            mlp_bias: Field("mlp_bias"), sinks: true, windows: AllButFirst(4), epsilon: EPS5,
            otherwise: FACTORS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "minicpm3",
        fields: &[
            ("vocab_size", Size(73_448)), ("hidden_size", Size(2560)), ("intermediate_size", Size(6400)),
            ("num_hidden_layers", Size(62)), ("num_attention_heads", Size(40)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(32_768)), ("tie_word_embeddings", Flag(true)),
            ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)), ("q_lora_rank", Size(768)),
            ("kv_lora_rank", Size(256)), ("qk_nope_head_dim", Size(64)), ("qk_rope_head_dim", Size(32)),
            ("v_head_dim", Size(64)),
        ],
        harmless: &[
            "num_key_value_heads", "head_dim", "scale_emb", "scale_depth", "dim_model_base", "qk_head_dim",
        ],
        build: Build::Of(&Shape {
            projection: Heads::Latent, mlp_bias: Field("mlp_bias"), epsilon: EPS5, otherwise: FACTORS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "youtu",
        fields: &[
            ("vocab_size", Size(128_256)), ("hidden_size", Size(2048)), ("intermediate_size", Size(6144)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(16)), ("hidden_act", Word("silu")),
            ("max_position_embeddings", Size(131_072)), ("tie_word_embeddings", Flag(true)),
            ("attention_bias", Flag(false)), ("q_lora_rank", Size(1536)), ("kv_lora_rank", Size(512)),
            ("qk_nope_head_dim", Size(128)), ("qk_rope_head_dim", Size(64)), ("v_head_dim", Size(128)),
        ],
        harmless: &[
            "num_key_value_heads", "rope_interleave", "embedding_initializer_range", "qk_head_dim", "head_dim",
        ],
        build: Build::Of(&Shape {
            projection: Heads::Latent, interleaved: true,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "cohere2",
        fields: &[
            ("vocab_size", Size(256_000)), ("hidden_size", Size(8192)), ("intermediate_size", Size(22_528)),
            ("num_hidden_layers", Size(40)), ("num_attention_heads", Size(64)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(8192)),
            ("tie_word_embeddings", Flag(true)), ("attention_bias", Flag(false)),
            ("sliding_window", Size(4096)), ("layer_types", Null), ("sliding_window_pattern", Size(4)),
        ],
        harmless: &[
            "logit_scale", "cache_implementation", "use_embedding_sharing", "use_gated_activation",
            "use_parallel_block", "use_parallel_embedding", "order_of_interleaved_layers", "rotary_pct",
            "position_embedding_type", "layer_switch",
        ],
        refused: &[
            ("use_qk_norm", "norms of queries and keys with weights of each head are not planned"),
        ],
        build: Build::Of(&Shape {
            norm: NormKind::LayerWithoutBias, norms: Norms::Shared, windows: AllButPattern,
            unrotated: Unrotated::Full, interleaved: true, epsilon: ("layer_norm_eps", 1e-5),
            otherwise: FACTORS,
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "nemotron",
        fields: &[
            ("vocab_size", Size(256_000)), ("hidden_size", Size(6144)), ("intermediate_size", Size(24_576)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(48)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("relu2")), ("max_position_embeddings", Size(4096)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(false)), ("mlp_bias", Flag(false)),
        ],
        harmless: &[
            "norm_eps", "rope_percent",
        ],
        build: Build::Of(&Shape {
            norm: NormKind::Layer, gated: false, mlp_bias: Field("mlp_bias"), share: 0.5,
            epsilon: ("norm_eps", 1e-5), otherwise: Some("norm weights less 1"),
            ..LLAMA
        }),
        ..FAMILY
    },
    Family {
        model_type: "jais2",
        fields: &[
            ("vocab_size", Size(150_272)), ("hidden_size", Size(3328)), ("intermediate_size", Size(26_624)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(26)), ("num_key_value_heads", Null),
            ("head_dim", Null), ("hidden_act", Word("relu2")), ("max_position_embeddings", Size(8192)),
            ("tie_word_embeddings", Flag(false)), ("attention_bias", Flag(true)), ("mlp_bias", Flag(true)),
        ],
        build: Build::Of(&Shape {
            norm: NormKind::Layer, gated: false, mlp_bias: Field("mlp_bias"), epsilon: ("layer_norm_eps", 1e-5),
            ..LLAMA
        }),
        ..FAMILY
    },
];
