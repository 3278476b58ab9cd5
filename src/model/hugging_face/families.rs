//! The families: for each `model_type` the fields that shape it with their defaults, those known to be harmless,
//! and those whose use we do not plan for.

use serde_json::{Map, Value};

use super::config::{Config, shown};
use super::{experts, gated, layer_norm};
use crate::model::decoder::Decoder;
use crate::model::error::ModelError;

/// What a field is where the file leaves it out: the default of the family's configuration class.
#[derive(Clone, Copy)]
pub(super) enum Absent {
    Size(u64),
    Flag(bool),
    Word(&'static str),
    /// Nothing, or what the builder derives from other fields.
    Null,
}

use Absent::{Flag, Null, Size, Word};

/// One `model_type`.
pub(super) struct Family {
    pub model_type: &'static str,
    /// Fields that shape the model, each with what it is where absent.
    pub fields: &'static [(&'static str, Absent)],
    /// Other spellings: the name in `fields`, then what files write.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Fields that change neither shapes nor costs.
    pub harmless: &'static [&'static str],
    /// Fields that must be absent, null, false, 0 or empty, each with what to do about it.
    pub refused: &'static [(&'static str, &'static str)],
    /// An object among the fields, with the fields inside.
    pub inner: Option<(&'static str, &'static Self)>,
    pub build: fn(&Config<'_>) -> Result<Decoder, ModelError>,
}

const MULTI_TOKEN: (&str, &str) = (
    "num_nextn_predict_layers",
    "multi-token prediction layers are not planned; set it to 0 to plan the model without them",
);

/// Refused in every family.
#[rustfmt::skip]
const COMMON_REFUSED: &[(&str, &str)] = &[
    ("quantization_config", "training of quantised weights is not planned; remove it to plan the full-precision model"),
    ("compression_config", "training of compressed weights is not planned; remove it to plan the full model"),
    ("vision_config", "a vision tower is not planned; give the object under text_config to plan the text model"),
    ("audio_config", "an audio tower is not planned; give the object under text_config to plan the text model"),
    ("is_encoder_decoder", "only decoders are planned"),
    ("add_cross_attention", "only decoders without cross-attention are planned"),
    ("cross_attention_hidden_size", "only decoders without cross-attention are planned"),
    ("pruned_heads", "pruned heads are not planned; remove it to plan the whole model"),
];

/// Harmless in every family: bookkeeping, tokens, generation, initialisation, dropout, positions' constants.
#[rustfmt::skip]
pub(super) const COMMON_HARMLESS: &[&str] = &[
    "model_type", "architectures", "auto_map", "transformers_version", "torch_dtype", "dtype", "use_cache",
    "_name_or_path", "name_or_path", "_commit_hash", "_attn_implementation", "attn_implementation",
    "_attn_implementation_autoset", "id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
    "task_specific_params", "tokenizer_class", "prefix", "output_attentions", "output_hidden_states",
    "return_dict", "torchscript", "use_bfloat16", "tf_legacy_loss", "chunk_size_feed_forward", "is_decoder",
    "tie_encoder_decoder", "gradient_checkpointing", "bos_token_id", "eos_token_id", "pad_token_id",
    "unk_token_id", "sep_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
    "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
    "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences",
    "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
    "output_scores", "return_dict_in_generate", "initializer_range", "init_std", "attention_dropout",
    "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "rope_theta", "rope_scaling",
    "rope_parameters", "partial_rotary_factor", "rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
    "pretraining_tp", "quantization_config", "compression_config", "vision_config", "audio_config",
    "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size", "pruned_heads", "text_config",
];

/// Harmless beside a `text_config`.
#[rustfmt::skip]
pub(super) const OUTER_HARMLESS: &[&str] = &[
    "mm_tokens_per_image", "boi_token_index", "eoi_token_index", "image_token_index", "image_token_id",
    "boi_token_id", "eoi_token_id", "tie_word_embeddings",
];

/// That no refused field is in use.
pub(super) fn refuse(
    fields: &Map<String, Value>,
    of_family: &[(&'static str, &'static str)],
) -> Result<(), ModelError> {
    for (field, remedy) in COMMON_REFUSED.iter().chain(of_family) {
        let idle = match fields.get(*field) {
            None | Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::Bool(true) | Value::String(_)) => false,
            Some(Value::Number(number)) => number.as_f64() == Some(0.0),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Object(inner)) => inner.is_empty(),
        };
        if !idle {
            let value = shown(&fields[*field]);
            let (field, remedy) = ((*field).to_owned(), (*remedy).to_owned());
            return Err(ModelError::Unsupported { field, value, remedy });
        }
    }
    Ok(())
}

/// What most families leave empty.
const FAMILY: Family = Family {
    model_type: "",
    fields: &[],
    aliases: &[],
    harmless: &[],
    refused: &[],
    inner: None,
    build: gated::llama,
};

