//! Examples of ColossalAI and Open-Sora, by the arguments that shape a run: what they mean, and what is refused.

use meshwright::model;

use crate::reading::Reading;

fn meant(
    target: &str,
    text: &str,
    model: &str,
    cluster: &str,
    global_batch: Option<u64>,
) -> Result<String, String> {
    let model = model::load(model).unwrap();
    Reading { target, model: &model, cluster, global_batch, seq_len: None }.tried(text)
}

#[test]
fn c1_three_dimensions() {
    let text = "plugin = HybridParallelPlugin(tp_size=4, pp_size=2, zero_stage=0, microbatch_size=1, precision=\"bf16\",\n    \
                enable_flash_attention=True)\nbatch_size = 8\nmax_length = 4096\ngradient_checkpointing = True\n";
    let strategy = meant("colossalai", text, "llama-2-70b", "2x8xh100-sxm", None).unwrap();
    // 25 MB of bf16 are 13 107 200 elements.
    let expected = "tp=4,pp=2,dp=2,sp=off,zero=0,micro=1,accum=8,ckpt=full";
    assert!(strategy.starts_with(expected), "{strategy}");
    assert!(strategy.contains("bucket=13107200"), "{strategy}");
}

#[test]
fn c2_gemini() {
    let text = "from colossalai.booster.plugin import GeminiPlugin\n\nplugin = GeminiPlugin(\n    precision=\"bf16\",\n    \
                placement_policy=\"static\",\n    shard_param_frac=1.0,\n    offload_optim_frac=0.0,\n    tp_size=1,\n    \
                extra_dp_size=1,\n    enable_flash_attention=True,\n)\nbatch_size = 16\nmax_length = 4096\n\
                gradient_checkpointing = True\n";
    let strategy = meant("colossalai", text, "llama-2-7b", "4x8xh100-sxm", None).unwrap();
    assert!(strategy.starts_with("tp=1,pp=1,dp=32,zero=3,micro=16,accum=1,ckpt=full"), "{strategy}");
}

#[test]
fn c3_layers_and_recomputation_of_each_chunk() {
    let text = "plugin = HybridParallelPlugin(\n    tp_size=4, pp_size=2, precision='bf16', pp_style='interleaved', num_model_chunks=2,\n    \
                num_layers_per_stage=[19, 20, 20, 21], microbatch_size=1, enable_flash_attention=True,\n    \
                gradient_checkpoint_config=PipelineGradientCheckpointConfig(num_ckpt_layers_per_stage=[19, 19, 19, 13]),\n)\n\
                batch_size = 8\nmax_length = 4096\ngradient_checkpointing = True\n";
    let strategy = meant("colossalai", text, "llama-2-70b", "8x8xh100-sxm", None).unwrap();
    let expected = "tp=4,pp=2,dp=8,sp=off,sched=interleaved,cuts=19/20/20/21,zero=0,micro=1,accum=8,\
                    ckpt=full/full:19@2/full:13";
    assert!(strategy.starts_with(expected), "{strategy}");
}

#[test]
fn a_v_counts_the_second_chunks_backwards() {
    let text = "plugin = HybridParallelPlugin(tp_size=1, pp_size=4, precision='bf16', pp_style='zbv', num_model_chunks=2,\n    \
                scheduler_nodes=nodes, num_layers_per_stage=[4, 4, 4, 4, 4, 4, 4, 4], microbatch_size=1,\n    \
                gradient_checkpoint_config=PipelineGradientCheckpointConfig(num_ckpt_layers_per_stage=[1, 0, 0, 0, 3, 0, 0, 0]))\n\
                batch_size = 8\ngradient_checkpointing = True\n";
    let strategy = meant("colossalai", text, "llama-2-7b", "1x4xh100-sxm", None).unwrap();
    let expected = "ckpt=full:1/none@6/full:3";
    assert!(strategy.contains(expected), "{strategy}");
}

