//! Configurations that DeepSpeed and Accelerate ship for DeepSpeed, with the settings that shape the run: what they mean.

use meshwright::model::{self, Model};
use meshwright::units::ElementType;

use crate::reading::Reading;

fn llama() -> Model {
    model::load("llama-3.1-8b").expect("a preset")
}

/// Two layers of width 128 with 8 heads.
fn small() -> Model {
    let text =
        r#"{"model_type":"gpt2","n_embd":128,"n_layer":2,"n_head":8,"n_positions":64,"vocab_size":32000}"#;
    model::from_text(text, "config.json", "small").expect("the configuration is legal")
}

fn reading<'a>(model: &'a Model, cluster: &'a str, global_batch: Option<u64>) -> Reading<'a> {
    Reading { target: "deepspeed@0.19", model, cluster, global_batch, seq_len: Some(1024) }
}

/// D-1: DeepSpeed 0.19, examples/sdma_allgather/ds_config_zero3.json.
#[test]
fn stage_3_with_small_buckets() {
    let text = r#"{
        "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "steps_per_print": 1,
        "bf16": {"enabled": true},
        "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e7,
            "contiguous_gradients": true, "stage3_prefetch_bucket_size": 5e7}
    }"#;
    let model = llama();
    let reading = reading(&model, "1x8xh100-sxm", None);
    assert_eq!(reading.strategy(text), "tp=1,pp=1,dp=8,zero=3,micro=1,accum=1,bucket=50M");
    let meaning = reading.understood(text).unwrap().meaning;
    assert_eq!((meaning.global_batch, meaning.precision), (Some(8), Some(ElementType::Bf16)));
    assert_eq!((meaning.draft.gradient_type, meaning.clip), (Some(ElementType::Bf16), Some(1.0)));
    assert!(
        meaning.notes.iter().any(|note| note.contains("recompute is said in Python")),
        "{:?}",
        meaning.notes
    );
}

/// D-2: DeepSpeed 0.19, tests/model/Megatron_GPT2/ds_config_func_bs8_zero2_gas3.json; Megatron splits over two ranks.
#[test]
fn what_megatron_splits_is_asked_for() {
    let text = |more: &str| {
        format!(
            r#"{{"train_batch_size": 48, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 3,
                "steps_per_print": 1, "zero_optimization": {{"stage": 2, "reduce_bucket_size": 7000000,
                "allgather_bucket_size": 7000000, "reduce_scatter": true, "overlap_comm": true}},
                "gradient_clipping": 1.0{more}, "fp16": {{"enabled": true, "loss_scale": 0}}}}"#
        )
    };
    let model = small();
    let reading = reading(&model, "1x4xh100-sxm", None);
    let (field, message) = reading.refusal(&text(""));
    assert_eq!(field, "train_batch_size");
    assert!(message.contains("multiply to 96") && message.contains("autotp_size"), "{message}");
    assert_eq!(
        reading.strategy(&text(r#", "tensor_parallel": {"tp": {"tp_size": 2}}"#)),
        "tp=2,pp=1,dp=2,sp=off,zero=2,micro=8,accum=3,bucket=7M"
    );
}

/// D-3: Accelerate 1.15, examples/deepspeed_config_templates/zero_stage3_offload_config.json.
#[test]
fn what_others_fill_in_is_asked_for() {
    let text = r#"{
        "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto"}},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": true},
            "offload_param": {"device": "cpu", "pin_memory": true}, "overlap_comm": true, "contiguous_gradients": true,
            "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto", "sub_group_size": 1e9,
            "stage3_gather_16bit_weights_on_model_save": "auto"},
        "gradient_accumulation_steps": 1, "gradient_clipping": "auto", "steps_per_print": 2000,
        "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "wall_clock_breakdown": false
    }"#;
    let model = llama();
    let (field, message) = reading(&model, "1x8xh100-sxm", None).refusal(text);
    assert_eq!(field, "train_micro_batch_size_per_gpu");
    assert!(message.contains("is auto") && message.contains("--global-batch N"), "{message}");
    let reading = reading(&model, "1x8xh100-sxm", Some(16));
    // The bucket is the square of the width, as transformers fill it in.
    assert_eq!(
        reading.strategy(text),
        "tp=1,pp=1,dp=8,zero=3,micro=2,accum=1,offload=optimizer:1+params:1,bucket=16777216"
    );
    assert_eq!(reading.understood(text).unwrap().meaning.clip, None);
    let (field, message) = reading.refusal(
        &text.replace(r#""gradient_accumulation_steps": 1"#, r#""gradient_accumulation_steps": "auto""#),
    );
    assert_eq!(field, "train_micro_batch_size_per_gpu");
    assert!(message.contains("--strategy micro=N"), "{message}");
}

