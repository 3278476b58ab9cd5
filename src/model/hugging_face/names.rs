//! Other names of known families: `model_type`s whose text models are those of a family under another name.

/// A `model_type`, and the family whose fields and tensors its text model has.
///
/// Most are the text halves of models that see or hear; the others are published with code of their own
/// (Kimi K2 is a DeepSeek V3, Yi a Llama).
#[rustfmt::skip]
const OTHER_NAMES: &[(&str, &str)] = &[
    ("Yi", "llama"), ("aria", "aria_text"), ("aya_vision", "cohere2"), ("cohere2_vision", "cohere2"),
    ("aquila", "llama"), ("emu3", "emu3_text_model"), ("emu3_text_model", "llama"),
    ("gemma3", "gemma3_text"), ("glm4v", "glm4"), ("glm4v_moe", "glm4_moe"), ("glm4v_moe_text", "glm4_moe"),
    ("glm4v_text", "glm4"), ("got_ocr2", "qwen2"), ("idefics3", "llama"), ("internvl", "qwen2"),
    ("kimi_k2", "deepseek_v3"), ("kimi_vl", "deepseek_v3"), ("llama4", "llama4_text"), ("llava", "llama"),
    ("llava_next", "llama"), ("llava_next_video", "llama"), ("llava_onevision", "qwen2"), ("mistral3", "mistral"),
    ("paligemma", "gemma"), ("qwen2_5_omni_text", "qwen2"), ("qwen2_5_vl", "qwen2"), ("qwen2_5_vl_text", "qwen2"),
    ("qwen2_audio", "qwen2"), ("qwen2_vl", "qwen2"), ("qwen2_vl_text", "qwen2"), ("qwen3_vl", "qwen3"),
    ("qwen3_vl_moe", "qwen3_moe"), ("qwen3_vl_moe_text", "qwen3_moe"), ("qwen3_vl_text", "qwen3"),
    ("shieldgemma2", "gemma3_text"), ("smolvlm", "llama"), ("video_llava", "llama"), ("vipllava", "llama"),
    ("voxtral", "llama"), ("xverse", "llama"),
];

/// The family that `model_type` is another name of; itself if it is none.
pub(super) fn family_of(model_type: &str) -> &str {
    let of = |name: &str| OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, family)| *family);
    let mut family = model_type;
    // A name may stand for one that stands for a family.
    while let Some(next) = of(family) {
        family = next;
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::hugging_face::model_types;

    #[test]
    fn every_other_name_leads_to_a_family() {
        for (other, _) in OTHER_NAMES {
            let family = family_of(other);
            assert!(model_types().any(|known| known == family), "{other} leads to {family}");
            assert!(!model_types().any(|known| known == *other), "{other} is a family itself");
        }
    }
}
