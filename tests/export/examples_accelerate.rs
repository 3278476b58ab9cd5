//! Configurations that Accelerate ships, with the settings that shape the run: what they mean.

use meshwright::model::{self, Model};
use meshwright::units::ElementType;

use crate::reading::Reading;

fn llama() -> Model {
    model::load("llama-3.1-8b").expect("a preset")
}

fn reading<'a>(model: &'a Model, cluster: &'a str, global_batch: Option<u64>) -> Reading<'a> {
    Reading { target: "accelerate@1.15", model, cluster, global_batch, seq_len: Some(1024) }
}

/// What all files of FSDP2 say alike, around the lines that differ.
fn second(fsdp: &str, more: &str) -> String {
    format!(
        "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: FSDP\ndowncast_bf16: 'no'\nfsdp_config:\n  \
         fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_cpu_ram_efficient_loading: true\n  \
         fsdp_state_dict_type: SHARDED_STATE_DICT\n  fsdp_version: 2\n{fsdp}machine_rank: 0\nmain_training_function: main\n\
         mixed_precision: bf16\nnum_machines: 1\nrdzv_backend: static\nsame_network: true\nuse_cpu: false\n{more}"
    )
}

/// Accelerate 1.15, examples/torch_native_parallelism/configs/cp.yaml.
#[test]
fn context_parallelism_over_eight() {
    let text = second(
        "  fsdp_activation_checkpointing: true\n  fsdp_offload_params: false\n  fsdp_reshard_after_forward: true\n",
        "num_processes: 8\nparallelism_config:\n  parallelism_config_dp_replicate_size: 1\n  \
         parallelism_config_dp_shard_size: 1\n  parallelism_config_tp_size: 1\n  parallelism_config_cp_size: 8\n  \
         parallelism_config_cp_comm_strategy: alltoall\n",
    );
    let model = llama();
    let reading = reading(&model, "1x8xh100-sxm", Some(1));
    assert_eq!(reading.strategy(&text), "tp=1,cp=8,pp=1,dp=1,zero=3,micro=1,accum=1,ckpt=full");
    assert_eq!(reading.understood(&text).unwrap().meaning.precision, Some(ElementType::Bf16));
}

/// Accelerate 1.15, examples/torch_native_parallelism/configs/tp_hsdp.yaml.
#[test]
fn tensor_parallelism_beside_shard_groups() {
    let sizes = "num_processes: 8\nparallelism_config:\n  parallelism_config_dp_replicate_size: 2\n  \
         parallelism_config_dp_shard_size: 2\n  parallelism_config_tp_size: 2\n  parallelism_config_cp_size: 1\n";
    let text = second("  fsdp_offload_params: false\n  fsdp_reshard_after_forward: true\n", sizes);
    let model = llama();
    let wanted = "tp=2,pp=1,dp=4,sp=off,zero=3,shard=2,micro=1,accum=1";
    assert_eq!(reading(&model, "1x8xh100-sxm", Some(4)).strategy(&text), wanted);
    // The batch is the training script's.
    let (field, message) = reading(&model, "1x8xh100-sxm", None).refusal(&text);
    assert_eq!(
        (field.as_str(), message.as_str()),
        ("global-batch", "the file does not say the global batch: give --global-batch N")
    );
    let (field, message) = reading(&model, "1x8xh100-sxm", Some(4))
        .refusal(&text.replace("parallelism_config_tp_size: 2", "tp_size: 2"));
    assert_eq!(field, "parallelism_config.tp_size");
    assert!(message.contains("without its prefix"), "{message}");
    let (field, message) = reading(&model, "2x8xh100-sxm", Some(4)).refusal(&text);
    assert_eq!(field, "num_processes");
    assert!(message.contains("16 devices"), "{message}");
}

