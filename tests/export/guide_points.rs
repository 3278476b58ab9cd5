//! Configurations that engines recommend: they import, fit, and where somebody measured them are predicted as well as
//! the plan's own interval says.

use meshwright::cluster;
use meshwright::export::beside::Beside;
use meshwright::export::import::{Given, meaning_of};
use meshwright::export::{Reach, Scene, Target, profile_of};
use meshwright::model;
use meshwright::plan::{self, Plan};
use meshwright::search::Problem;
use meshwright::strategy::Workload;
use meshwright::units::ElementType;

/// The plan document of what `text`, a file of `target`, means.
fn imported(target: &str, model: &str, cluster: &str, text: &str) -> Plan {
    let target = Target::parse(target).expect("a target");
    let model = model::load(model).expect("a model");
    let cluster = cluster::load(cluster).expect("a cluster");
    let scene = Scene {
        model: &model,
        devices: cluster.devices(),
        devices_per_node: u64::from(cluster.devices_per_node),
        global_batch: None,
        seq_len: None,
        typed: None,
    };
    let given = Given { path: "file", text, ranks: None, beside: Beside::Nothing };
    let meaning =
        meaning_of(target, &given, &scene).unwrap_or_else(|error| panic!("{text}: {error}")).meaning;
    let workload = Workload {
        global_batch: meaning.global_batch.expect("a batch"),
        seq_len: meaning.seq_len.expect("a length"),
        precision: meaning.precision.unwrap_or(ElementType::Bf16),
        dropout: meaning.dropout.unwrap_or(0.0),
        clip: meaning.clip.unwrap_or(1.0),
    };
    let profile = profile_of(target, &meaning, Reach::Files);
    let problem = Problem::new(&model, &cluster, workload, &profile, None);
    plan::simulate_draft(&problem, &meaning.draft).unwrap_or_else(|broken| panic!("{text}: {broken}"))
}

fn arguments(seq_len: u64, batch: u64, rest: &str) -> String {
    format!(
        "--seq-length {seq_len} --global-batch-size {batch} --micro-batch-size 1 --use-distributed-optimizer --bf16 \
         --attention-dropout 0 --hidden-dropout 0 --overlap-grad-reduce --overlap-param-gather --grad-reduce-in-bf16 {rest}"
    )
}

/// NVIDIA's guide to parallelism, in the documentation of Megatron core (parallelism-guide.md): sizes of the axes. Gradients
/// are kept in bf16, as in its recipes for speed.
#[test]
fn the_points_of_the_megatron_guide_fit() {
    let points = [
        ("llama-3.1-8b", "1x8xh100-sxm", 8192, 128, "--context-parallel-size 2"),
        (
            "llama-3.1-70b",
            "8x8xh100-sxm",
            8192,
            128,
            "--tensor-model-parallel-size 4 --sequence-parallel --pipeline-model-parallel-size 4 --context-parallel-size 2",
        ),
        (
            "llama-3.1-405b",
            "128x8xh100-sxm",
            8192,
            512,
            "--tensor-model-parallel-size 8 --sequence-parallel --pipeline-model-parallel-size 8 \
             --context-parallel-size 2 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split",
        ),
        (
            "gpt3-175b",
            "16x8xh100-sxm",
            2048,
            256,
            "--tensor-model-parallel-size 4 --sequence-parallel --pipeline-model-parallel-size 8",
        ),
        (
            "mixtral-8x7b",
            "8x8xh100-sxm",
            4096,
            256,
            "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 \
             --num-virtual-stages-per-pipeline-rank 8",
        ),
        (
            "deepseek-v3",
            "128x8xh100-sxm",
            4096,
            8192,
            "--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 16 \
             --expert-model-parallel-size 64 --expert-tensor-parallel-size 1 \
             --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
             --pipeline-model-parallel-layout 'Et*3|(t*4|)*14,t*2L'",
        ),
    ];
    for (model, cluster, seq_len, batch, rest) in points {
        let plan = imported("megatron", model, cluster, &arguments(seq_len, batch, rest));
        assert!(plan.prediction.fits, "{model}: {:?}", plan.prediction.safe_memory_bytes);
    }
}

/// Recipes with their measured steps: `traces/published/dgxc-benchmarking.json` and `megatron-bridge.json`.
#[test]
fn recipes_are_predicted_as_well_as_is_said() {
    let strategy = "trainer.strategy.";
    let nemo = |batch: u64, rest: &str| {
        format!(
            "{strategy}context_parallel_size=2 data.micro_batch_size=1 data.global_batch_size={batch} data.seq_length=8192 \
             optim.config.use_distributed_optimizer=True trainer.plugins.precision=bf16-mixed \
             trainer.plugins.grad_reduce_in_fp32=False {}",
            rest.replace('@', strategy)
        )
    };
    let large = "@tensor_model_parallel_size=8 @sequence_parallel=True @pipeline_model_parallel_size=8 \
                 @virtual_pipeline_model_parallel_size=8 @account_for_embedding_in_pipeline_split=True \
                 @account_for_loss_in_pipeline_split=True";
    let runs = [
        ("dgxc-llama31-8b-h100-8-bf16", "llama-3.1-8b", "1x8xh100-sxm", nemo(128, ""), 12.27),
        ("dgxc-llama31-8b-h100-64-bf16", "llama-3.1-8b", "8x8xh100-sxm", nemo(1024, ""), 12.33),
        ("dgxc-llama31-405b-h100-2048-bf16", "llama-3.1-405b", "256x8xh100-sxm", nemo(1024, large), 19.87),
    ];
    for (run, model, cluster, text, measured) in runs {
        let prediction = imported("nemo", model, cluster, &text).prediction;
        let [low, high] = prediction.interval.step_time_s.map(|time| time.0);
        let step = prediction.step_time_s;
        assert!(prediction.fits, "{run}");
        assert!((low..high).contains(&measured), "{run}: {step} ({low} to {high}), measured {measured}");
    }
    // Megatron-Bridge, 70B on 64 H100 in 8 bits (bridge2511-llama3-70b-h100-64-fp8-cs-tp4pp8cp1ep1).
    let text = format!(
        "{strategy}tensor_model_parallel_size=4 {strategy}sequence_parallel=True {strategy}pipeline_model_parallel_size=8 \
         {strategy}virtual_pipeline_model_parallel_size=5 data.micro_batch_size=1 data.global_batch_size=128 \
         data.seq_length=8192 optim.config.use_distributed_optimizer=True trainer.plugins.precision=bf16-mixed \
         trainer.plugins.fp8=hybrid trainer.plugins.grad_reduce_in_fp32=False"
    );
    let plan = imported("nemo", "llama-3.1-70b", "8x8xh100-sxm", &text);
    let ratio = plan.prediction.tokens_per_s_per_device / 1602.0;
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
}
