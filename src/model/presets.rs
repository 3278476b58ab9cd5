//! Models by name: published configurations, each with its source. Those not written here are files in `presets/`.

use super::error::ModelError;
use super::graph::Model;
use super::hugging_face::MultiToken;
use super::source::from_text_with;

/// A model that can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// Where the configuration was published.
    pub source: &'static str,
    /// The fields of its `config.json` that shape it.
    config: &'static str,
}

impl Preset {
    /// The model itself.
    ///
    /// # Errors
    /// None for the presets of this crate, which a test builds one by one.
    pub fn model(&self) -> Result<Model, ModelError> {
        self.model_with(MultiToken::LeftOut)
    }

    /// The same, with or without its multi-token prediction layers.
    pub(super) fn model_with(&self, multi_token: MultiToken) -> Result<Model, ModelError> {
        from_text_with(self.config, self.name, self.name, multi_token)
    }
}

/// All presets, in the order in which they are listed to people.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// The preset called `name`.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

const MEGATRON: &str = "Korthikanti et al. 2022, table 3 (V = 51200, s = 2048, f = 4h)";

macro_rules! gpt2 {
    ($embd:literal, $layers:literal, $heads:literal) => {
        gpt2!($embd, $layers, $heads, 50257, 1024, "gelu_new")
    };
    ($embd:literal, $layers:literal, $heads:literal, $vocabulary:literal, $positions:literal, $act:literal) => {
        concat!(
            r#"{"model_type":"gpt2","n_embd":"#,
            $embd,
            r#","n_layer":"#,
            $layers,
            r#","n_head":"#,
            $heads,
            r#","vocab_size":"#,
            $vocabulary,
            r#","n_positions":"#,
            $positions,
            r#","activation_function":""#,
            $act,
            r#""}"#
        )
    };
}

macro_rules! llama {
    ($hidden:literal, $layers:literal, $heads:literal, $kv:literal, $inner:literal, 32000) => {
        llama!($hidden, $layers, $heads, $kv, $inner, 32000, 4096, r#""rope_theta":10000.0"#)
    };
    ($hidden:literal, $layers:literal, $heads:literal, $kv:literal, $inner:literal, 128256) => {
        llama!(
            $hidden,
            $layers,
            $heads,
            $kv,
            $inner,
            128256,
            131072,
            r#""rope_theta":500000.0,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,
"high_freq_factor":4.0,"original_max_position_embeddings":8192}"#
        )
    };
    ($hidden:literal, $layers:literal, $heads:literal, $kv:literal, $inner:literal, $vocabulary:literal, $positions:literal, $rotary:literal) => {
        concat!(
            r#"{"model_type":"llama","hidden_size":"#,
            $hidden,
            r#","num_hidden_layers":"#,
            $layers,
            r#","num_attention_heads":"#,
            $heads,
            r#","num_key_value_heads":"#,
            $kv,
            r#","intermediate_size":"#,
            $inner,
            r#","vocab_size":"#,
            $vocabulary,
            r#","max_position_embeddings":"#,
            $positions,
            r#","hidden_act":"silu","tie_word_embeddings":false,"rms_norm_eps":1e-5,"#,
            $rotary,
            "}"
        )
    };
}

macro_rules! qwen2 {
    ($hidden:literal, $layers:literal, $heads:literal, $kv:literal, $inner:literal, $vocabulary:literal, $windows:literal) => {
        concat!(
            r#"{"model_type":"qwen2","hidden_size":"#,
            $hidden,
            r#","num_hidden_layers":"#,
            $layers,
            r#","num_attention_heads":"#,
            $heads,
            r#","num_key_value_heads":"#,
            $kv,
            r#","intermediate_size":"#,
            $inner,
            r#","vocab_size":"#,
            $vocabulary,
            r#","max_position_embeddings":131072,"hidden_act":"silu","tie_word_embeddings":false"#,
            r#","rope_theta":1000000.0,"use_sliding_window":false,"sliding_window":131072,"max_window_layers":"#,
            $windows,
            "}"
        )
    };
}

const MISTRAL: &str = r#"{"model_type":"mistral","hidden_size":4096,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,
"max_position_embeddings":32768,"sliding_window":4096,"hidden_act":"silu","tie_word_embeddings":false,
"rms_norm_eps":1e-5,"rope_theta":10000.0}"#;

const MIXTRAL: &str = r#"{"model_type":"mixtral","hidden_size":4096,"num_hidden_layers":32,
"num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,
"max_position_embeddings":32768,"sliding_window":null,"hidden_act":"silu","tie_word_embeddings":false,
"num_local_experts":8,"num_experts_per_tok":2,"rms_norm_eps":1e-5,"rope_theta":1000000.0}"#;