/// D-4: Accelerate 1.15, examples/alst_ulysses_sequence_parallelism/sp-alst.ds-config.json.
#[test]
fn ulysses_that_stands_in_python_is_asked_for() {
    let text = |more: &str| {
        format!(
            r#"{{"zero_optimization": {{"stage": 3}}, "bf16": {{"enabled": true}}{more},
                "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}}"#
        )
    };
    let model = llama();
    let reading = reading(&model, "1x4xh100-sxm", Some(1));
    let (field, message) = reading.refusal(&text(""));
    assert_eq!(field, "train_micro_batch_size_per_gpu");
    assert!(message.contains("sequence_parallel_size"), "{message}");
    assert_eq!(
        reading.strategy(&text(r#", "sequence_parallel_size": 4, "data_parallel_size": 1"#)),
        "tp=1,cp=4,pp=1,dp=1,cp_kind=ulysses,zero=3,micro=1,accum=1,bucket=500M"
    );
    let (field, message) =
        reading.refusal(&text(r#", "sequence_parallel_size": 4, "data_parallel_size": 2"#));
    assert_eq!(field, "data_parallel_size");
    assert!(message.contains("leave 1 of 4"), "{message}");
}

#[test]
fn pipelines_are_cut_and_recompute_as_their_section_says() {
    let text = |stage: u8| {
        format!(
            r#"{{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2, "bf16": {{"enabled": true}},
                "zero_optimization": {{"stage": {stage}}}, "gradient_clipping": 0.5,
                "pipeline": {{"stages": 4, "partition": "type:Block", "activation_checkpoint_interval": 1}}}}"#
        )
    };
    let text = |stage| text(stage).replace("\"stages\": 4", "\"stages\": 8");
    let llama = r#"{"model_type":"llama","hidden_size":1024,"num_hidden_layers":10,"num_attention_heads":16,
        "num_key_value_heads":8,"intermediate_size":2816,"max_position_embeddings":4096,"vocab_size":32000}"#;
    let model = model::from_text(llama, "config.json", "ten blocks").unwrap();
    let reading = reading(&model, "2x8xh100-sxm", None);
    // What is left over goes to the first stages.
    assert_eq!(
        reading.strategy(&text(1)),
        "tp=1,pp=8,dp=2,cuts=2/2/1/1/1/1/1/1,zero=1,micro=2,accum=8,ckpt=full,bucket=500M"
    );
    assert_eq!(reading.understood(&text(1)).unwrap().meaning.clip, Some(0.5));
    let (field, message) = reading.refusal(&text(3));
    assert_eq!(field, "zero_optimization.stage");
    assert!(message.contains("stages 0 and 1 only"), "{message}");
}

#[test]
fn what_deepspeed_refuses_or_is_not_modelled_is_refused_by_name() {
    let model = llama();
    let reading = reading(&model, "1x8xh100-sxm", Some(8));
    for (more, field, part) in [
        (r#""amp": {"enabled": true}"#, "amp.enabled", "lost this feature"),
        (r#""bf16": {"enabled": true}, "fp16": {"enabled": true}"#, "fp16.enabled", "contradicts"),
        (
            r#""bf16": {"enabled": true, "bf16_master_weights_and_grads": true}"#,
            "bf16.bf16_master_weights_and_grads",
            "not modelled",
        ),
        (r#""zero_optimization": {"stage": 4}"#, "zero_optimization.stage", "0, 1, 2 or 3"),
        (
            r#""zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}"#,
            "zero_optimization.zero_hpz_partition_size",
            "second copy",
        ),
        (
            r#""zero_optimization": {"stage": 3, "zero_quantized_weights": true}"#,
            "zero_optimization.zero_quantized_weights",
            "not modelled",
        ),
        (
            r#""zero_optimization": {"stage": 3, "offload_param": {"device": "nvme", "nvme_path": "/x"}}"#,
            "zero_optimization.offload_param.device",
            "NVMe",
        ),
        (
            r#""bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}"#,
            "data_types.grad_accum_dtype",
            "without ZeRO",
        ),
        (r#""tensor_parallel": {"autotp_size": 3}"#, "tensor_parallel.autotp_size", "8 devices"),
        (r#""train_batch_size": 12"#, "train_batch_size", "multiple of 8"),
        (
            r#""zero_optimization": {"stage": 1, "stage_two": true}"#,
            "zero_optimization.stage_two",
            "no such key",
        ),
        (
            r#""zero_optimization": {"stage": 1, "reduce_buckets_size": 5}"#,
            "zero_optimization.reduce_buckets_size",
            "no setting",
        ),
        (r#""optimizer": {"type": "Muon"}"#, "optimizer.type", "two moments"),
        (r#""gradient_clipping": -1"#, "gradient_clipping", "at least 0"),
    ] {
        let text = format!("{{\"train_micro_batch_size_per_gpu\": 1, {more}}}");
        let (found, message) = reading.refusal(&text);
        assert_eq!(found, field, "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn experts_are_spread_by_their_section() {
    let mixtral = r#"{"model_type":"mixtral","hidden_size":512,"num_hidden_layers":8,"num_attention_heads":8,
        "num_key_value_heads":4,"intermediate_size":1024,"max_position_embeddings":4096,"num_local_experts":8,
        "num_experts_per_tok":2,"vocab_size":32000}"#;
    let model = model::from_text(mixtral, "config.json", "mixtral").unwrap();
    let reading = reading(&model, "1x8xh100-sxm", None);
    let text = |section: &str| {
        format!(
            r#"{{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}}, "zero_optimization": {{"stage": 1}},
                "tensor_parallel": {{"autotp_size": 2}}, "expert_parallel": {{{section}}}}}"#
        )
    };
    assert_eq!(
        reading.strategy(&text(r#""enabled": true, "autoep_size": 4, "preset_model": "mixtral""#)),
        "tp=2,pp=1,dp=4,sp=off,ep=4,etp=1,zero=1,micro=1,accum=1,bucket=500M"
    );
    // AutoTP alone splits experts too.
    assert_eq!(
        reading.strategy(&text(r#""enabled": false, "autoep_size": 4"#)),
        "tp=2,pp=1,dp=4,sp=off,zero=1,micro=1,accum=1,bucket=500M"
    );
    let (field, message) =
        reading.refusal(&text(r#""enabled": true, "autoep_size": 4, "expert_tensor_parallel_size": 2"#));
    assert_eq!(field, "expert_parallel.expert_tensor_parallel_size");
    assert!(message.contains("1 only"), "{message}");
    let (field, _) = reading.refusal(&text(r#""enabled": true"#));
    assert_eq!(field, "expert_parallel.autoep_size");
}
