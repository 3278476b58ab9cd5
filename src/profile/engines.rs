//! The built-in engine profiles, read from `cost_models/engines/` at compile time.

use std::sync::LazyLock;

use serde_json::Value;

use super::engine::EngineProfile;
use super::inherit::read_engine;
use crate::spelling::{nearest, words};

const FILES: [&str; 17] = [
    include_str!("../../cost_models/engines/embedded.json"),
    include_str!("../../cost_models/engines/megatron.json"),
    include_str!("../../cost_models/engines/torchtitan.json"),
    include_str!("../../cost_models/engines/deepspeed.json"),
    include_str!("../../cost_models/engines/colossalai.json"),
    include_str!("../../cost_models/engines/nemo.json"),
    include_str!("../../cost_models/engines/megatron-lm.json"),
    include_str!("../../cost_models/engines/megatron-deterministic.json"),
    include_str!("../../cost_models/engines/megatron-deepspeed.json"),
    include_str!("../../cost_models/engines/megatron-eager.json"),
    include_str!("../../cost_models/engines/llm-foundry.json"),
    include_str!("../../cost_models/engines/nanotron.json"),
    include_str!("../../cost_models/engines/internevo.json"),
    include_str!("../../cost_models/engines/maxtext.json"),
    include_str!("../../cost_models/engines/accelerate.json"),
    include_str!("../../cost_models/engines/autocast.json"),
    include_str!("../../cost_models/engines/litgpt.json"),
];

static VALUES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let value =
        |text: &&str| serde_json::from_str(text).expect("a built-in engine profile is JSON, as a test shows");
    FILES.iter().map(value).collect()
});

static PROFILES: LazyLock<Vec<EngineProfile>> = LazyLock::new(|| {
    let profile =
        |own: &Value| read_engine(own, files()).expect("a built-in engine profile is valid, as a test shows");
    VALUES.iter().map(profile).collect()
});

/// The built-in engine profiles, our own backend first.
pub fn engines() -> &'static [EngineProfile] {
    &PROFILES
}

/// Name and JSON of each built-in file, as it stands: without what it inherits.
pub fn files() -> impl Iterator<Item = (&'static str, &'static Value)> {
    VALUES.iter().map(|value| (value["name"].as_str().unwrap_or_default(), value))
}

/// Name and text of each built-in file, as it stands.
pub fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    PROFILES.iter().zip(FILES).map(|(profile, text)| (profile.name.as_str(), text))
}

/// The profiles of engines in use: those that are not kept for published runs alone.
pub fn engines_in_use() -> impl Iterator<Item = &'static EngineProfile> {
    engines().iter().filter(|profile| !profile.historical)
}

/// The profile that the one called `name` inherits from, or itself.
pub fn root(name: &str) -> &str {
    engine(name).and_then(|profile| profile.inherits.as_deref()).unwrap_or(name)
}

/// Whether the profiles called `one` and `other` are of one kind.
pub fn kin(one: &str, other: &str) -> bool {
    root(one) == root(other)
}

/// The profile of our own backend.
pub fn embedded() -> &'static EngineProfile {
    &engines()[0]
}

/// The built-in profile called `name`.
pub fn engine(name: &str) -> Option<&'static EngineProfile> {
    engines().iter().find(|profile| profile.name == name)
}

/// Tools and libraries whose names people give for the engine, and the profile that is nearest to what these run.
const OTHER_NAMES: &[(&str, &[&str])] = &[
    ("torchtitan", &["titan", "pytorch", "torch", "fsdp", "fsdp2", "ddp"]),
    (
        "accelerate",
        &["huggingface", "hf", "transformers", "trainer", "trl", "axolotl", "llamafactory", "unsloth"],
    ),
    ("maxtext", &["jax"]),
];

/// The profile that `text` means, whatever its case and signs: `Megatron-Core` is `megatron`.
pub fn engine_named(text: &str) -> Option<&'static EngineProfile> {
    let bare = |name: &str| words(name).concat().replace('.', "");
    let wanted = bare(text);
    let same = || engines().iter().find(|profile| bare(&profile.name) == wanted);
    let core = || engine("megatron").filter(|_| ["megatroncore", "mcore"].contains(&wanted.as_str()));
    engine(text).or_else(same).or_else(core)
}

/// The profiles nearest to a name that is none's: what a tool of that name runs, else those that are spelled alike.
pub fn nearest_engines<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let wanted = words(text).concat();
    let other = OTHER_NAMES.iter().find(|(_, others)| others.contains(&wanted.as_str()));
    other.map_or_else(|| nearest(text, names), |(name, _)| vec![(*name).to_owned()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_known_by_other_spellings() {
        for (text, name) in [
            ("Megatron", "megatron"),
            ("Megatron-LM", "megatron-lm"),
            ("megatron-core", "megatron"),
            ("TorchTitan", "torchtitan"),
            ("DeepSpeed", "deepspeed"),
            ("Colossal-AI", "colossalai"),
            ("LLM Foundry", "llm-foundry"),
        ] {
            assert_eq!(engine_named(text).map(|profile| profile.name.as_str()), Some(name), "{text}");
        }
        assert!(engine_named("fsdp").is_none() && engine_named("").is_none() && engine_named("-").is_none());
        assert_eq!(nearest_engines("FSDP", ["megatron"]), ["torchtitan"]);
        assert_eq!(nearest_engines("megaton", ["megatron", "nemo"]), ["megatron"]);
        assert!(OTHER_NAMES.iter().all(|(name, _)| engine(name).is_some()));
    }

    #[test]
    fn built_in_profiles_are_valid_and_named_once() {
        let names: Vec<_> = engines().iter().map(|profile| profile.name.as_str()).collect();
        assert_eq!(names[..5], ["embedded", "megatron", "torchtitan", "deepspeed", "colossalai"]);
        assert!(names.iter().enumerate().all(|(index, name)| !names[..index].contains(name)));
        for profile in engines() {
            assert_eq!(profile.version, 1);
            assert!(!profile.sources.is_empty(), "{} names no source", profile.name);
            assert!(profile.buffers.gathered_units >= 1);
            assert!(profile.logits.chunks >= 1);
        }
    }
}
