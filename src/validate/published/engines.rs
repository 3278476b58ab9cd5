//! Which engine profile a published run's program is simulated as.

use crate::profile::EngineProfile;
use crate::profile::capabilities::{Cited, CutGrain, OffloadOffer, Supports};
use crate::profile::choices::ContextKind;
use crate::profile::engine::Overlap;
use crate::profile::engines::{embedded, engine};
use crate::trace::published::PublishedRun;
use crate::validate::published::strategy::context_kind;

/// Programs as tables call them, by how they begin, and our engine profile; the first that begins alike counts.
const ENGINES: &[(&str, &str)] = &[
    ("Megatron-DeepSpeed ZeRO-3", "deepspeed"),
    ("Megatron-DeepSpeed 3D", "megatron-deepspeed"),
    ("Megatron-DeepSpeed (3D)", "megatron-deepspeed"),
    ("GPT-NeoX", "megatron-deepspeed"),
    // What else it ran on, its strategy says.
    ("Megatron-DeepSpeed", "megatron-eager"),
    ("Megatron + DeepSpeed ZeRO-3", "deepspeed"),
    ("Megatron-LM v1.1.5 + DeepSpeed", "deepspeed"),
    ("DeepSpeed", "deepspeed"),
    ("HF Trainer + DeepSpeed", "deepspeed"),
    ("Megatron-Bridge", "nemo"),
    // Its tables name the flags that NeMo's recipes set too.
    ("Megatron-Core r0.8", "nemo"),
    ("Megatron-Core (llama example)", "nemo"),
    // Their layers were Megatron's own, with FlashAttention 2; Transformer Engine's came after.
    ("Megatron-LM core v0.4", "megatron-lm"),
    ("Megatron-LM core v0.5", "megatron-lm"),
    ("Megatron-LM core v0.6", "megatron-lm"),
    ("Megatron-LM core", "megatron"),
    ("Megatron-LM", "megatron-lm"),
    ("Megatron-Core CI", "megatron-deterministic"),
    ("Megatron", "megatron"),
    ("NeMo AutoModel", "torchtitan"),
    ("NeMo", "nemo"),
    ("AMD Primus", "megatron"),
    ("torchtitan", "torchtitan"),
    ("llm-foundry", "llm-foundry"),
    ("PyTorch autocast", "autocast"),
    ("LitGPT", "litgpt"),
    ("InternEvo", "internevo"),
    ("nanotron", "nanotron"),
    ("JAX", "maxtext"),
    ("Colossal-AI", "colossalai"),
];

/// Words in the name of a program that begins like none of these, in lower case, and the profile of its kin. What
/// drives the training is named first: `HF Trainer + DeepSpeed` is DeepSpeed.
const KIN: &[(&str, &str)] = &[
    ("deepspeed", "deepspeed"),
    ("colossal", "colossalai"),
    ("nemo", "nemo"),
    ("flagscale", "megatron-lm"),
    ("megatron", "megatron"),
    ("nanotron", "nanotron"),
    ("internlm", "internevo"),
    ("maxtext", "maxtext"),
    ("jax", "maxtext"),
    ("pax", "maxtext"),
    ("levanter", "maxtext"),
    // All of them run PyTorch's own layers, on FSDP or DDP: 32-bit weights that are sharded or whole, 16-bit copies of
    // them.
    ("fsdp", "torchtitan"),
    ("torch", "torchtitan"),
    ("litgpt", "litgpt"),
    ("lightning", "torchtitan"),
    ("accelerate", "accelerate"),
    ("trainer", "accelerate"),
    ("transformers", "accelerate"),
    ("llama-factory", "accelerate"),
    ("axolotl", "accelerate"),
];

/// The profile of the program that ran `run`.
///
/// # Errors
/// Says that there is none.
pub fn profile(run: &PublishedRun) -> Result<&'static EngineProfile, String> {
    let framework = &run.framework;
    let lower = framework.to_ascii_lowercase();
    let known = ENGINES.iter().find(|(prefix, _)| framework.starts_with(prefix));
    let known = known.or_else(|| KIN.iter().find(|(word, _)| lower.contains(word))).map(|(_, name)| *name);
    let name = known.map(|name| match name {
        "megatron-eager" if needs_deepspeed_engine(run) => "megatron-deepspeed",
        name => name,
    });
    name.and_then(engine).ok_or_else(|| format!("there is no engine profile of `{framework}`"))
}

