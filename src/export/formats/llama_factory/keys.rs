//! The table of LLaMA-Factory's own settings (0.9.6 `hparams`), with those of the Trainer behind them.

use crate::export::format::Key;
use crate::export::formats::trainer::ARGUMENTS;

const OTHER_STATE: &str = "state other than two moments of each parameter is not modelled";
const MEGATRON: &str = "runs by Megatron are not read from files of LLaMA-Factory";

const OWN: [Key; 84] = [
    Key::read("finetuning_type", "lora", "what is trained; full is planned"),
    Key::read("stage", "sft", "pt and sft are planned"),
    Key::read("cutoff_len", "2048", "tokens a sequence"),
    Key::read("flash_attn", "auto", "the attention kernel; disabled makes scores tensors"),
    Key::read("disable_gradient_checkpointing", "false", "every block recomputes unless this is on"),
    Key::read("use_unsloth_gc", "false", "inputs of blocks lie on the host"),
    Key::read("enable_liger_kernel", "false", "head and loss a chunk of tokens at a time"),
    Key::read("pure_bf16", "false", "no masters in 32 bits"),
    Key::read("packing", "true for pt", "sequences are full"),
    Key::read("neat_packing", "false", "the same, without attention between documents"),
    Key::refused("quantization_bit", "a quantised model under adapters is not planned yet"),
    Key::refused("adapter_name_or_path", "adapters are not planned yet"),
    Key::refused("use_galore", OTHER_STATE),
    Key::refused("use_apollo", OTHER_STATE),
    Key::refused("use_badam", OTHER_STATE),
    Key::refused("use_adam_mini", OTHER_STATE),
    Key::refused("use_muon", OTHER_STATE),
    Key::refused("use_llama_pro", "blocks that are added and trained alone are not planned"),
    Key::refused("use_mca", MEGATRON),
    Key::refused("use_megatron_bridge", MEGATRON),
    Key::refused("use_hyper_parallel", "runs by HyperParallel are not planned"),
    Key::refused("use_unsloth", "a model whose kernels Unsloth replaces is not modelled"),
    Key::refused("use_kt", "experts on the host by KTransformers are not modelled"),
    Key::refused("mixture_of_depths", "tokens that skip blocks are not modelled"),
    Key::refused("shift_attn", "attention in shifted groups is not modelled"),
    Key::refused("upcast_layernorm", "norms in 32 bits are not modelled"),
    Key::refused("upcast_lmhead_output", "logits in 32 bits by a hook are not modelled"),
    Key::refused("use_asft_loss", "a loss with a second model is not planned"),
    Key::refused("freeze_language_model", "a frozen language model is not planned"),
    Key::refused("fp8", "products in 8 bits are not read from files of LLaMA-Factory"),
    Key::idle("fp8_*"),
    Key::idle("use_dft_loss"),
    Key::idle("use_eaft_loss"),
    Key::idle("eaft_alpha"),
    Key::idle("asft_alpha"),
    Key::idle("template"),
    Key::idle("tool_format"),
    Key::idle("default_system"),
    Key::idle("enable_thinking"),
    Key::idle("preserve_thinking"),
    Key::idle("media_dir"),
    Key::idle("train_on_prompt"),
    Key::idle("mask_history"),
    Key::idle("buffer_size"),
    Key::idle("mix_strategy"),
    Key::idle("interleave_probs"),
    Key::idle("preprocessing_batch_size"),
    Key::idle("max_samples"),
    Key::idle("ignore_pad_token_for_loss"),
    Key::idle("val_size"),
    Key::idle("tokenized_path"),
    Key::idle("data_shared_file_system"),
    Key::idle("adapter_folder"),
    Key::idle("resize_vocab"),
    Key::idle("split_special_tokens"),
    Key::idle("add_tokens"),
    Key::idle("add_special_tokens"),
    Key::idle("new_special_tokens_config"),
    Key::idle("init_special_tokens"),
    Key::idle("rope_scaling"),
    Key::idle("moe_aux_loss_coef"),
    Key::idle("use_reentrant_gc"),
    Key::idle("train_from_scratch"),
    Key::idle("infer_*"),
    Key::idle("offload_folder"),
    Key::idle("use_kv_cache"),
    Key::idle("use_v1_kernels"),
    Key::idle("hf_hub_token"),
    Key::idle("ms_hub_token"),
    Key::idle("om_hub_token"),
    Key::idle("print_param_status"),
    Key::idle("image_*"),
    Key::idle("video_*"),
    Key::idle("freeze_*"),
    Key::idle("compute_accuracy"),
    Key::idle("disable_shuffling"),
    Key::idle("early_stopping_steps"),
    Key::idle("plot_loss"),
    Key::idle("pref_*"),
    Key::idle("use_swanlab"),
    Key::idle("swanlab_*"),
    Key::idle("ray_*"),
    Key::idle("enable_torch_profiler"),
    Key::idle("profiler_*"),
];

/// All that is known: its own first, which go before the Trainer's of the same name.
pub const KEYS: [Key; OWN.len() + ARGUMENTS.len()] = {
    let mut all = [OWN[0]; OWN.len() + ARGUMENTS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < OWN.len() { OWN[at] } else { ARGUMENTS[at - OWN.len()] };
        at += 1;
    }
    all
};
