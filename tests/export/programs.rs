//! Files of programs that drive engines, small ones after what people have: what each means, and what is refused.

use std::path::{Path, PathBuf};

use meshwright::cluster;
use meshwright::export::error::ImportError;
use meshwright::export::import::{Understood, import};
use meshwright::export::{Assumptions, ModelClue, Reach, Said, Scene, profile_of};
use meshwright::model;
use meshwright::search::Problem;
use meshwright::strategy::{Draft, Workload};
use meshwright::units::ElementType;

/// A file, and what is typed beside it.
struct File {
    path: &'static str,
    /// Typed where the file does not say it.
    model: Option<&'static str>,
    cluster: &'static str,
    global_batch: Option<u64>,
    seq_len: Option<u64>,
    strategy: &'static str,
    assume: &'static [&'static str],
}

/// On one node of eight devices, with nothing typed.
const PLAIN: File = File {
    path: "",
    model: None,
    cluster: "1x8xa100-sxm-80gb",
    global_batch: None,
    seq_len: None,
    strategy: "",
    assume: &[],
};

fn place(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/programs").join(path)
}

impl File {
    fn of(path: &'static str) -> Self {
        Self { path, ..PLAIN }
    }

    /// Model, runner, strategy, sequence, precision and clipping, in one line; and the notes.
    fn read(&self) -> Result<(String, Vec<String>), ImportError> {
        let texts: Vec<String> = self.assume.iter().map(|text| (*text).to_owned()).collect();
        let imported = import(
            &place(self.path),
            None,
            Said { assumed: Assumptions::parse(&texts)?, ..Said::default() },
        )?;
        let name = match (self.model, imported.model()?) {
            (Some(name), _) => name.to_owned(),
            (None, Some(ModelClue::Preset(name))) => name.to_owned(),
            (None, other) => panic!("{}: {other:?}", self.path),
        };
        let model = model::load(&name).expect("a preset");
        let cluster = cluster::load(self.cluster).expect("a cluster");
        let typed = Draft::parse(self.strategy).expect("a strategy");
        let Understood { runner, meaning, left } = imported.understood(&Scene {
            model: &model,
            devices: cluster.devices(),
            devices_per_node: u64::from(cluster.devices_per_node),
            global_batch: self.global_batch,
            seq_len: self.seq_len,
            typed: Some(&typed),
        })?;
        assert_eq!(left, [], "{}: settings that are not understood", self.path);
        let workload = Workload {
            global_batch: self.global_batch.or(meaning.global_batch).expect("a batch"),
            seq_len: self.seq_len.or(meaning.seq_len).expect("a length"),
            precision: meaning.precision.unwrap_or(ElementType::Bf16),
            dropout: meaning.dropout.unwrap_or(0.0),
            clip: meaning.clip.unwrap_or(1.0),
        };
        let profile = profile_of(runner, &meaning, Reach::Files);
        let problem = Problem::new(&model, &cluster, workload, &profile, None);
        let strategy = meaning.draft.resolve(&problem.facts);
        let strategy = strategy.unwrap_or_else(|broken| panic!("{}: {}", self.path, broken.message));
        let Workload { global_batch, seq_len, precision, clip, .. } = workload;
        let strategy = strategy.text(problem.facts.defaults);
        let line = format!(
            "{name} {}: {strategy}; {global_batch} x {seq_len} {precision} clip {clip}{}{}",
            profile.name,
            if meaning.is_in_one_type { ", one type" } else { "" },
            if meaning.is_compiled { ", compiled" } else { "" },
        );
        Ok((line, meaning.notes))
    }

    #[track_caller]
    fn means(&self, wanted: &str) {
        let read = self.read().unwrap_or_else(|error| panic!("{}: {error}", self.path));
        assert_eq!(read.0, wanted, "{}", self.path);
    }