/// Whether DeepSpeed's engine drove Megatron's fork for it, by its pipeline or its ZeRO, and not Megatron's own
/// schedules and optimizer.
fn needs_deepspeed_engine(run: &PublishedRun) -> bool {
    let strategy = &run.strategy;
    strategy.zero_stage > 0
        || strategy.schedule.as_deref().is_some_and(|schedule| schedule.contains("DeepSpeed"))
}

/// Whatever drives the training, products of 8 bits by it keep their inputs in 8 bits (TransformerEngine,
/// pytorch/module/linear.py).
const TRANSFORMER_ENGINE: &str = "Transformer Engine";

/// Words in the names of programs whose kernels are fused without a compiler: by Transformer Engine, and by hand (an
/// assumption: Llama Team 2024, arXiv 2407.21783, does not say).
const FUSED: &[&str] = &["NeMo AutoModel", TRANSFORMER_ENGINE, "Meta internal"];

/// Where the engine cuts by itself, as it does; no table says where.
fn cuts(profile: &EngineProfile) -> Cited<CutGrain> {
    let own = &profile.supports.cuts;
    let decides = matches!(**own, CutGrain::FirstMore | CutGrain::ByCost);
    if decides { own.clone() } else { embedded().supports.cuts.clone() }
}

/// How context ranks may exchange keys and values: as the table says, else as the engine does.
fn contexts(run: &PublishedRun, profile: &EngineProfile) -> Cited<Vec<ContextKind>> {
    let own = &profile.supports.context;
    let is_stated = context_kind(&run.strategy).is_some() || own.is_empty();
    if is_stated { embedded().supports.context.clone() } else { own.clone() }
}

/// Everything that our backend can offload. Where the engine asks for a ZeRO stage, the run had one: gradients follow the
/// optimizer to the host only then.
fn offloads(profile: &EngineProfile) -> Cited<Vec<OffloadOffer>> {
    let mut offers = embedded().supports.offload.clone();
    for offer in &mut offers.value {
        let own = profile.supports.offload.iter().find(|own| own.category == offer.category);
        offer.from_zero = own.map_or(offer.from_zero, |own| own.from_zero);
    }
    offers
}

/// Whether weights are updated in the type that products take them in (Lightning's precision `bf16-true`).
fn has_no_master_weights(run: &PublishedRun) -> bool {
    let name = run.strategy.dtype.split_whitespace().next();
    name.is_some_and(|name| name.ends_with("-true") && !name.starts_with("fp32"))
}

/// Whether DeepSpeed's ZeRO drove Megatron's fork as it drives any model. With a pipeline, an optimizer of its own sums
/// gradients of bf16 in single precision; without, ZeRO keeps them in the model's type (DeepSpeed edaa7221,
/// runtime/engine.py, `get_data_types`).
fn has_deepspeed_state(run: &PublishedRun, profile: &EngineProfile) -> bool {
    let strategy = &run.strategy;
    profile.name == "megatron-deepspeed" && strategy.zero_stage > 0 && strategy.pp.unwrap_or(1) <= 1
}