/// Accelerate 1.15, examples/config_yaml_templates/fsdp.yaml.
#[test]
fn version_1_is_read_as_version_2() {
    let text = "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: FSDP\nmixed_precision: 'no'\n\
        fsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_backward_prefetch: BACKWARD_PRE\n  \
        fsdp_forward_prefetch: false\n  fsdp_cpu_ram_efficient_loading: true\n  fsdp_offload_params: false\n  \
        fsdp_sharding_strategy: FULL_SHARD\n  fsdp_state_dict_type: SHARDED_STATE_DICT\n  \
        fsdp_sync_module_states: true\n  fsdp_transformer_layer_cls_to_wrap: BertLayer\n  fsdp_use_orig_params: true\n\
        machine_rank: 0\nmain_training_function: main\nnum_machines: 1\nnum_processes: 4\n";
    let model = llama();
    let reading = reading(&model, "1x4xh100-sxm", Some(8));
    assert_eq!(reading.strategy(text), "tp=1,pp=1,dp=4,zero=3,micro=1,accum=2,sync=deferred");
    let meaning = reading.understood(text).unwrap().meaning;
    assert_eq!(meaning.precision, Some(ElementType::Fp32));
    assert!(meaning.notes.iter().any(|note| note.contains("version 1")), "{:?}", meaning.notes);
    for (name, wanted) in [
        ("SHARD_GRAD_OP", "tp=1,pp=1,dp=4,zero=3,reshard=off,micro=1,accum=2,sync=deferred"),
        ("2", "tp=1,pp=1,dp=4,zero=3,reshard=off,micro=1,accum=2,sync=deferred"),
        ("NO_SHARD", "tp=1,pp=1,dp=4,zero=0,micro=1,accum=2"),
        ("HYBRID_SHARD", "tp=1,pp=1,dp=4,zero=3,micro=1,accum=2,sync=deferred"),
    ] {
        assert_eq!(reading.strategy(&text.replace("FULL_SHARD", name)), wanted, "{name}");
    }
    let (field, message) = reading.refusal(&text.replace("FULL_SHARD", "FULL"));
    assert_eq!(field, "fsdp_config.fsdp_sharding_strategy");
    assert!(message.contains("SHARD_GRAD_OP"), "{message}");
}

#[test]
fn other_kinds_of_runs_are_refused_with_what_to_read() {
    let model = llama();
    let reading = reading(&model, "1x4xh100-sxm", Some(8));
    let file = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: zero3.json\n  zero3_init_flag: true\n";
    for (text, field, part) in [
        (file, "deepspeed_config.deepspeed_config_file", "none lies beside"),
        (
            "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 4\n  gradient_accumulation_steps: 1\n",
            "deepspeed_config.zero_stage",
            "line 3: `deepspeed_config.zero_stage` is 4",
        ),
        (
            "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stge: 3\n",
            "deepspeed_config.zero_stge",
            "no such key in this section",
        ),
        (
            "distributed_type: MEGATRON_LM\nmegatron_lm_config:\n  megatron_lm_tp_degre: 2\n",
            "megatron_lm_config.megatron_lm_tp_degre",
            "not read here",
        ),
        ("distributed_type: FDSP\n", "distributed_type", "FSDP"),
        ("mixed_precision: bf16\n", "distributed_type", "is missing"),
        ("distributed_type: FSDP\nnum_proceses: 4\n", "num_proceses", "no such key"),
        ("distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 3\n", "fsdp_config.fsdp_version", "1 or 2"),
        (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: FULL_SHARD\n",
            "fsdp_config.fsdp_reshard_after_forward",
            "true or false",
        ),
        (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_auto_wrap_policy: NO_WRAP\n",
            "fsdp_config.fsdp_auto_wrap_policy",
            "gathered whole",
        ),
        (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nparallelism_config:\n  parallelism_config_sp_size: 2\n",
            "parallelism_config.parallelism_config_sp_size",
            "DEEPSPEED",
        ),
    ] {
        let (found, message) = reading.refusal(text);
        assert_eq!(found, field, "{message}");
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn ddp_and_offloaded_activations_are_read() {
    let model = llama();
    let ddp = "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 4\n";
    let plain = reading(&model, "1x4xh100-sxm", Some(8));
    assert_eq!(plain.strategy(ddp), "tp=1,pp=1,dp=4,zero=0,micro=1,accum=2");
    let text = second(
        "  fsdp_activation_checkpointing: true\n  fsdp_activation_checkpointing_offload: true\n  \
         fsdp_offload_params: true\n  fsdp_reshard_after_forward: false\n",
        "num_processes: 4\ndynamo_config:\n  dynamo_backend: INDUCTOR\n",
    );
    let understood = plain.understood(&text).unwrap();
    assert!(understood.meaning.is_compiled);
    assert_eq!(
        plain.strategy(&text),
        "tp=1,pp=1,dp=4,zero=3,reshard=off,micro=1,accum=2,sync=deferred,ckpt=full,\
         offload=optimizer:1+params:1+activations:1"
    );
}