const QWEN3: &str = r#"{"model_type":"qwen3_moe","hidden_size":4096,"num_hidden_layers":94,
"num_attention_heads":64,"num_key_value_heads":4,"head_dim":128,"intermediate_size":12288,"vocab_size":151936,
"max_position_embeddings":40960,"use_sliding_window":false,"sliding_window":null,"hidden_act":"silu",
"tie_word_embeddings":false,"attention_bias":false,"num_experts":128,"num_experts_per_tok":8,
"moe_intermediate_size":1536,"decoder_sparse_step":1,"mlp_only_layers":[],
"norm_topk_prob":true,"rms_norm_eps":1e-6,"rope_theta":1000000.0}"#;

const DEEPSEEK: &str = r#"{"model_type":"deepseek_v3","hidden_size":7168,"num_hidden_layers":61,
"num_attention_heads":128,"intermediate_size":18432,"vocab_size":129280,"max_position_embeddings":163840,
"q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,
"n_routed_experts":256,"num_experts_per_tok":8,"n_shared_experts":1,"moe_intermediate_size":2048,
"first_k_dense_replace":3,"moe_layer_freq":1,"hidden_act":"silu","attention_bias":false,
"tie_word_embeddings":false,"num_nextn_predict_layers":1,"rms_norm_eps":1e-6,"rope_theta":10000,
"rope_scaling":{"type":"yarn","factor":40,"original_max_position_embeddings":4096,"beta_fast":32,"beta_slow":1,
"mscale":1.0,"mscale_all_dim":1.0},"scoring_func":"sigmoid","topk_method":"noaux_tc","n_group":8,"topk_group":4,
"norm_topk_prob":true,"routed_scaling_factor":2.5}"#;

const BLOOM: &str = r#"{"model_type":"bloom","n_embed":14336,"n_layer":70,"num_attention_heads":112,
"vocab_size":250880,"seq_length":2048}"#;

const GPT2_SOURCE: &str = "Radford et al. 2019 and the config.json of openai-community on Hugging Face";
const LLAMA2_SOURCE: &str = "Touvron et al. 2023 (Llama 2) and the config.json of meta-llama on Hugging Face";
const LLAMA3_SOURCE: &str = "Llama team 2024, table 3, and the config.json of meta-llama on Hugging Face";
const LLAMA32_SOURCE: &str =
    "Llama team 2024 (Llama 3.2 and 3.3) and the config.json of meta-llama on Hugging Face";
const MISTRAL_SOURCE: &str = "Jiang et al. 2023 and the config.json of mistralai on Hugging Face";
const MIXTRAL_SOURCE: &str = "Jiang et al. 2024 and the config.json of mistralai on Hugging Face";
const QWEN2_SOURCE: &str = "Qwen team 2024 (Qwen2.5) and the config.json of Qwen on Hugging Face";
const QWEN3_SOURCE: &str = "Qwen team 2025 (Qwen3) and the config.json of Qwen on Hugging Face";
const GEMMA_SOURCE: &str =
    "Gemma team 2024 (Gemma 2), table 1, and the config.json of google on Hugging Face";
const PHI_SOURCE: &str = "Abdin et al. 2024 (Phi-3) and the config.json of microsoft on Hugging Face";
const GPT_OSS_SOURCE: &str = "OpenAI 2025 (gpt-oss), table 1, and the config.json of openai on Hugging Face";
const DEEPSEEK_SOURCE: &str = "DeepSeek-AI 2024 (V3) and the config.json of deepseek-ai on Hugging Face";
const BLOOM_SOURCE: &str = "BigScience 2022 and the config.json of bigscience on Hugging Face";
const GPT3_SOURCE: &str = "Brown et al. 2020, table 2.1; dense attention in every layer";

const fn row(
    name: &'static str,
    description: &'static str,
    source: &'static str,
    config: &'static str,
) -> Preset {
    Preset { name, description, source, config }
}

/// A row whose configuration is the file of its name.
macro_rules! file {
    ($name:literal, $description:literal, $source:expr) => {
        row($name, $description, $source, include_str!(concat!("presets/", $name, ".json")))
    };
}

