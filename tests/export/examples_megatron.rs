//! Example configurations of Megatron-LM, Megatron-Bridge and NeMo, by the settings that shape their runs.

use crate::example::{Example, meaning, refused};

fn arguments<'a>(text: &'a str, cluster: &'a str) -> Example<'a> {
    Example { engine: "megatron", text, model: None, cluster, batch: None }
}

const GPT3: &str = "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 \
    --max-position-embeddings 2048 --vocab-size 50257 --micro-batch-size 1 --global-batch-size 1536 \
    --attention-dropout 0 --hidden-dropout 0 --fp16 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 16";

const LLAMA: &str = "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --kv-channels 128 --seq-length 8192 --max-position-embeddings 8192 \
    --vocab-size 128256 --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \
    --untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0.0 --bf16";

const MIXTRAL: &str = "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
    --group-query-attention --num-query-groups 8 --seq-length 4096 --max-position-embeddings 32768 \
    --vocab-size 32000 --swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope \
    --untie-embeddings-and-output-weights --attention-dropout 0.0 --hidden-dropout 0.0 --bf16 --num-experts 8 \
    --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall";

#[test]
fn the_gpt3_script_needs_more_devices_and_grows_its_batch() {
    let text = format!("{GPT3} --rampup-batch-size 16 16 5859375");
    assert!(refused(&arguments(&text, "1x8xh100-sxm")).contains("does not divide the 8 devices"));
    let read = meaning(&arguments(&text, "16x8xa100-sxm-80gb"));
    assert_eq!(read.batch, 1536);
    let read = meaning(&arguments(GPT3, "16x8xa100-sxm-80gb"));
    // fp16 keeps gradients in fp16 unless told otherwise.
    assert_eq!(read.strategy, "tp=8,pp=16,dp=1,sp=off,zero=0,micro=1,accum=1536,grad=fp16");
    assert_eq!((read.precision.as_str(), read.batch, read.seq_len), ("fp16", 1536, 2048));
}

#[test]
fn the_llama_script_for_fp8() {
    let text = format!(
        "{LLAMA} --micro-batch-size 1 --global-batch-size 128 --fp8-format hybrid --fp8-amax-history-len 1024 \
         --fp8-param-gather --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce \
         --overlap-param-gather --grad-reduce-in-bf16 --calculate-per-token-loss --lr 0.00015"
    );
    let read = meaning(&arguments(&text, "1x8xh100-sxm"));
    assert_eq!(read.strategy, "tp=1,pp=1,dp=8,zero=1,micro=1,accum=16,grad=bf16,reduce=bf16");
    assert_eq!(read.precision, "fp8");
    assert!(read.left.is_empty(), "{:?}", read.left);
}

#[test]
fn the_script_for_megatron_fsdp() {
    let text = format!(
        "{LLAMA} --micro-batch-size 1 --global-batch-size 128 --use-megatron-fsdp \
         --data-parallel-sharding-strategy optim_grads_params --outer-dp-sharding-strategy no_shard \
         --ckpt-format fsdp_dtensor --init-model-with-meta-device"
    );
    let read = meaning(&arguments(&text, "1x8xh100-sxm"));
    assert_eq!(read.strategy, "tp=1,pp=1,dp=8,zero=3,micro=1,accum=16");
}

#[test]
fn the_mixtral_scripts() {
    let shipped = format!(
        "{MIXTRAL} --micro-batch-size 1 --global-batch-size 256 --pipeline-model-parallel-size 4 \
         --expert-model-parallel-size 8 --use-distributed-optimizer --sequence-parallel"
    );
    assert!(refused(&arguments(&shipped, "1x8xh100-sxm")).contains("ep 8"));
    let read = meaning(&arguments(&shipped, "4x8xh100-sxm"));
    assert_eq!(read.strategy, "tp=1,pp=4,dp=8,ep=8,zero=1,micro=1,accum=32");
    let release = format!(
        "{MIXTRAL} --micro-batch-size 1 --global-batch-size 256 --tensor-model-parallel-size 2 --sequence-parallel \
         --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 --expert-model-parallel-size 8 \
         --expert-tensor-parallel-size 1 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather"
    );
    let read = meaning(&arguments(&release, "4x8xh100-sxm"));
    assert_eq!(read.strategy, "tp=2,pp=4,dp=4,ep=8,sched=interleaved,virtual=8,zero=1,micro=1,accum=64");
}