#[test]
fn what_changes_a_run_is_refused_by_name() {
    let base = "plugin = HybridParallelPlugin(tp_size=2, pp_size=1, precision='bf16', zero_stage=2)\nbatch_size = 1\n";
    let read = |text: &str| meant("colossalai", text, "llama-2-7b", "1x8xh100-sxm", None);
    assert!(read(base).unwrap().starts_with("tp=2,pp=1,dp=4,sp=off,zero=2,micro=1,accum=1"));
    for (from, to, said) in [
        ("tp_size=2, ", "", "plugin.tp_size"),
        ("tp_size=2", "tp_size=3", "does not divide the 8 devices"),
        ("zero_stage=2", "zero_stage=3", "GeminiPlugin"),
        ("pp_size=1", "pp_size=2, microbatch_size=1", "with a pipeline it is 0 or 1"),
        ("precision='bf16'", "precision='fp32'", "fp16 and bf16 only"),
        ("precision='bf16'", "precision='bf16', sp_size=2", "enable_sequence_parallelism"),
        ("precision='bf16'", "precision=kind", "settled outside"),
        ("HybridParallelPlugin", "TorchFSDPPlugin", "HybridParallelPlugin"),
        ("batch_size = 1", "other = GeminiPlugin()\nbatch_size = 1", "makes another plugin"),
    ] {
        let refused = read(&base.replace(from, to)).unwrap_err();
        assert!(refused.contains(said), "{to}: {refused}");
    }
}

#[test]
fn gemini_keeps_copies_and_low_level_zero_does_not() {
    let gemini = "plugin = GeminiPlugin(precision='bf16', tp_size=2, extra_dp_size=2, enable_flash_attention=True)\nbatch_size = 1\n";
    let strategy = meant("colossalai", gemini, "llama-2-7b", "2x8xh100-sxm", None).unwrap();
    assert!(strategy.starts_with("tp=2,pp=1,dp=8,sp=off,zero=3,shard=4,"), "{strategy}");
    let low = "plugin = LowLevelZeroPlugin(stage=1, precision='bf16', extra_dp_size=2)\nbatch_size = 1\n";
    let strategy = meant("colossalai", low, "llama-2-7b", "2x8xh100-sxm", None).unwrap();
    assert!(strategy.starts_with("tp=1,pp=1,dp=16,zero=1,micro=1"), "{strategy}");
}

#[test]
fn open_sora_s_second_stage() {
    let text = "_base_ = [\"image.py\"]\ngrad_ckpt_settings = (100, 100)  # one GPU\nplugin = \"hybrid\"\nplugin_config = dict(\n    \
                tp_size=1,\n    pp_size=1,\n    sp_size=4,\n    sequence_parallelism_mode=\"ring_attn\",\n    \
                enable_sequence_parallelism=True,\n    static_graph=True,\n    zero_stage=2,\n)\nbucket_config = {\n    \
                \"_delete_\": True,\n    \"768px\": {1: (1.0, 38), 129: (1.0, 2)},\n}\nmodel = dict(from_pretrained=None)\n\
                lr = 5e-5\noptim = dict(lr=lr)\nckpt_every = 200\ngrad_clip = 1.0\naccumulation_steps = 1\ndtype = \"bf16\"\n";
    let refused = meant("open-sora", text, "llama-2-7b", "1x8xh100-sxm", None).unwrap_err();
    assert!(refused.contains("global batch"), "{refused}");
    let strategy = meant("open-sora", text, "llama-2-7b", "1x8xh100-sxm", Some(4)).unwrap();
    assert!(strategy.starts_with("tp=1,cp=4,pp=1,dp=2,zero=2,micro=2,accum=1,ckpt=full"), "{strategy}");
    let zero = "plugin = \"zero2\"\nplugin_config = dict(reduce_bucket_size_in_m=128, overlap_allgather=False)\nbatch_size = 2\n\
                grad_checkpoint = False\n";
    let strategy = meant("open-sora", zero, "llama-2-7b", "1x8xh100-sxm", None).unwrap();
    assert!(strategy.starts_with("tp=1,pp=1,dp=8,zero=2,micro=2,accum=1"), "{strategy}");
    assert!(strategy.contains("bucket=134217728"), "{strategy}");
}
