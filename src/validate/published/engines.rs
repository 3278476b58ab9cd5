//! Which engine profile a published run's program is simulated as.

use crate::profile::EngineProfile;
use crate::profile::engine::engine;
use crate::trace::published::PublishedRun;

/// Programs as tables call them, by how they begin, and our engine profile; the first that begins alike counts.
const ENGINES: &[(&str, &str)] = &[
    ("Megatron-DeepSpeed ZeRO-3", "deepspeed"),
    ("Megatron-DeepSpeed", "megatron-deepspeed"),
    ("GPT-NeoX", "megatron-deepspeed"),
    ("Megatron + DeepSpeed ZeRO-3", "deepspeed"),
    ("Megatron-LM v1.1.5 + DeepSpeed", "deepspeed"),
    ("DeepSpeed", "deepspeed"),
    ("HF Trainer + DeepSpeed", "deepspeed"),
    ("Megatron-Bridge", "nemo"),
    // Its tables name the flags that NeMo's recipes set too.
    ("Megatron-Core r0.8", "nemo"),
    ("Megatron-Core (llama example)", "nemo"),
    ("Megatron-LM core", "megatron"),
    ("Megatron-LM", "megatron-lm"),
    ("Megatron-Core CI", "megatron-lm"),
    ("Megatron", "megatron"),
    ("NeMo AutoModel", "torchtitan"),
    ("NeMo", "nemo"),
    ("AMD Primus", "megatron"),
    ("torchtitan", "torchtitan"),
    ("Meta internal", "torchtitan"),
    ("llm-foundry", "llm-foundry"),
    ("PyTorch FSDP", "llm-foundry"),
    ("LitGPT", "llm-foundry"),
    ("Galvatron", "llm-foundry"),
    ("metaseq", "llm-foundry"),
    ("InternEvo", "internevo"),
    ("nanotron", "nanotron"),
    ("JAX", "maxtext"),
    ("Colossal-AI", "colossalai"),
];

/// The profile of the program that a table calls `framework`.
///
/// # Errors
/// Says that there is none.
pub fn profile(framework: &str) -> Result<&'static EngineProfile, String> {
    let known = ENGINES.iter().find(|(prefix, _)| framework.starts_with(prefix));
    known
        .and_then(|(_, name)| engine(name))
        .ok_or_else(|| format!("there is no engine profile of `{framework}`"))
}

/// `profile` as it was set in `run`.
pub fn configured(run: &PublishedRun, profile: &EngineProfile) -> EngineProfile {
    let mut engine = profile.clone();
    if run.strategy.compile == Some(true) {
        engine.timing.elementwise_passes = engine.timing.compiled_passes.clone();
    }
    if run.strategy.schedule.as_deref().is_some_and(|schedule| schedule.contains("async-tp")) {
        engine.timing.tensor_hidden = engine.timing.asynchronous_hidden.clone();
    }
    engine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_profile() {
        for (prefix, name) in ENGINES {
            assert!(engine(name).is_some(), "{prefix} -> {name}");
        }
        assert_eq!(profile("Megatron-DeepSpeed (3D)").unwrap().name, "megatron-deepspeed");
        assert_eq!(profile("Megatron-Core r0.8 (GPT)").unwrap().name, "nemo");
        assert!(profile("Open-Sora 1.1 / ColossalAI").is_err());
    }
}