    #[track_caller]
    fn is_refused(&self, field: &str, part: &str) {
        let error = self.read().expect_err("it is refused");
        assert_eq!(error.field(), field, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn deepspeed_leaves_open_what_transformers_fill_in() {
    let typed = |path, strategy, global_batch| File {
        model: Some("llama-2-7b"),
        seq_len: Some(2048),
        strategy,
        global_batch,
        ..File::of(path)
    };
    typed("deepspeed/zero2_auto.json", "micro=2,ckpt=full", Some(64)).means(
        "llama-2-7b deepspeed: tp=1,pp=1,dp=8,zero=2,micro=2,accum=4,ckpt=full,offload=optimizer:1,bucket=200M; \
         64 x 2048 bf16 clip 1",
    );
    typed("deepspeed/zero3_auto.json", "micro=4,accum=2", None).means(
        "llama-2-7b deepspeed: tp=1,pp=1,dp=8,zero=3,micro=4,accum=2,bucket=16777216; 64 x 2048 bf16 clip 1",
    );
    typed("deepspeed/zero3_auto.json", "", Some(64))
        .is_refused("train_micro_batch_size_per_gpu", "--strategy micro=N");
    typed("deepspeed/zero3_offload.json", "accum=2", None).means(
        "llama-2-7b deepspeed: tp=1,pp=1,dp=8,zero=3,micro=4,accum=2,offload=optimizer:1+params:1,bucket=50M; \
         64 x 2048 bf16 clip 1",
    );
    typed("deepspeed/zero1_plain.json", "tp=2", None).means(
        "llama-2-7b deepspeed: tp=2,pp=1,dp=4,sp=off,zero=1,micro=4,accum=2,bucket=500M; 32 x 2048 bf16 clip 1",
    );
    let ignored = typed("deepspeed/zero2_offload_param.json", "", None);
    ignored.means(
        "llama-2-7b deepspeed: tp=1,pp=1,dp=8,zero=2,micro=4,accum=2,offload=optimizer:1,bucket=500M; \
         64 x 2048 fp16 clip 0.5",
    );
    let (_, notes) = ignored.read().unwrap();
    assert!(notes.iter().any(|note| note.contains("offload_param does nothing under stage 2")), "{notes:?}");
}

#[test]
fn accelerate_hands_its_settings_on() {
    let file = |path, strategy| File {
        model: Some("llama-2-7b"),
        seq_len: Some(2048),
        global_batch: Some(64),
        strategy,
        ..File::of(path)
    };
    file("accelerate/zero3_inline.yaml", "micro=2").means(
        "llama-2-7b deepspeed: tp=1,pp=1,dp=8,zero=3,micro=2,accum=4,offload=optimizer:1+params:1,bucket=500M; \
         64 x 2048 bf16 clip 1",
    );
    file("accelerate/zero3_inline.yaml", "").is_refused("strategy", "does not say the micro-batch");
    file("accelerate/zero3_file.yaml", "").means(
        "llama-2-7b deepspeed: tp=1,pp=1,dp=8,zero=3,micro=4,accum=2,offload=optimizer:1+params:1,bucket=50M; \
         64 x 2048 bf16 clip 1",
    );
    File { global_batch: None, ..file("accelerate/megatron.yaml", "micro=2") }.means(
        "llama-2-7b megatron: tp=2,pp=2,dp=2,zero=1,micro=2,accum=4,ckpt=selective; 16 x 2048 bf16 clip 1",
    );
    file("accelerate/fsdp1.yaml", "micro=4,ckpt=full").means(
        "llama-2-7b accelerate: tp=1,pp=1,dp=8,zero=3,micro=4,accum=2,sync=deferred,ckpt=full,\
         offload=optimizer:1+params:1; 64 x 2048 bf16 clip 1",
    );
    file("accelerate/fsdp2.yaml", "micro=8").means(
        "llama-2-7b accelerate: tp=1,pp=1,dp=8,zero=3,reshard=off,micro=8,accum=1,ckpt=full; 64 x 2048 bf16 clip 1",
    );
    file("accelerate/ddp.yaml", "")
        .means("llama-2-7b accelerate: tp=1,pp=1,dp=8,zero=0,micro=1,accum=8; 64 x 2048 fp16 clip 1");
    let assumed = File { assume: &["mixed_precision=bf16"], ..file("accelerate/zero3_file.yaml", "") };
    assumed.is_refused("mixed_precision", "refuses it beside deepspeed_config_file");
}

#[test]
fn llama_factory_recomputes_and_names_its_file() {
    File::of("llama_factory/full_zero3.yaml").means(
        "qwen2.5-7b deepspeed: tp=1,pp=1,dp=8,zero=3,micro=1,accum=2,ckpt=full,bucket=12845056; 16 x 8192 bf16 clip 1",
    );
    File::of("llama_factory/pretraining.yaml").means(
        "llama-3.1-8b deepspeed: tp=1,pp=1,dp=8,zero=3,micro=2,accum=8,loss=chunked,bucket=16777216; \
         128 x 4096 bf16 clip 0.5",
    );
    File::of("llama_factory/fsdp.yaml").means(
        "llama-3.1-8b accelerate: tp=1,pp=1,dp=8,zero=3,micro=4,accum=1,ckpt=full,offload=activations:1; \
         32 x 2048 bf16 clip 1",
    );
    File { model: Some("qwen2.5-7b"), ..File::of("llama_factory/ddp.yaml") }.means(
        "qwen2.5-7b accelerate: tp=1,pp=1,dp=8,zero=0,micro=8,accum=4,ckpt=full,attention=materialised; \
         256 x 2048 bf16 clip 1, one type",
    );
    File::of("llama_factory/lora.yaml").is_refused("finetuning_type", "line 4: `finetuning_type` is lora");
    let assumed = |assume| File { assume, ..File::of("llama_factory/full_zero3.yaml") };
    // Of the file beside it, too.
    assumed(&["zero_optimization.stage=2", "disable_gradient_checkpointing=true"]).means(
        "qwen2.5-7b deepspeed: tp=1,pp=1,dp=8,zero=2,micro=1,accum=2,bucket=12845056; 16 x 8192 bf16 clip 1",
    );
    assumed(&["zero_optimization.stag=2"]).is_refused("assume", "no such setting");
    assumed(&["stage=dpo"]).is_refused("stage", "as is assumed: `stage` is dpo");
    assumed(&["quantization_bit=4"]).is_refused("quantization_bit", "quantised");
    assumed(&["optim=adafactor"]).is_refused("optim", "two moments");
    assumed(&["gradient_clipping=0.5"]).is_refused("max_grad_norm", "transformers refuse what differs");
    // Its own file has the error, with its line.
    assumed(&["deepspeed=examples/ds_z9.json"]).is_refused("deepspeed", "no such file");
}

#[test]
fn axolotl_becomes_arguments_of_the_trainer() {
    File::of("axolotl/fsdp1.yaml").means(
        "llama-2-13b accelerate: tp=1,pp=1,dp=8,zero=3,micro=1,accum=1,ckpt=full; 8 x 4096 bf16 clip 1",
    );
    File { model: Some("qwen2.5-14b"), ..File::of("axolotl/fsdp2.yaml") }.means(
        "qwen2.5-14b accelerate: tp=1,pp=1,dp=8,zero=3,micro=2,accum=2,sync=deferred,ckpt=full,loss=chunked; \
         32 x 8192 bf16 clip 1",
    );
    File::of("axolotl/deepspeed.yaml").means(
        "mistral-7b deepspeed: tp=1,pp=1,dp=8,zero=2,micro=4,accum=4,ckpt=full,offload=optimizer:1+activations:1,\
         bucket=200M; 128 x 2048 bf16 clip 0.3",
    );
    File::of("axolotl/sequence_parallel.yaml").means(
        "llama-3.1-8b accelerate: tp=1,cp=4,pp=1,dp=2,zero=3,micro=1,accum=4,sync=deferred,ckpt=full; \
         8 x 32768 bf16 clip 1",
    );
    File::of("axolotl/qlora.yaml").is_refused("load_in_4bit", "not planned yet");
    let assumed = |assume| File { assume, ..File::of("axolotl/fsdp1.yaml") };
    assumed(&["adapter=lora"]).is_refused("adapter", "LoRA and QLoRA are not planned yet");
    assumed(&["rl=dpo"]).is_refused("rl", "not planned");
    assumed(&["optimizer=adamw_bnb_8bit"]).is_refused("optimizer", "two moments");
    assumed(&["fsdp_config.fsdp_shard=1"]).is_refused("fsdp_config.fsdp_shard", "no such key");
}

#[test]
fn recipes_of_torchtune_keep_one_type() {
    File::of("torchtune/llama3_1_8b.yaml").means(
        "llama-3.1-8b torchtitan: tp=1,pp=1,dp=8,zero=3,micro=2,accum=4,ckpt=full,loss=chunked; \
         64 x 8192 bf16 clip 1, one type",
    );
    File::of("torchtune/fp32_offload.yaml").means(
        "qwen2.5-7b torchtitan: tp=1,pp=1,dp=8,zero=3,micro=1,accum=8,ckpt=full,\
         offload=optimizer:1+params:1+activations:1,loss=chunked; 64 x 2048 fp32 clip 0",
    );
    File::of("torchtune/hybrid.yaml").means(
        "llama-2-13b torchtitan: tp=1,pp=1,dp=8,zero=3,shard=4,reshard=off,micro=1,accum=1; \
         8 x 4096 bf16 clip 0, one type, compiled",
    );
    File::of("torchtune/context.yaml").means(
        "llama-3.1-8b torchtitan: tp=1,cp=4,pp=1,dp=2,zero=3,micro=1,accum=1,ckpt=full,loss=chunked; \
         2 x 65536 bf16 clip 0, one type",
    );
    File::of("torchtune/lora.yaml").is_refused("model._component_", "LoRA is not planned yet");
    let assumed = |assume| File { assume, ..File::of("torchtune/llama3_1_8b.yaml") };
    assumed(&["optimizer._component_=bitsandbytes.optim.PagedAdamW8bit"])
        .is_refused("optimizer._component_", "two moments");
    assumed(&["optimizer_in_bwd=true"]).is_refused("optimizer_in_bwd", "inside the backward");
    assumed(&["data_parallel_shard_dim=3"]).is_refused("data_parallel_shard_dim", "8 devices");
    assumed(&["dtype=fp16"]).is_refused("dtype", "bf16, fp32");
}

#[test]
fn arguments_of_the_trainer_are_read_from_commands_python_and_documents() {
    File::of("trainer/deepspeed.sh").means(
        "llama-2-7b deepspeed: tp=1,pp=1,dp=8,zero=3,micro=4,accum=8,ckpt=full,bucket=16777216; 256 x 2048 bf16 clip 1",
    );
    File { cluster: "1x4xa100-sxm-80gb", ..File::of("trainer/fsdp.sh") }.means(
        "llama-2-7b accelerate: tp=1,pp=1,dp=4,zero=3,micro=4,accum=8,sync=deferred; 128 x 512 bf16 clip 1",
    );
    File::of("trainer/sft.py").means(
        "qwen2.5-7b accelerate: tp=1,pp=1,dp=8,zero=3,micro=2,accum=4,sync=deferred,ckpt=full; 64 x 2048 bf16 clip 0.3",
    );
    File { model: Some("gpt2"), ..File::of("trainer/arguments.json") }.means(
        "gpt2 accelerate: tp=1,pp=1,dp=8,zero=0,micro=16,accum=1,loss=chunked; 128 x 1024 fp16 clip 1",
    );
    // The launcher's file says how, the arguments how much.
    File::of("trainer/recipe.yaml").means(
        "llama-3.1-8b deepspeed: tp=1,pp=1,dp=8,zero=3,micro=2,accum=8,ckpt=full,offload=optimizer:1+params:1,\
         bucket=500M; 128 x 4096 bf16 clip 1",
    );
    let assumed = |path, assume| File { assume, ..File::of(path) };
    assumed("trainer/deepspeed.sh", &["lora_enable=true"])
        .is_refused("lora-enable", "LoRA is not planned yet");
    assumed("trainer/deepspeed.sh", &["auto_find_batch_size=true"])
        .is_refused("auto-find-batch-size", "found by trying");
    assumed("trainer/deepspeed.sh", &["per_device_train_batch_size=0"])
        .is_refused("per-device-train-batch-size", "at least 1");
    assumed("trainer/recipe.yaml", &["beta=0.01"]).is_refused("beta", "runs more than this model");
    assumed("trainer/recipe.yaml", &["num_generations=8"])
        .is_refused("num_generations", "runs more than this model");
    assumed("trainer/recipe.yaml", &["fsdp=ful_shard"]).is_refused("fsdp", "no option of it");
    assumed("trainer/recipe.yaml", &["fsdp=full_shard"]).is_refused("fsdp", "leave one of them out");
}