/// Recipes of Megatron-Bridge as arguments of the core, under which its fields go by the same names.
fn bridge(model: &'static str, cluster: &'static str, text: &str) -> String {
    let text = format!("--use-distributed-optimizer --bf16 --attention-dropout 0 --hidden-dropout 0 {text}");
    meaning(&Example { model: Some(model), ..arguments(&text, cluster) }).strategy
}

#[test]
fn recipes_of_megatron_bridge() {
    let (small, large) = ("llama-3.1-8b", "llama-3.1-70b");
    assert_eq!(
        bridge(
            small,
            "1x8xh100-sxm",
            "--seq-length 8192 --context-parallel-size 2 --micro-batch-size 1 \
            --global-batch-size 128 --grad-reduce-in-bf16"
        ),
        "tp=1,cp=2,pp=1,dp=4,zero=1,micro=1,accum=32,grad=bf16,reduce=bf16"
    );
    assert_eq!(
        bridge(
            small,
            "1x8xh100-sxm",
            "--seq-length 8192 --micro-batch-size 1 --global-batch-size 128 \
            --grad-reduce-in-bf16 --fp8-format hybrid --recompute-granularity full --recompute-method block \
            --recompute-num-layers 5"
        ),
        "tp=1,pp=1,dp=8,zero=1,micro=1,accum=16,ckpt=full:5,grad=bf16,reduce=bf16"
    );
    assert_eq!(
        bridge(
            large,
            "8x8xh100-sxm",
            "--seq-length 8192 --tensor-model-parallel-size 4 --sequence-parallel \
            --pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 5 --context-parallel-size 2 \
            --micro-batch-size 1 --global-batch-size 256 --grad-reduce-in-bf16"
        ),
        "tp=4,cp=2,pp=4,dp=2,sched=interleaved,virtual=5,zero=1,micro=1,accum=128,grad=bf16,reduce=bf16"
    );
    let twos = |count: usize| vec!["2"; count].join("/");
    assert_eq!(
        bridge(
            large,
            "8x8xh100-sxm",
            "--seq-length 8192 --tensor-model-parallel-size 4 --sequence-parallel \
            --pipeline-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 256 --grad-reduce-in-bf16 \
            --fp8-format hybrid --pipeline-model-parallel-layout 'Et*2|(t*2|)*34,t*3|(t*2|)*3,tL'"
        ),
        format!(
            "tp=4,pp=8,dp=2,sched=interleaved,virtual=5,cuts={}/3/{}/1,zero=1,micro=1,accum=128,grad=bf16,reduce=bf16",
            twos(35),
            twos(3)
        )
    );
    assert_eq!(
        bridge(
            "llama-3.1-405b",
            "128x8xh100-sxm",
            "--seq-length 8192 --tensor-model-parallel-size 8 \
            --sequence-parallel --pipeline-model-parallel-size 8 --num-virtual-stages-per-pipeline-rank 8 \
            --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split --context-parallel-size 2 \
            --micro-batch-size 1 --global-batch-size 1536 --grad-reduce-in-bf16"
        ),
        "tp=8,cp=2,pp=8,dp=8,sched=interleaved,virtual=8,zero=1,micro=1,accum=192,grad=bf16,reduce=bf16"
    );
    assert_eq!(
        bridge(
            "deepseek-v3",
            "128x8xh100-sxm",
            "--seq-length 4096 --tensor-model-parallel-size 2 \
            --sequence-parallel --pipeline-model-parallel-size 8 --expert-model-parallel-size 64 \
            --expert-tensor-parallel-size 1 --micro-batch-size 1 --global-batch-size 16384 --grad-reduce-in-bf16 \
            --recompute-granularity selective --recompute-modules mla_up_proj mlp \
            --pipeline-model-parallel-layout 'Et|(tt|)*30mL'"
        ),
        format!(
            "tp=2,pp=8,dp=64,ep=64,etp=1,sched=interleaved,virtual=4,cuts=1/{}/0,zero=1,micro=1,accum=256,\
             ckpt=selective,grad=bf16,reduce=bf16",
            twos(30)
        )
    );
}

