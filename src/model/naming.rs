//! Which preset a name means, as hubs and people write it: `meta-llama/Llama-3.1-8B-Instruct`, `Qwen3 8B`.

use std::cmp::Reverse;

use super::presets::{Preset, presets};
use crate::spelling::{distance, ranked, words};

/// Words that change no size: makers, what a model was tuned for, and the one version that a preset is of.
const IDLE: [&str; 8] = ["meta", "hf", "base", "instruct", "chat", "it", "model", "v0.1"];

/// The most presets that are named in place of an unknown one.
const MOST: usize = 4;

/// The preset that `text` means: the one of the same family, version and size.
pub fn preset_named(text: &str) -> Option<&'static Preset> {
    let said = said(text)?;
    presets().iter().find(|preset| self::said(preset.name).as_ref() == Some(&said))
}

/// At most four presets near `text`: those of its family first, of these the same sizes, then the same version; only
/// where there is no such family, those that are spelled alike.
pub fn nearest(text: &str) -> Vec<String> {
    let own = said(text).unwrap_or_default();
    let family = own.first().cloned().unwrap_or_default();
    let mut kin: Vec<(&str, Vec<String>)> = presets()
        .iter()
        .map(|preset| (preset.name, said(preset.name).unwrap_or_default()))
        .filter(|(_, words)| words.first() == Some(&family))
        .collect();
    if kin.is_empty() {
        let near = ranked(text, presets().iter().map(|preset| preset.name)).into_iter();
        let is_near = |(far, name): &(usize, &str)| *far <= name.len() && !text.is_empty();
        return near.filter(is_near).take(MOST).map(|(_, name)| name.to_owned()).collect();
    }
    kin.sort_by_key(|(name, words)| {
        let shared = own.iter().filter(|word| words.contains(word)).count();
        // Version 3 is nearer to 3.1 than to 2.
        let is_of_version =
            |word: &String| words.iter().any(|other| other.split('.').next() == Some(word) && other != word);
        (Reverse(2 * shared + own.iter().filter(|word| is_of_version(word)).count()), distance(text, name))
    });
    kin.into_iter().take(MOST).map(|(name, _)| name.to_owned()).collect()
}

/// The facts in a name; none in a path.
fn said(text: &str) -> Option<Vec<String>> {
    let name = match text.split_once('/') {
        None => text,
        Some((maker, name)) if !maker.starts_with('.') && !name.contains('/') => name,
        Some(_) => return None,
    };
    let mut said = Vec::new();
    for word in words(name) {
        // `llama3` is `llama 3`.
        let letters = word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len());
        let (family, version) = word.split_at(if letters >= 3 { letters } else { 0 });
        said.extend([family, version].into_iter().filter(|part| !part.is_empty()).map(str::to_owned));
    }
    said.retain(|word| !IDLE.contains(&word.as_str()));
    (!said.is_empty()).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Option<&'static str> {
        preset_named(text).map(|preset| preset.name)
    }

    #[test]
    fn names_of_hubs_and_people_are_understood() {
        for (text, name) in [
            ("Llama-3.1-8B", "llama-3.1-8b"),
            ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
            ("meta-llama/Meta-Llama-3.1-70B", "llama-3.1-70b"),
            ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
            ("llama2-7b", "llama-2-7b"),
            ("LLaMA 2 70B", "llama-2-70b"),
            ("Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"),
            ("qwen-3-8b", "qwen3-8b"),
            ("Qwen3 235B A22B", "qwen3-235b-a22b"),
            ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
            ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
            ("google/gemma-2-9b-it", "gemma-2-9b"),
            ("openai-community/gpt2", "gpt2"),
            ("GPT-2 XL", "gpt2-xl"),
            ("openai/gpt-oss-20b", "gpt-oss-20b"),
            ("deepseek-ai/DeepSeek-V3-Base", "deepseek-v3"),
        ] {
            assert_eq!(named(text), Some(name), "{text}");
        }
        for preset in presets() {
            assert_eq!(named(&preset.name.to_uppercase()), Some(preset.name));
        }
    }

    #[test]
    fn what_is_another_model_is_not_taken_for_a_preset() {
        for text in [
            "llama-27b",
            "llama3-8b",
            "Mistral-7B-v0.3",
            "./gpt2",
            "../llama-2-7b",
            "models/x/gpt2",
            "gpt2.json",
            "",
            "instruct",
            "llama",
        ] {
            assert_eq!(named(text), None, "{text}");
        }
    }

    #[test]
    fn family_and_size_come_before_letters() {
        assert_eq!(nearest("llama3-8b")[0], "llama-3.1-8b");
        assert_eq!(nearest("LLaMA 3 70B")[..2], ["llama-3.1-70b", "llama-3.3-70b"]);
        assert_eq!(nearest("qwen2-7b")[0], "qwen2.5-7b");
        assert_eq!(nearest("gpt2-xll")[0], "gpt2-xl");
        assert_eq!(nearest("mistralai/Mistral-7B-v0.3")[0], "mistral-7b");
        assert_eq!(nearest("lama-3.1-8b")[0], "llama-3.1-8b");
    }
}
