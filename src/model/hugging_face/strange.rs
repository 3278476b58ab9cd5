//! Model types that are known and not planned, each with the part that no layer of ours is.

/// Types with the part in common.
#[rustfmt::skip]
const STRANGE: &[(&str, &[&str])] = &[
    ("state-space layers", &["falcon_mamba", "mamba", "mamba2"]),
    ("state-space layers beside its attention", &[
        "bamba", "falcon_h1", "granitemoehybrid", "jamba", "nemotron_h", "plamo2", "zamba", "zamba2",
    ]),
    ("linear attention (gated delta nets)", &[
        "kimi_linear", "lara_mini", "olmo_hybrid", "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text",
        "qwen3_next", "qwen4_exp", "qwen4_exp_text",
    ]),
    ("linear attention", &["bailing_hybrid", "minimax", "minimax_text_01"]),
    ("short convolutions instead of attention", &["lfm2", "lfm2_moe", "lfm3"]),
    ("recurrent blocks", &["recurrent_gemma", "rwkv", "rwkv5", "rwkv6", "rwkv7", "xlstm"]),
    ("a reversible residual stream with hashed attention", &["reformer"]),
    ("blocks that are run several times", &["hrm_text", "inkling2_loop_text"]),
    ("convolutions of its residual stream, keys and values", &["inkling2_text", "inkling_text", "zaya"]),
    ("a mixture of attention heads", &["jetmoe"]),
    ("differential attention", &["diffllama"]),
    ("attention with masks of its own", &["doge"]),
    ("gates on what attention returns", &["afmoe", "beam", "dory", "laguna"]),
    ("values that are narrower than keys", &["mimo_v2_flash"]),
    ("norms inside attention and MLP", &["bitnet"]),
    ("an activation with trained parameters (xIELU)", &["apertus", "apertus1p5_text"]),
    ("sparse attention with an indexer of its own", &[
        "axk2", "deepseek_v32", "deepseek_v4", "dots3_note", "dots3_note_text", "glm_moe_dsa", "hy_v4",
        "minimax_m3_vl_text",
    ]),
    ("two attentions a block and experts that do nothing", &["longcat_flash"]),
    ("embeddings of each layer", &[
        "gemma3n", "gemma3n_text", "gemma4", "gemma4_assistant", "gemma4_text",
    ]),
    ("heads whose size differs between layers", &[
        "gemma4_unified", "gemma4_unified_assistant", "gemma4_unified_text", "openelm",
    ]),
    ("several sub-models over bytes", &["blt"]),
    ("positions of the rows of a table of biases", &["cpmant"]),
    ("a linear layer and a norm before its head", &["modernbert-decoder"]),
    ("norms of heads and chunks of its own", &["cohere_compass_text"]),
    ("two norms of attention and MLP, and other settings in objects of their own", &["dbrx"]),
    ("an encoder's blocks, and a head behind a linear layer and a norm", &[
        "bert", "big_bird", "camembert", "data2vec-text", "electra", "ernie", "megatron-bert", "rembert", "roberta",
        "roberta-prelayernorm", "roc_bert", "roformer", "xlm-roberta", "xlm-roberta-xl", "xmod",
    ]),
    ("an encoder's blocks", &["bert-generation", "xlm", "xlnet"]),
    ("cross-attention to an encoder", &[
        "bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "marian", "mbart", "musicgen",
        "musicgen_melody", "mvp", "pegasus", "plbart", "prophetnet", "t5", "trocr", "whisper",
    ]),
    ("cross-attention to a vision tower", &["git", "mllama", "mllama_text_model"]),
    ("towers whose adapters lie in its text model", &["phi4_multimodal"]),
    ("an audio decoder beside its text model", &["moshi"]),
];

/// The part of `model_type` that we do not plan, where the type is known for one.
pub(super) fn strange_part(model_type: &str) -> Option<&'static str> {
    STRANGE.iter().find(|(_, types)| types.contains(&model_type)).map(|(part, _)| *part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::hugging_face::model_types;

    #[test]
    fn no_type_is_both_planned_and_strange() {
        for family in model_types() {
            assert_eq!(strange_part(family), None, "{family}");
        }
    }
}
