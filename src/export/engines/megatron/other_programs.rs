//! Arguments that look like Megatron-LM's of today and are another program's: these are refused, because the run would be
//! another one.

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
    ("deepspeed_config", OF_DEEPSPEED),
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