/// `profile` as it was set in `run`.
pub fn configured(run: &PublishedRun, profile: &EngineProfile) -> EngineProfile {
    let mut engine = profile.clone();
    // It ran, on a version or by a patch of its own: what the profile's version can run is not asked of it.
    engine.supports = Supports {
        schedules: if run.strategy.schedule.is_some() {
            embedded().supports.schedules.clone()
        } else {
            profile.supports.schedules.clone()
        },
        interleaved: profile.supports.interleaved.clone(),
        cuts: cuts(profile),
        pipelined: profile.supports.pipelined.clone(),
        context: contexts(run, profile),
        offload: offloads(profile),
        ..embedded().supports.clone()
    };
    let is_fused = || FUSED.iter().any(|words| run.framework.contains(words));
    if run.strategy.compile.unwrap_or_else(is_fused) {
        engine.fuse();
    }
    if run.strategy.compile == Some(true) {
        engine.drop_what_compilers_drop();
    }
    if run.framework.contains(TRANSFORMER_ENGINE) {
        engine.activations.eight_bit_inputs = true;
    }
    if has_no_master_weights(run) {
        engine.keep_no_master_weights();
    }
    if has_deepspeed_state(run, profile)
        && let Some(deepspeed) = self::engine("deepspeed")
    {
        engine.state = deepspeed.state.clone();
    }
    // Whoever shards parameters reduces gradients while the backward goes on (Megatron-FSDP as well, whose engine does so
    // by a flag otherwise).
    if run.strategy.zero_stage == 3 && !engine.timing.overlaps(Overlap::Gradients) {
        engine.timing.overlaps.push(Overlap::Gradients);
    }
    let schedule = run.strategy.schedule.as_deref().unwrap_or_default().to_ascii_lowercase();
    if schedule.contains("dualpipe") {
        engine.hide_exchanges();
    }
    if schedule.contains("async-tp") {
        engine.make_tensor_parallel_asynchronous();
    }
    engine
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::published::PublishedTrace;

    fn run(framework: &str, zero: u8, schedule: &str) -> PublishedRun {
        let text = include_str!("../../../traces/published/vtrain-multi.json");
        let trace: PublishedTrace = serde_json::from_str(text).unwrap();
        let mut run = trace.runs.into_iter().next().unwrap();
        run.framework = framework.to_owned();
        run.strategy.zero_stage = zero;
        run.strategy.schedule = Some(schedule.to_owned());
        run
    }

    #[test]
    fn every_program_has_a_profile() {
        for (prefix, name) in ENGINES.iter().chain(KIN) {
            assert!(engine(name).is_some(), "{prefix} -> {name}");
        }
        assert_eq!(profile(&run("Megatron-Core r0.8 (GPT)", 0, "1f1b")).unwrap().name, "nemo");
        for (framework, name) in [
            ("HF Trainer + DeepSpeed ZeRO-2", "deepspeed"),
            ("LLaMA-Factory (HF Trainer)", "accelerate"),
            ("PyTorch FSDP (CPU offload)", "torchtitan"),
            ("LitGPT (Lightning Fabric)", "litgpt"),
            ("EasyLM (JAX)", "maxtext"),
        ] {
            assert_eq!(
                profile(&run(framework, 0, "1f1b")).map(|profile| &profile.name[..]),
                Ok(name),
                "{framework}"
            );
        }
        assert!(profile(&run("Cerebras", 0, "1f1b")).is_err());
    }

    #[test]
    fn the_fork_for_deepspeed_has_two_engines() {
        let name = |framework, zero, schedule| &profile(&run(framework, zero, schedule)).unwrap().name[..];
        assert_eq!(name("Megatron-DeepSpeed", 0, "1f1b"), "megatron-eager");
        assert_eq!(name("Megatron-DeepSpeed", 1, "1f1b"), "megatron-deepspeed");
        assert_eq!(name("Megatron-DeepSpeed", 0, "1F1B (DeepSpeed)"), "megatron-deepspeed");
        assert_eq!(name("Megatron-DeepSpeed (3D)", 0, "1F1B"), "megatron-deepspeed");
        assert_eq!(name("GPT-NeoX (Megatron-DeepSpeed)", 0, "1f1b"), "megatron-deepspeed");
        assert_eq!(name("Megatron-DeepSpeed ZeRO-3", 3, "1f1b"), "deepspeed");
        // Gradients of bf16 are summed in single precision by the optimizer of its pipeline alone.
        let kept = |stages| {
            let mut run = run("Megatron-DeepSpeed", 1, "1f1b");
            run.strategy.pp = Some(stages);
            configured(&run, profile(&run).unwrap()).state.gradient_kept
        };
        assert_ne!(kept(4), kept(1));
        assert_eq!(kept(1), engine("deepspeed").unwrap().state.gradient_kept);
    }
}
