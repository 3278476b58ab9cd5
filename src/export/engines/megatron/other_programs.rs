//! Arguments that look like Megatron-LM's of today and belong to another program or another kind of model. They are
//! refused, because the prediction would be for another run.

use crate::export::error::ImportError;
use crate::export::reader::Reader;

/// Parts of the names of programs of Megatron-LM that do not train a GPT.
const NO_GPT: &[&str] = &[
    "t5",
    "bert",
    "ict",
    "realm",
    "retro",
    "vision",
    "vit",
    "vlm",
    "multimodal",
    "mamba",
    "hybrid",
    "biencoder",
    "generate",
    "inference",
];

const OF_DEEPSPEED: &str = "arguments of Megatron-DeepSpeed are not read: give its DeepSpeed JSON to --from, beside MODEL \
                            and --strategy with what the script says (tp, pp, micro)";

/// Arguments of Megatron-DeepSpeed, and those of old versions of Megatron-LM that changed their names.
const OTHERS: &[(&str, &str)] = &[
    ("deepspeed", OF_DEEPSPEED),
    ("deepspeed-config", OF_DEEPSPEED),
    ("zero-stage", OF_DEEPSPEED),
    ("no-pipeline-parallel", OF_DEEPSPEED),
    ("deepspeed-activation-checkpointing", OF_DEEPSPEED),
    ("ds-sequence-parallel-size", OF_DEEPSPEED),
    ("model-parallel-size", "it is --tensor-model-parallel-size since Megatron-LM 2.0"),
    ("batch-size", "it is --micro-batch-size since Megatron-LM 2.0"),
    (
        "checkpoint-activations",
        "it is --recompute-granularity full --recompute-method uniform since Megatron-LM 3.0",
    ),
    ("checkpoint-num-layers", "it is --recompute-num-layers since Megatron-LM 3.0"),
    ("activations-checkpoint-method", "it is --recompute-method since Megatron-LM 3.0"),
    ("activations-checkpoint-num-layers", "it is --recompute-num-layers since Megatron-LM 3.0"),
];

/// Arguments of models that are not described by the others alone.
const OTHER_MODELS: [(&str, &str); 13] = [
    ("hybrid-layer-pattern", "layers that are no attention and no MLP are not modelled"),
    ("hybrid-override-pattern", "layers that are no attention and no MLP are not modelled"),
    ("hybrid-attention-ratio", "layers that are no attention and no MLP are not modelled"),
    ("is-hybrid-model", "layers that are no attention and no MLP are not modelled"),
    ("experimental-attention-variant", "this kind of attention is not modelled"),
    ("attention-output-gate", "attention with a gate is not modelled"),
    ("heterogeneous-layers-config-path", "layers of different sizes are not modelled"),
    ("heterogeneous-layers-config-encoded-json", "layers of different sizes are not modelled"),
    ("moe-latent-size", "experts on a narrower stream are not modelled"),
    ("enable-mhc-connections", "several residual streams are not modelled"),
    (
        "encoder-num-layers",
        "models of an encoder and a decoder are not modelled; --num-layers is of a decoder",
    ),
    (
        "use-checkpoint-args",
        "the model is then that of a checkpoint: write its sizes, or give MODEL without it",
    ),
    ("yaml-cfg", "arguments are then of another file: give that"),
];

/// That the arguments are of a GPT's training by a Megatron-LM of today.
pub fn refused(reader: &Reader<'_>) -> Result<(), ImportError> {
    for (name, rule) in OTHERS {
        if reader.has(name) {
            return Err(reader.refused(name, rule));
        }
    }
    let is_part = |program: &&str| {
        let parts = program.trim_end_matches(".py").split(['_', '-']);
        parts.into_iter().any(|part| NO_GPT.contains(&part))
    };
    match reader.program().filter(is_part) {
        Some(program) => {
            let rule = format!("`{program}` does not train a GPT, and nothing else is modelled");
            Err(reader.refused("num-layers", rule))
        }
        None => Ok(()),
    }
}

/// That no argument asks for a model that is not modelled.
pub fn other_models(reader: &Reader<'_>) -> Result<(), ImportError> {
    for (name, rule) in OTHER_MODELS {
        if reader.value(name)?.is_some_and(|value| *value != false) {
            return Err(reader.refused(name, rule));
        }
    }
    Ok(())
}
