//! YAML files of MaxText and of NeMo 1, small ones after what people have: what each means, and what is refused.

use std::path::Path;

use meshwright::cluster;
use meshwright::export::error::ImportError;
use meshwright::export::import::import;
use meshwright::export::{ModelClue, Reach, Said, Scene, profile_of};
use meshwright::model::{Model, hugging_face, load, preset};
use meshwright::search::Problem;
use meshwright::strategy::{Draft, Workload};
use meshwright::units::ElementType;

/// What a file says, in one line, and the notes; `model` is typed where the file does not say one.
fn read(path: &str, model: Option<&str>, cluster: &str) -> Result<(String, Vec<String>), ImportError> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/programs").join(path);
    let imported = import(&place, None, Said::default())?;
    let model: Model = match (model, imported.model()) {
        (Some(name), _) => load(name).expect("a preset"),
        (None, Err(error)) => return Err(error),
        (None, Ok(Some(ModelClue::Preset(name)))) => {
            preset(name).expect("a preset").model().expect("its model")
        }
        (None, Ok(Some(ModelClue::Config(config)))) => {
            hugging_face::import(&config, "own").expect("a config")
        }
        (None, Ok(other)) => panic!("{path}: {other:?}"),
    };
    let cluster = cluster::load(cluster).expect("a cluster");
    let typed = Draft::parse("").expect("nothing");
    let understood = imported.understood(&Scene {
        model: &model,
        devices: cluster.devices(),
        devices_per_node: u64::from(cluster.devices_per_node),
        global_batch: None,
        seq_len: None,
        typed: Some(&typed),
    })?;
    assert_eq!(understood.left, [], "{path}: settings that are not understood");
    let meaning = understood.meaning;
    let workload = Workload {
        global_batch: meaning.global_batch.expect("a batch"),
        seq_len: meaning.seq_len.expect("a length"),
        precision: meaning.precision.unwrap_or(ElementType::Bf16),
        dropout: meaning.dropout.unwrap_or(0.0),
        clip: meaning.clip.unwrap_or(1.0),
    };
    let profile = profile_of(understood.runner, &meaning, Reach::Files);
    let problem = Problem::new(&model, &cluster, workload, &profile, None);
    let strategy = meaning.draft.resolve(&problem.facts);
    let strategy = strategy.unwrap_or_else(|broken| panic!("{path}: {}", broken.message));
    let Workload { global_batch, seq_len, precision, dropout, clip } = workload;
    let line = format!(
        "{} parameters, {}: {}; {global_batch} x {seq_len} {precision} dropout {dropout} clip {clip}",
        model.parameter_count(),
        profile.name,
        strategy.text(problem.facts.defaults),
    );
    Ok((line, meaning.notes))
}

#[track_caller]
fn means(path: &str, model: Option<&str>, cluster: &str, wanted: &str) {
    let (line, _) = read(path, model, cluster).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(line, wanted, "{path}");
}

#[test]
fn nemo_files_are_arguments_of_megatron() {
    means(
        "nemo/gpt_175b.yaml",
        None,
        "32x8xa100-sxm-80gb",
        "174615846912 parameters, nemo: tp=8,pp=16,dp=2,sched=interleaved,virtual=6,zero=1,micro=2,accum=384,\
         ckpt=selective,grad=bf16,reduce=bf16; 1536 x 2048 bf16 dropout 0.1 clip 1",
    );
    means(
        "nemo/llama2_7b.yaml",
        None,
        "1x8xa100-sxm-80gb",
        "6738415616 parameters, nemo: tp=2,cp=2,pp=1,dp=2,zero=1,micro=1,accum=64,ckpt=full; \
         128 x 4096 bf16 dropout 0 clip 0",
    );
    means(
        "nemo/mixtral.yaml",
        None,
        "2x8xa100-sxm-80gb",
        "46702792704 parameters, nemo: tp=2,pp=2,dp=4,ep=4,zero=1,micro=1,accum=16; 64 x 4096 bf16 dropout 0 clip 1",
    );
}

#[test]
fn full_recomputation_of_no_block_is_none() {
    let (line, _) = read("nemo/no_block.yaml", None, "1x8xa100-sxm-80gb").unwrap();
    assert!(
        line.contains("tp=8,pp=1,dp=1,sp=off,zero=0,micro=2,accum=32,grad=fp16; 64 x 2048 fp16"),
        "{line}"
    );
}

#[test]
fn a_vocabulary_of_a_tokenizer_is_asked_for() {
    let error = read("nemo/gpt_126m.yaml", None, "1x8xa100-sxm-80gb").unwrap_err().to_string();
    assert!(error.contains("the vocabulary (model.override_vocab_size): give MODEL"), "{error}");
    let (line, notes) = read("nemo/gpt_126m.yaml", Some("gpt2"), "1x8xa100-sxm-80gb").unwrap();
    assert_eq!(
        line,
        "124439808 parameters, nemo: tp=1,pp=1,dp=8,zero=0,micro=4,accum=8; 256 x 1024 bf16 dropout 0.1 clip 0"
    );
    assert!(notes.iter().any(|note| note.starts_with("Without megatron_amp_O2")), "{notes:?}");
}

#[test]
fn what_nemo_runs_otherwise_is_refused_with_its_place() {
    let error = read("nemo/lora.yaml", Some("llama-2-7b"), "1x8xa100-sxm-80gb").unwrap_err();
    assert_eq!(error.field(), "model.peft.peft_scheme", "{error}");
    assert!(error.to_string().contains("line 13"), "{error}");
    let error = read("nemo/fsdp.yaml", Some("llama-2-7b"), "1x8xa100-sxm-80gb").unwrap_err();
    assert_eq!(error.field(), "model.fsdp", "{error}");
    let error = read("nemo/fsdp.yaml", None, "1x8xa100-sxm-80gb").unwrap_err();
    assert_eq!(
        (error.field().as_str(), error.nearest().join(", ")),
        ("model.activation", "swiglu, gelu".to_owned()),
        "{error}"
    );
}

#[test]
fn maxtext_files_say_what_its_arguments_say() {
    means(
        "maxtext/llama2_7b.yml",
        None,
        "4x8xh100-sxm",
        "6738415616 parameters, maxtext: tp=1,pp=1,dp=32,zero=3,shard=8,micro=4,accum=1,ckpt=selective; \
         128 x 4096 bf16 dropout 0 clip 1",
    );
    means(
        "maxtext/mixtral.yml",
        None,
        "2x8xh100-sxm",
        "46702792704 parameters, maxtext: tp=1,pp=1,dp=16,ep=8,zero=3,micro=2,accum=4,ckpt=full; \
         128 x 2048 bf16 dropout 0 clip 1",
    );
    means(
        "maxtext/own_sizes.yml",
        None,
        "1x8xh100-sxm",
        "1590790144 parameters, maxtext: tp=2,pp=1,dp=4,sp=off,zero=3,micro=2,accum=1,ckpt=full; \
         8 x 2048 bf16 dropout 0 clip 1",
    );
    means(
        "maxtext/offload.yml",
        None,
        "1x8xh100-sxm",
        "8030261248 parameters, maxtext: tp=1,pp=1,dp=8,zero=3,micro=2,accum=1,ckpt=selective,offload=activations:1; \
         16 x 8192 bf16 dropout 0 clip 1",
    );
}