#[test]
fn recipes_of_nemo() {
    let nemo = |model, cluster, text: &str| {
        let fields = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = format!(
            "{fields} optim.config.use_distributed_optimizer=True trainer.plugins.precision=bf16-mixed"
        );
        meaning(&Example { engine: "nemo", text: &text, model: Some(model), cluster, batch: None }).strategy
    };
    let strategy = "trainer.strategy.";
    let with = |list: &[(&str, &str)]| -> String {
        list.iter().map(|(name, value)| format!("{}={value} ", name.replace('@', strategy))).collect()
    };
    assert_eq!(
        nemo(
            "llama-3.1-70b",
            "4x8xh100-sxm",
            &with(&[
                ("@tensor_model_parallel_size", "4"),
                ("@sequence_parallel", "True"),
                ("@pipeline_model_parallel_size", "4"),
                ("@virtual_pipeline_model_parallel_size", "5"),
                ("@context_parallel_size", "2"),
                ("data.micro_batch_size", "1"),
                ("data.global_batch_size", "512"),
                ("data.seq_length", "8192")
            ])
        ),
        "tp=4,cp=2,pp=4,dp=1,sched=interleaved,virtual=5,zero=1,micro=1,accum=512"
    );
    assert_eq!(
        nemo(
            "llama-3.1-405b",
            "64x8xh100-sxm",
            &with(&[
                ("@tensor_model_parallel_size", "8"),
                ("@sequence_parallel", "True"),
                ("@pipeline_model_parallel_size", "8"),
                ("@virtual_pipeline_model_parallel_size", "2"),
                ("@account_for_embedding_in_pipeline_split", "True"),
                ("@account_for_loss_in_pipeline_split", "True"),
                ("@context_parallel_size", "4"),
                ("data.micro_batch_size", "1"),
                ("data.global_batch_size", "512"),
                ("data.seq_length", "8192")
            ])
        ),
        "tp=8,cp=4,pp=8,dp=2,sched=interleaved,zero=1,micro=1,accum=256"
    );
    assert_eq!(
        nemo(
            "mixtral-8x7b",
            "8x8xh100-sxm",
            &with(&[
                ("@pipeline_model_parallel_size", "4"),
                ("@virtual_pipeline_model_parallel_size", "8"),
                ("@expert_model_parallel_size", "8"),
                ("data.micro_batch_size", "1"),
                ("data.global_batch_size", "512"),
                ("data.seq_length", "4096")
            ])
        ),
        "tp=1,pp=4,dp=16,ep=8,sched=interleaved,virtual=8,zero=1,micro=1,accum=32"
    );
}

#[test]
fn what_is_wrong_is_named() {
    let head = format!("{LLAMA} --micro-batch-size 1 --global-batch-size 128");
    for (rest, wanted) in [
        ("--tensor-model-paralel-size 8", "`tensor-model-paralel-size` is no setting"),
        ("--tensor-model-parallel-size $TP", "--env TP=VALUE"),
        ("--tensor-model-parallel-size 3", "does not divide"),
        ("--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 5", "does not divide"),
        (
            "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4 \
             --num-virtual-stages-per-pipeline-rank 4",
            "contradicts",
        ),
        ("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et|t'", "L stands once"),
        ("--overlap-param-gather", "goes with"),
        ("--fp16", "contradicts --bf16"),
        ("--recompute-granularity full", "--recompute-method"),
        ("--optimizer-cpu-offload", "--use-precision-aware-optimizer"),
        ("--cp-comm-type ring", "p2p"),
        ("--title 'open", "not closed"),
    ] {
        let text = format!("{head} {rest}");
        let error = refused(&arguments(&text, "1x8xh100-sxm"));
        assert!(error.contains(wanted), "{rest}: {error}");
    }
    let odd = format!("{LLAMA} --micro-batch-size 1 --global-batch-size 130");
    assert!(refused(&arguments(&odd, "1x8xh100-sxm")).contains("multiple"));
}