/// The object `attn_config` of MPT.
#[rustfmt::skip]
static MPT_ATTENTION: Family = Family {
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

/// All families, in the order in which they are listed to people.
#[rustfmt::skip]
pub(super) static FAMILIES: &[Family] = &[
    Family {
        model_type: "gpt2",
        fields: &[
            ("vocab_size", Size(50_257)), ("max_position_embeddings", Size(1024)), ("hidden_size", Size(768)),
            ("num_hidden_layers", Size(12)), ("num_attention_heads", Size(12)), ("n_inner", Null),
            ("activation_function", Word("gelu_new")), ("tie_word_embeddings", Flag(true)),
        ],
        aliases: &[
            ("hidden_size", "n_embd"), ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer"),
        ],
        harmless: &[
            "n_ctx", "summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels",
            "summary_first_dropout", "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
            "reorder_and_upcast_attn",
        ],
        build: layer_norm::gpt2,
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
        build: layer_norm::gpt_neox,
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
        build: layer_norm::opt,
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
        build: layer_norm::bloom,
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
        build: layer_norm::falcon,
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
        build: layer_norm::mpt,
    },
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
        build: gated::llama,
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
        build: gated::mistral,
        ..FAMILY
    },
    Family {
        model_type: "mixtral",
        fields: &[
            ("vocab_size", Size(32_000)), ("hidden_size", Size(4096)), ("intermediate_size", Size(14_336)),
            ("num_hidden_layers", Size(32)), ("num_attention_heads", Size(32)), ("num_key_value_heads", Size(8)),
            ("head_dim", Null), ("hidden_act", Word("silu")), ("max_position_embeddings", Size(131_072)),
            ("tie_word_embeddings", Flag(false)), ("sliding_window", Null), ("layer_types", Null),
            ("num_experts_per_tok", Size(2)), ("num_local_experts", Size(8)),
        ],
        harmless: &["output_router_logits", "router_aux_loss_coef", "router_jitter_noise"],
        build: experts::mixtral,
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
        build: gated::qwen2,
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
        build: gated::qwen3,
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
        harmless: &["max_window_layers", "norm_topk_prob", "output_router_logits", "router_aux_loss_coef"],
        build: experts::qwen3_moe,
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
        build: gated::gemma,
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
        build: gated::gemma2,
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
        refused: &[("use_bidirectional_attention", "only causal attention is planned")],
        build: gated::gemma3,
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
        build: gated::mistral,
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
        ],
        aliases: &[("num_experts_per_tok", "experts_per_token")],
        harmless: &[
            "attention_bias", "initial_context_length", "swiglu_limit", "output_router_logits",
            "router_aux_loss_coef", "ntk_alpha", "ntk_beta", "rope_scaling_factor",
        ],
        build: experts::gpt_oss,
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
        ],
        harmless: &["routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob", "topk_method",
            "scoring_func"],
        refused: &[MULTI_TOKEN],
        build: experts::glm4_moe,
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
        ],
        harmless: DEEPSEEK_HARMLESS,
        refused: &[MULTI_TOKEN, ("mlp_bias", "biases in its MLPs are not planned")],
        build: experts::deepseek,
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
            ("attention_bias", Flag(false)),
        ],
        harmless: DEEPSEEK_HARMLESS,
        refused: &[MULTI_TOKEN],
        build: experts::deepseek,
        ..FAMILY
    },
];

/// Routing rules, auxiliary losses and bookkeeping; latent attention has as many key-value heads as heads.
#[rustfmt::skip]
const DEEPSEEK_HARMLESS: &[&str] = &[
    "num_key_value_heads", "head_dim", "routed_scaling_factor", "n_group", "topk_group", "topk_method",
    "scoring_func", "norm_topk_prob", "aux_loss_alpha", "seq_aux", "ep_size", "rope_interleave",
    "qk_head_dim",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_stands_in_two_lists_of_a_family() {
        for family in FAMILIES.iter().chain([&MPT_ATTENTION]) {
            let mut names: Vec<&str> = family.fields.iter().map(|(name, _)| *name).collect();
            names.extend(family.aliases.iter().map(|(_, alias)| alias));
            names.extend(family.harmless);
            names.extend(family.refused.iter().map(|(name, _)| name));
            names.extend(COMMON_HARMLESS);
            let count = names.len();
            names.sort_unstable();
            let repeated = names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
            names.dedup();
            assert_eq!(names.len(), count, "{}: {repeated:?} stands twice", family.model_type);
        }
    }

    #[test]
    fn every_family_builds_from_its_defaults() {
        for family in FAMILIES {
            let mut fields = Map::new();
            fields.insert("model_type".to_owned(), family.model_type.into());
            // These two have no default that makes a model.
            match family.model_type {
                "deepseek_v2" => fields.insert("num_experts_per_tok".to_owned(), 6.into()),
                "glm4_moe" => fields.insert("head_dim".to_owned(), 128.into()),
                _ => None,
            };
            let model = super::super::import(&Value::Object(fields), family.model_type);
            let model = model.unwrap_or_else(|error| panic!("{}: {error}", family.model_type));
            assert!(model.parameter_count() > 0);
            assert_eq!(model.warnings.len(), 1, "{:?}", model.warnings);
        }
    }
}