#[rustfmt::skip]
const PRESETS: &[Preset] = &[
    row("gpt2", "GPT-2 small, 124M", GPT2_SOURCE, gpt2!(768, 12, 12)),
    row("gpt2-medium", "GPT-2 medium, 355M", GPT2_SOURCE, gpt2!(1024, 24, 16)),
    row("gpt2-large", "GPT-2 large, 774M", GPT2_SOURCE, gpt2!(1280, 36, 20)),
    row("gpt2-xl", "GPT-2 XL, 1.6B", GPT2_SOURCE, gpt2!(1600, 48, 25)),
    row("gpt3-175b", "GPT-3", GPT3_SOURCE, gpt2!(12288, 96, 96, 50257, 2048, "gelu_new")),
    row("megatron-22b", "Megatron GPT, 22B", MEGATRON, gpt2!(6144, 48, 64, 51200, 2048, "gelu")),
    row("megatron-175b", "Megatron GPT, 175B", MEGATRON, gpt2!(12288, 96, 96, 51200, 2048, "gelu")),
    row("megatron-530b", "Megatron GPT, 530B (MT-NLG)", MEGATRON, gpt2!(20480, 105, 128, 51200, 2048, "gelu")),
    row("megatron-1t", "Megatron GPT, 1T", MEGATRON, gpt2!(25600, 128, 160, 51200, 2048, "gelu")),
    row("llama-2-7b", "Llama 2, 7B", LLAMA2_SOURCE, llama!(4096, 32, 32, 32, 11008, 32000)),
    row("llama-2-13b", "Llama 2, 13B", LLAMA2_SOURCE, llama!(5120, 40, 40, 40, 13824, 32000)),
    row("llama-2-70b", "Llama 2, 70B", LLAMA2_SOURCE, llama!(8192, 80, 64, 8, 28672, 32000)),
    row("llama-3.1-8b", "Llama 3.1, 8B", LLAMA3_SOURCE, llama!(4096, 32, 32, 8, 14336, 128256)),
    row("llama-3.1-70b", "Llama 3.1, 70B", LLAMA3_SOURCE, llama!(8192, 80, 64, 8, 28672, 128256)),
    row("llama-3.1-405b", "Llama 3.1, 405B", LLAMA3_SOURCE, llama!(16384, 126, 128, 8, 53248, 128256)),
    file!("llama-3.2-1b", "Llama 3.2, 1B, tied embeddings", LLAMA32_SOURCE),
    file!("llama-3.2-3b", "Llama 3.2, 3B, tied embeddings", LLAMA32_SOURCE),
    file!("llama-3.3-70b", "Llama 3.3, 70B, in sizes as 3.1", LLAMA32_SOURCE),
    row("mistral-7b", "Mistral 7B v0.1, sliding window of 4096", MISTRAL_SOURCE, MISTRAL),
    row("mixtral-8x7b", "Mixtral, 8 experts, 2 a token", MIXTRAL_SOURCE, MIXTRAL),
    row("qwen2.5-7b", "Qwen 2.5, 7B", QWEN2_SOURCE, qwen2!(3584, 28, 28, 4, 18944, 152064, 28)),
    file!("qwen2.5-14b", "Qwen 2.5, 14B", QWEN2_SOURCE),
    file!("qwen2.5-32b", "Qwen 2.5, 32B", QWEN2_SOURCE),
    row("qwen2.5-72b", "Qwen 2.5, 72B", QWEN2_SOURCE, qwen2!(8192, 80, 64, 8, 29568, 152064, 80)),
    file!("qwen3-8b", "Qwen 3, 8B", QWEN3_SOURCE),
    file!("qwen3-32b", "Qwen 3, 32B", QWEN3_SOURCE),
    file!("qwen3-30b-a3b", "Qwen 3 MoE, 30B, 128 experts, 8 a token", QWEN3_SOURCE),
    row("qwen3-235b-a22b", "Qwen 3 MoE, 128 experts, 8 a token", QWEN3_SOURCE, QWEN3),
    file!("gemma-2-9b", "Gemma 2, 9B, windows of 4096 in every second layer", GEMMA_SOURCE),
    file!("gemma-2-27b", "Gemma 2, 27B, windows of 4096 in every second layer", GEMMA_SOURCE),
    file!("phi-3-medium", "Phi-3 medium (4k), 14B, sliding window of 2047", PHI_SOURCE),
    file!("gpt-oss-20b", "gpt-oss, 32 experts, 4 a token", GPT_OSS_SOURCE),
    file!("gpt-oss-120b", "gpt-oss, 128 experts, 4 a token", GPT_OSS_SOURCE),
    row("deepseek-v3", "DeepSeek V3; with --mtp its multi-token prediction", DEEPSEEK_SOURCE, DEEPSEEK),
    row("bloom-176b", "BLOOM, ALiBi, 250,880 tokens", BLOOM_SOURCE, BLOOM),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_leave_nothing_to_defaults() {
        for preset in presets() {
            let model = preset.model().unwrap_or_else(|error| panic!("{}: {error}", preset.name));
            let said = |warning: &&String| !warning.starts_with("1 multi-token prediction layer is left out");
            assert_eq!(model.warnings.iter().find(said), None, "{}", preset.name);
            assert_eq!(model.name, preset.name);
        }
    }
}
