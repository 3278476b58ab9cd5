//! What no key of Accelerate says: arguments of the training script, and how they travel in its file.
//!
//! `accelerate launch` copies every key of `parallelism_config` to its own arguments and looks only at those that it
//! knows (1.15.0 `commands/launch.py:1262-1278`), so a file may hold others. The names are those of transformers.

use crate::export::case::Case;
use crate::export::syntax::Code;
use crate::strategy::{AttentionKernel, CheckpointMode};

/// Sequences a micro-batch.
pub const MICRO: &str = "parallelism_config.per_device_train_batch_size";

/// Micro-batches a step.
pub const STEPS: &str = "parallelism_config.gradient_accumulation_steps";

/// Blocks recompute, where FSDP does not see to it.
pub const CHECKPOINT: &str = "parallelism_config.gradient_checkpointing";

/// The attention of transformers: `eager` makes scores and probabilities tensors, all others are fused.
pub const ATTENTION: &str = "parallelism_config.attn_implementation";

/// The file that starts the script.
pub const STARTER: &str = "with_accelerate.py";

/// Whether the script has to see to it that blocks recompute: FSDP wraps them, DDP does not.
pub fn recomputes(case: &Case<'_>) -> bool {
    case.strategy.zero == 0 && case.checkpoint() == Some(CheckpointMode::Full)
}

/// The arguments of the training script.
pub fn arguments(case: &Case<'_>) -> Code {
    let mut text = Code::from("\"${TRAIN_SCRIPT:-train.py}\" --per_device_train_batch_size ")
        .then(Code::word(case.strategy.micro_batch))
        .then(" --gradient_accumulation_steps ")
        .then(Code::word(case.strategy.accumulation));
    if recomputes(case) {
        text = text.then(" --gradient_checkpointing True");
    }
    if case.strategy.attention == AttentionKernel::Materialised {
        text = text.then(" --attn_implementation eager");
    }
    text
}

/// The program that every rank starts: it sets what `accelerate launch` would set, so that ranks may lie where
/// `ranks.txt` has them.
pub fn starter() -> String {
    "\"\"\"Runs a training script as `accelerate launch --config_file accelerate.yaml` would: python with_accelerate.py SCRIPT ARGUMENTS\"\"\"\n\
     import os\nimport runpy\nimport sys\n\n\
     from accelerate.commands.launch import _validate_launch_command, launch_command_parser\n\
     from accelerate.utils.launch import prepare_multi_gpu_env\n\n\
     script = sys.argv[1]\n\
     # Ranks find each other as torchrun or mpirun says, so Accelerate looks at no port.\n\
     options = [\"--config_file\", \"accelerate.yaml\", \"--main_process_port\", \"0\", script]\n\
     arguments, _, _ = _validate_launch_command(launch_command_parser().parse_args(options))\n\
     found = dict(os.environ)\n\
     for name, value in prepare_multi_gpu_env(arguments).items():\n    \
     found.setdefault(name, value)\n\
     os.environ.update(found)\n\
     sys.argv = sys.argv[1:]\n\
     runpy.run_path(script, run_name=\"__main__\")\n"
        .to_owned()
}
