//! MaxText's own examples, by the arguments that shape a run: what they mean, and what is refused.

use meshwright::model::{self, Model};

use crate::reading::Reading;

fn reading<'a>(model: &'a Model, cluster: &'a str) -> Reading<'a> {
    Reading { target: "maxtext", model, cluster, global_batch: None, seq_len: None }
}

fn meant(text: &str, model: &str, cluster: &str) -> Result<String, String> {
    let model = model::load(model).unwrap();
    reading(&model, cluster).tried(text)
}

#[test]
fn x1_the_largest_llama_on_128_nodes() {
    let text = "python3 -m maxtext.trainers.pre_train.train base.yml run_name=r hardware=gpu steps=10 \\\n  \
                model_name=llama3.1-405b attention=cudnn_flash_te remat_policy=full use_iota_embed=True scan_layers=True \\\n  \
                per_device_batch_size=1.0 max_target_length=8192 dcn_fsdp_parallelism=128 ici_fsdp_parallelism=8\n";
    let strategy = meant(text, "llama-3.1-405b", "128x8xh100-sxm").unwrap();
    assert_eq!(strategy, "tp=1,pp=1,dp=1024,zero=3,micro=1,accum=1,ckpt=full");
}

#[test]
fn x2_replicas_between_nodes() {
    let text = "hardware=gpu model_name=llama2-7b attention=cudnn_flash_te remat_policy=minimal_with_context \
                per_device_batch_size=4 max_target_length=4096 dcn_data_parallelism=16 ici_fsdp_parallelism=8";
    let strategy = meant(text, "llama-2-7b", "16x8xh100-sxm").unwrap();
    assert_eq!(strategy, "tp=1,pp=1,dp=128,zero=3,shard=8,micro=4,accum=1,ckpt=selective");
}

#[test]
fn x3_a_batch_that_tensor_ranks_count_in() {
    let text = "model_name=gpt3-175b per_device_batch_size=1 ici_data_parallelism=16 ici_fsdp_parallelism=48 \
                ici_tensor_parallelism=8 dcn_data_parallelism=1 remat_policy=minimal quantization=int8 attention=flash";
    let model = model::load("gpt3-175b").unwrap();
    let reading = reading(&model, "768x8xh100-sxm");
    assert_eq!(
        reading.strategy(text),
        "tp=8,pp=1,dp=768,sp=off,zero=3,shard=48,micro=8,accum=1,ckpt=selective"
    );
    let notes = reading.understood(text).unwrap().meaning.notes;
    assert!(notes.iter().any(|note| note.contains("int8")), "{notes:?}");
}

#[test]
fn what_changes_a_run_is_refused_by_name() {
    let base = "hardware=gpu model_name=llama3.1-8b per_device_batch_size=1 max_target_length=4096 remat_policy=full \
                dcn_data_parallelism=1 ici_fsdp_parallelism=8";
    assert_eq!(
        meant(base, "llama-3.1-8b", "1x8xh100-sxm").unwrap(),
        "tp=1,pp=1,dp=8,zero=3,micro=1,accum=1,ckpt=full"
    );
    for (added, said) in [
        ("remat_policy=custom", "single tensors"),
        ("ici_fsdp_parallelism=4", "multiply to 4"),
        ("ici_fsdp_transpose_parallelism=2", "fsdp_transpose"),
        ("per_device_batch_size=0.3", "whole number"),
        ("weight_dtype=bfloat16", "weight_dtype"),
        ("opt_type=sgd", "adamw"),
        ("gradient_accumulation_steps=2 quantization=fp8", "fp8"),
        ("context_parallel_strategy=usp", "usp"),
        ("use_dpo=True", "use_dpo"),
        ("remat_policy=fulll", "remat_policy"),
        ("ici_pipeline_parallelism=2 ici_fsdp_parallelism=4", "go round 16 times"),
        (
            "ici_pipeline_parallelism=2 ici_fsdp_parallelism=4 num_layers_per_pipeline_stage=16 num_pipeline_microbatches=3",
            "multiple of the 2",
        ),
    ] {
        let kept = base.split(' ').filter(|word| {
            let name = word.split('=').next().unwrap_or_default();
            !added.split(' ').any(|new| new.split('=').next() == Some(name))
        });
        let text = kept.chain([added]).collect::<Vec<_>>().join(" ");
        let refused = meant(&text, "llama-3.1-8b", "1x8xh100-sxm").unwrap_err();
        assert!(refused.contains(said), "{added}: {refused}");
    }
}

#[test]
fn weights_are_split_over_context_ranks_too() {
    let text = "hardware=gpu model_name=llama3.1-8b per_device_batch_size=1 max_target_length=4096 remat_policy=full \
                dcn_data_parallelism=1 ici_fsdp_parallelism=1 ici_data_parallelism=4 ici_context_parallelism=2 \
                context_parallel_strategy=ring";
    let strategy = meant(text, "llama-3.1-8b", "1x8xh100-sxm").unwrap();
    assert_eq!(strategy, "tp=1,cp=2,pp=1,dp=4,zero=3,shard=1,micro=2,accum=1,ckpt=full");
}
